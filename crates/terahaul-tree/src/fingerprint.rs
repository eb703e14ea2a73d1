//! Fingerprints of entries, by which two ends find out what they have alike without naming it.

use terahaul_core::{Entry, EntryKind, Mtime, Owner};

/// Eight bytes that stand for an entry: its name, kind, size or text, time, permission bits and, where that is kept, owner. Neither
/// the folder that it is in nor extended attributes are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

/// Makes fingerprints. Their key is new for each copy, so that nobody can make two files that have one: among a million changed
/// files, in folders of a thousand each, one is taken for unchanged with a chance of 10⁻¹⁰.
#[derive(Clone)]
pub struct Fingerprinter {
    key: [u8; 32],
    bytes: Vec<u8>,
}

impl Fingerprinter {
    /// With this key.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key, bytes: Vec::new() }
    }

    /// An entry's.
    pub fn of(&mut self, entry: &Entry) -> Fingerprint {
        let owner = entry.extra.as_ref().and_then(|extra| extra.owner.as_deref());
        self.of_parts(entry.path.split().1, &entry.kind, entry.mtime, entry.mode, owner)
    }

    /// That of what is called `name`.
    pub(crate) fn of_parts(
        &mut self,
        name: &[u8],
        kind: &EntryKind,
        mtime: Mtime,
        mode: u32,
        owner: Option<&Owner>,
    ) -> Fingerprint {
        let bytes = &mut self.bytes;
        bytes.clear();
        let (kind, size, text): (u8, u64, &[u8]) = match kind {
            EntryKind::File { size } => (0, size.0, &[]),
            EntryKind::Directory => (1, 0, &[]),
            EntryKind::Symlink { target } => (2, target.len() as u64, target),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&mtime.seconds.to_le_bytes());
        bytes.extend_from_slice(&mtime.nanos.to_le_bytes());
        bytes.extend_from_slice(&mode.to_le_bytes());
        bytes.push(u8::from(owner.is_some()));
        if let Some(Owner { user, group, user_name, group_name }) = owner {
            // As a receiver takes them: by name where there is one.
            for (number, name) in [(user, user_name), (group, group_name)] {
                let number = number.to_le_bytes();
                let (is_name, who) = name.as_deref().map_or((0, &number[..]), |name| (1, name));
                bytes.extend_from_slice(&[is_name, who.len() as u8]);
                bytes.extend_from_slice(who);
            }
        }
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(text);
        let hash = blake3::keyed_hash(&self.key, bytes);
        let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
        Fingerprint(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use terahaul_core::{ByteCount, EntryPath, Extra};

    use super::*;

    fn owned(user: u32, user_name: Option<&[u8]>) -> Option<Box<Extra>> {
        let owner = Owner { user, group: 5, user_name: user_name.map(Into::into), group_name: None };
        Extra { owner: Some(Arc::new(owner)), ..Extra::default() }.into_option()
    }

    #[test]
    fn whatever_differs_between_two_entries_beside_their_folders_differs_between_their_fingerprints() {
        let file = |path: &str| Entry {
            path: EntryPath::new(path.as_bytes()).unwrap(),
            kind: EntryKind::File { size: ByteCount(3) },
            mtime: Mtime { seconds: 7, nanos: 8 },
            mode: 0o644,
            extra: None,
        };
        let link = |text: &str| EntryKind::Symlink { target: text.as_bytes().into() };
        let entries = [
            file("d/a"),
            file("d/b"),
            Entry { kind: EntryKind::File { size: ByteCount(4) }, ..file("d/a") },
            Entry { kind: EntryKind::Directory, ..file("d/a") },
            Entry { kind: link("xyz"), ..file("d/a") },
            Entry { kind: link("xyy"), ..file("d/a") },
            // Its name's end and its text's beginning are not one.
            Entry { kind: link("yz"), ..file("d/ax") },
            Entry { mtime: Mtime { seconds: 8, nanos: 8 }, ..file("d/a") },
            Entry { mtime: Mtime { seconds: 7, nanos: 7 }, ..file("d/a") },
            Entry { mode: 0o645, ..file("d/a") },
            Entry { extra: owned(1, None), ..file("d/a") },
            Entry { extra: owned(2, None), ..file("d/a") },
            Entry { extra: owned(2, Some(b"two")), ..file("d/a") },
        ];
        let mut maker = Fingerprinter::new([1; 32]);
        let all: HashSet<_> = entries.iter().map(|entry| maker.of(entry)).collect();
        assert_eq!(all.len(), entries.len());
        assert_eq!(maker.of(&file("d/a")), maker.of(&file("e/f/a")));
        let [named, elsewhere] = [2, 3].map(|user| Entry { extra: owned(user, Some(b"two")), ..file("d/a") });
        assert_eq!(maker.of(&named), maker.of(&elsewhere), "who has a name is known by it");
        assert_ne!(maker.of(&file("d/a")), Fingerprinter::new([2; 32]).of(&file("d/a")));
    }
}
