//! What tells an older copy of a store from the store: a number that grows, and that whoever uses the store keeps elsewhere, too.

use std::io::{self, IoSlice};

use crate::StorePlace::Incoming;
use crate::{FlatFile, Folders};

/// In the folder of what is being received, so that whoever copies that copies this; before all objects where that goes by name, as nothing in
/// a copy should be older than it says.
const NAME: &str = "0-generation";
/// What it is written to before.
const NEW: &str = "0-generation.new";
/// The digits of the largest number.
const MOST: usize = 20;

/// How often a store was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u64);

impl Generation {
    /// The one after this; the last one's is itself.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The one that is kept in the folders. What is no number counts as none.
pub(crate) fn read(folders: &impl Folders) -> io::Result<Option<Generation>> {
    let file = match folders.open(Incoming, NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = [0; MOST];
    let text = &mut text[..usize::try_from(file.end()?).unwrap_or(MOST).min(MOST)];
    file.read_at(0, text)?;
    Ok(std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).map(Generation))
}

/// Keeps it, durably: after a power cut there is this one or the one of before.
pub(crate) fn write(folders: &impl Folders, generation: Generation) -> io::Result<()> {
    match folders.unlink(Incoming, NEW) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = folders.create(Incoming, NEW)?;
    file.write_at(0, &[IoSlice::new(generation.0.to_string().as_bytes())])?;
    file.sync()?;
    folders.rename_within(Incoming, NEW, NAME)?;
    folders.sync(Incoming)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power_cut::{PowerCutDisk, Survivors};
    use crate::{DirectoryStore, Store};

    #[test]
    fn whenever_the_power_is_cut_there_is_the_one_of_before_or_the_one_that_was_to_be_kept() {
        let cuts = (0..40).map(Survivors::Random).chain([Survivors::None]);
        for (survivors, calls) in cuts.flat_map(|cut| (0..8).map(move |calls| (cut, calls))) {
            let disk = PowerCutDisk::default();
            let store = DirectoryStore::over(disk.clone());
            assert_eq!(store.generation().unwrap(), None);
            assert!(store.keep_generation(Generation(u64::MAX - 1)).unwrap());
            disk.fail_after(calls);
            let kept = store.keep_generation(Generation(u64::MAX)).is_ok();
            disk.power_cut(survivors);
            let found = store.generation().unwrap();
            let expected = [Some(Generation(u64::MAX - u64::from(!kept))), Some(Generation(u64::MAX))];
            assert!(expected.contains(&found), "{survivors:?} after {calls} calls: {found:?}");
            // What a power cut left of it is in nobody's way.
            assert!(store.keep_generation(Generation(u64::MAX)).unwrap());
            assert!(store.list().unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_no_number_counts_as_none() {
        let disk = PowerCutDisk::default();
        for (text, number) in [("", None), ("7", Some(7)), ("-1", None), ("184467440737095516160", None)] {
            let file = disk.create(Incoming, NEW).unwrap();
            file.write_at(0, &[IoSlice::new(text.as_bytes())]).unwrap();
            disk.rename_within(Incoming, NEW, NAME).unwrap();
            assert_eq!(read(&disk).unwrap(), number.map(Generation), "{text}");
        }
    }
}
