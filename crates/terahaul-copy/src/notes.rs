//! What the two ends of a copy tell each other besides the protocol's messages.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use terahaul_core::{Entry, EntryIndex};
use terahaul_tree::decision::{Changes, Decision};

use crate::skipped::Walked;

/// Items in one note: some hundred kilobytes at most.
const AT_ONCE: usize = 1000;
/// Removals that are told; there may be millions.
pub(crate) const MOST_REMOVED: usize = 100_000;
/// The number of the destination itself, which is no entry. Earlier versions pass over what has none that they know.
pub(crate) const DESTINATION: EntryIndex = EntryIndex(u32::MAX);

/// A note.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum Note {
    /// Receiver: what becomes of these entries.
    #[n(0)]
    Changed(#[n(0)] Vec<Changed>),
    /// Receiver: what was removed.
    #[n(1)]
    Removed(#[n(0)] Vec<Removed>),
    /// Sender, before the end: what of the source is not in the manifest, as so many errors and paths. Earlier versions name none.
    #[n(2)]
    Walked(#[n(0)] u64, #[n(1)] Option<Vec<ByteVec>>),
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Changed {
    #[n(0)]
    pub entry: u32,
    /// Its content is written; otherwise only metadata.
    #[n(1)]
    pub written: bool,
    /// [`Changes::to_bits`].
    #[n(2)]
    pub changes: u16,
}

/// Something that was removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Removed {
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    #[n(1)]
    pub folder: bool,
}

impl Changed {
    /// `None` where nothing changes.
    pub(crate) fn of(EntryIndex(entry): EntryIndex, decision: Decision) -> Option<Self> {
        let (written, changes) = match decision {
            Decision::Write(changes) | Decision::Compare(changes) => (true, changes),
            Decision::Metadata(changes) => (false, changes),
            Decision::Skip(_) | Decision::Refuse(_) => return None,
        };
        Some(Self { entry, written, changes: changes.to_bits() })
    }

    /// What becomes of the destination itself.
    pub(crate) fn of_destination(decision: Decision) -> Option<Self> {
        Self::of(DESTINATION, decision)
    }
}

/// Something that a copy changes at the destination, for whoever wants to read it.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// An entry is written, or gets metadata.
    Entry {
        /// Which.
        entry: &'a Entry,
        /// Its content is written; otherwise only metadata.
        written: bool,
        /// How what was there differs.
        changes: Changes,
    },
    /// The destination itself becomes what the source is: it is made, or gets metadata.
    Destination {
        /// It is made; otherwise only metadata.
        written: bool,
        /// How what was there differs.
        changes: Changes,
    },
    /// Something that the source has not is removed.
    Removed {
        /// Its path.
        path: &'a [u8],
        /// It is a folder.
        folder: bool,
    },
}

impl Note {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing to memory does not fail.
        let _ = minicbor::encode(self, &mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        minicbor::decode(bytes).ok()
    }

    /// In notes that are short enough.
    pub(crate) fn split(changed: &[Changed], removed: &[Removed]) -> Vec<Vec<u8>> {
        let changed = changed.chunks(AT_ONCE).map(|some| Self::Changed(some.to_vec()).encode());
        // A path may have 4 KiB.
        let removed = removed.chunks(AT_ONCE / 10).map(|some| Self::Removed(some.to_vec()).encode());
        changed.chain(removed).collect()
    }

    /// Gives each item to `tell`; `entry` knows the manifest.
    pub(crate) fn read(self, entry: &dyn Fn(EntryIndex) -> Option<Entry>, tell: &mut dyn FnMut(Item<'_>)) {
        match self {
            Self::Changed(changed) => {
                changed.into_iter().for_each(|Changed { entry: index, written, changes }| {
                    let (index, changes) = (EntryIndex(index), Changes::from_bits(changes));
                    if index == DESTINATION {
                        tell(Item::Destination { written, changes });
                    } else if let Some(entry) = entry(index) {
                        tell(Item::Entry { entry: &entry, written, changes });
                    }
                })
            }
            Self::Removed(removed) => {
                removed
                    .iter()
                    .for_each(|Removed { path, folder }| tell(Item::Removed { path, folder: *folder }));
            }
            Self::Walked(..) => {}
        }
    }
}

/// What the other end may still tell of: what is heard of it is kept until somebody has read it, and he may tell without end.
#[derive(Debug)]
pub(crate) struct Hearing {
    itemise: bool,
    /// Entries before this one were told of. They come in order, and again where the connection is lost.
    next: u64,
    removed: usize,
    removed_bytes: usize,
}

/// Bytes of the notes that tell of what is removed.
const MOST_REMOVED_BYTES: usize = 32 << 20;

impl Hearing {
    /// Of one that was asked to tell, or was not.
    pub(crate) fn new(itemise: bool) -> Self {
        Self { itemise, next: 0, removed: 0, removed_bytes: 0 }
    }

    /// The note, where it is to be read. `entries` were offered so far.
    pub(crate) fn take(&mut self, bytes: &[u8], entries: usize) -> Option<Note> {
        let mut note = if self.itemise { Note::decode(bytes)? } else { return None };
        let may = match &mut note {
            Note::Changed(changed) => {
                changed.retain(|&Changed { entry, .. }| {
                    let is_one = (entry as usize) < entries || EntryIndex(entry) == DESTINATION;
                    let is_new = is_one && u64::from(entry) >= self.next;
                    if is_new {
                        self.next = u64::from(entry) + 1;
                    }
                    is_new
                });
                !changed.is_empty()
            }
            Note::Removed(removed) => {
                self.removed = self.removed.saturating_add(removed.len());
                self.removed_bytes = self.removed_bytes.saturating_add(bytes.len());
                self.removed <= MOST_REMOVED && self.removed_bytes <= MOST_REMOVED_BYTES
            }
            Note::Walked(..) => false,
        };
        may.then_some(note)
    }
}

impl From<Walked> for Note {
    fn from(Walked { errors, kept }: Walked) -> Self {
        let kept: Vec<_> = kept.iter().map(|path| ByteVec::from(path.as_bytes().to_vec())).collect();
        Self::Walked(errors, (!kept.is_empty()).then_some(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn notes_read_back_and_fit_a_message(
            changed in proptest::collection::vec((any::<u32>(), any::<bool>(), 0u16..1024), 0..2500),
            removed in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..50), any::<bool>()), 0..250),
        ) {
            let changed: Vec<_> =
                changed.into_iter().map(|(entry, written, changes)| Changed { entry, written, changes }).collect();
            let removed: Vec<_> = removed.into_iter().map(|(path, folder)| Removed { path, folder }).collect();
            let (mut changed_back, mut removed_back) = (Vec::new(), Vec::new());
            for bytes in Note::split(&changed, &removed) {
                prop_assert!(bytes.len() < terahaul_wire::MAX_MESSAGE);
                match Note::decode(&bytes).unwrap() {
                    Note::Changed(some) => changed_back.extend(some),
                    Note::Removed(some) => removed_back.extend(some),
                    Note::Walked(..) => {}
                }
            }
            prop_assert_eq!((changed_back, removed_back), (changed, removed));
        }

        #[test]
        fn any_bytes_are_a_note_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Note::decode(&bytes);
        }
    }

    #[test]
    fn who_tells_without_end_is_not_heard_for_ever() {
        let changed = |count| {
            let of = |entry| Changed { entry, written: true, changes: 0 };
            Note::Changed((0..count).map(of).collect()).encode()
        };
        let destination = Changed { entry: DESTINATION.0, written: false, changes: 0 };
        let removed =
            |len| Note::Removed(vec![Removed { path: vec![b'x'; len], folder: false }; 100]).encode();
        let mut asked = Hearing::new(true);
        let heard = |hearing: &mut Hearing, note: &[u8], times| {
            (0..times).filter(|_| hearing.take(note, 500).is_some()).count()
        };
        assert_eq!(heard(&mut asked, &changed(100), 1_000), 1, "each entry once");
        let Some(Note::Changed(more)) = asked.take(&changed(900), 500) else { panic!("there are more") };
        assert_eq!(more.iter().map(|one| one.entry).collect::<Vec<_>>(), (100..500).collect::<Vec<_>>());
        assert_eq!(heard(&mut asked, &Note::Changed(vec![destination]).encode(), 5), 1);
        assert_eq!(heard(&mut asked, &removed(0), 10_000), MOST_REMOVED / 100);
        let mut asked = Hearing::new(true);
        assert!(heard(&mut asked, &removed(4_000), 1_000) < 100, "long paths");
        assert_eq!(heard(&mut Hearing::new(false), &removed(1), 5), 0, "nobody has asked");
        assert_eq!(Hearing::new(true).take(&Note::Walked(1, None).encode(), 500), None);
    }

    /// An older far side takes the number and passes over the names; an older near side says the number alone.
    #[test]
    fn what_a_walk_came_to_is_said_to_older_and_newer_programs() {
        #[derive(Debug, PartialEq, Eq, Encode, Decode)]
        enum Older {
            #[n(2)]
            Walked(#[n(0)] u64),
        }
        let kept = vec![terahaul_core::EntryPath::new(&b"a/fifo"[..]).unwrap()];
        let said = Note::from(Walked { errors: 3, kept }).encode();
        assert_eq!(minicbor::decode::<Older>(&said).unwrap(), Older::Walked(3));
        assert_eq!(Note::decode(&said).unwrap(), Note::Walked(3, Some(vec![b"a/fifo".to_vec().into()])));
        let older = minicbor::to_vec(Older::Walked(5)).unwrap();
        assert_eq!(Note::decode(&older).unwrap(), Note::Walked(5, None));
    }
}
