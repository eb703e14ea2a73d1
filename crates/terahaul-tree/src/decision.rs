//! What a receiver does with an entry, given what is in its place and what the user asked for. Pure.
//!
//! | in its place is | a folder arrives | a file arrives | a link arrives |
//! |---|---|---|---|
//! | nothing | written | written | written |
//! | a folder | metadata | refused, unless empty or [`MakeWay::Whole`] | the same |
//! | a file | replaces it | compared | replaces it |
//! | a link | replaces it | replaces it | compared by its text |
//! | anything else | replaces it | replaces it | replaces it |
//!
//! Where only what is there is to be updated, or only new things are wanted, no folder replaces anything.

use terahaul_core::{ByteCount, Entry, EntryKind, Mtime};

use crate::{Permissions, Top};

/// What the user asked for about what is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// A file that is newer than the one that arrives stays (`--update`).
    pub update: bool,
    /// Nothing is made that is not there (`--existing`).
    pub only_existing: bool,
    /// What is there stays as it is; folders are entered (`--ignore-existing`).
    pub only_new: bool,
    /// When a file counts as unchanged.
    pub compare: Compare,
    /// What may be removed to make way for an entry of another kind.
    pub make_way: MakeWay,
    /// Which permission bits are kept.
    pub permissions: Permissions,
    /// The file system there keeps every other second alone, as FAT does. Whoever looks at what is there finds that out.
    pub even_seconds: bool,
}

impl Rules {
    fn leeway(&self) -> Leeway {
        let window = match self.compare {
            Compare::SizeAndTime { window } => window,
            Compare::Size | Compare::Content | Compare::Never => 0,
        };
        Leeway { window, even_seconds: self.even_seconds }
    }

    /// How what is kept beside contents differs.
    fn compare(&self, (mtime, mode): (Mtime, u32), found: &Found, differs: Differs) -> Changes {
        Changes {
            time: !same_time(mtime, found.mtime, self.leeway()),
            mode: self.permissions == Permissions::Exact && mode != found.mode,
            other: differs,
            ..Changes::default()
        }
    }
}

/// When a file counts as unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The same size, and modification times at most `window` seconds apart.
    SizeAndTime {
        /// 0 to 1 day or more; 0 still takes a time that the file system has cut to what it can keep for the same.
        window: u32,
    },
    /// The same size (`--size-only`).
    Size,
    /// The same size and content, whatever the times (`--checksum`).
    Content,
    /// Never (`--ignore-times`).
    Never,
}

impl Default for Compare {
    fn default() -> Self {
        Self::SizeAndTime { window: 0 }
    }
}

/// What may be removed to make way for an entry of another kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MakeWay {
    /// Anything but a folder that has something in it.
    #[default]
    Empty,
    /// Folders with all that is in them too (`--delete`, `--force`).
    Whole,
}

/// What is in an entry's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: FoundKind,
    /// When it was last modified.
    pub mtime: Mtime,
    /// Its permission bits.
    pub mode: u32,
}

/// What kind of thing is in an entry's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A regular file.
    File {
        /// Its length.
        size: ByteCount,
    },
    /// A folder.
    Folder {
        /// Whether it may make way: nothing is in it, or with [`MakeWay::Whole`] nothing that has to stay. Looked at only
        /// where something else is to take its place.
        yields: bool,
    },
    /// A symbolic link.
    Symlink {
        /// Its text.
        target: Box<[u8]>,
    },
    /// A device, a FIFO, a socket; the words say which.
    Special(&'static str),
}

/// What the shell found out beside [`Found`], where the entry carries it and it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differs {
    /// The user is another one.
    pub user: bool,
    /// The group is another one.
    pub group: bool,
    /// Access control lists differ.
    pub acl: bool,
    /// Other extended attributes differ.
    pub xattrs: bool,
}

/// How what is there differs from the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Nothing is there.
    pub new: bool,
    /// What is there is of another kind.
    pub kind: bool,
    /// The content: of a file, or a link's text. With [`Decision::Compare`] it is not known yet.
    pub content: bool,
    /// The size.
    pub size: bool,
    /// The modification time.
    pub time: bool,
    /// The permission bits.
    pub mode: bool,
    /// Owner and attributes.
    pub other: Differs,
}

impl Changes {
    /// One bit a difference, in the order of the fields from the lowest on.
    pub fn to_bits(self) -> u16 {
        let Self { new, kind, content, size, time, mode, other } = self;
        let Differs { user, group, acl, xattrs } = other;
        let all = [new, kind, content, size, time, mode, user, group, acl, xattrs];
        all.iter().rev().fold(0, |bits, &set| bits << 1 | u16::from(set))
    }

    /// Reads [`to_bits`](Self::to_bits); bits beyond are passed over.
    pub fn from_bits(bits: u16) -> Self {
        let set = |bit: u16| bits >> bit & 1 == 1;
        let other = Differs { user: set(6), group: set(7), acl: set(8), xattrs: set(9) };
        let (new, kind, content) = (set(0), set(1), set(2));
        Self { new, kind, content, size: set(3), time: set(4), mode: set(5), other }
    }

    fn has_metadata(self) -> bool {
        self.time || self.mode || self.other != Differs::default()
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is left as it is.
    Skip(Reason),
    /// What is there stays, and gets the entry's metadata.
    Metadata(Changes),
    /// It is made or replaced.
    Write(Changes),
    /// Written, unless the content of what is there turns out to be the same: then as [`Decision::with_content`] says.
    Compare(Changes),
    /// It cannot be written.
    Refuse(Refused),
}

/// Why an entry is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is there already, the same.
    Same,
    /// What is there is newer.
    Newer,
    /// Something is there, and only new things are wanted.
    Exists,
    /// Nothing is there, and only what is there is to be updated.
    Missing,
}

/// Why an entry cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A folder with something in it that stays is in its place.
    FolderInTheWay,
    /// It is a folder, and what is in its place is none, and stays.
    InPlaceOfFolder,
    /// It is a folder, what is in its place is none, and what is in it would be new.
    NewInPlaceOfFolder,
    /// Something above it is not a folder, and stays.
    NotAFolder,
    /// It is another name of a file of which the first name does not become the sender's file.
    FirstName,
    /// It has the name of a staging folder, or is in one: the next transfer of that name would believe what it finds there.
    StagingName,
}

impl Decision {
    /// What becomes of a [`Decision::Compare`] once both contents are known.
    pub fn with_content(self, same: bool) -> Self {
        match self {
            Self::Compare(changes) if !same => Self::Write(Changes { content: true, ..changes }),
            Self::Compare(changes) if changes.has_metadata() => Self::Metadata(changes),
            Self::Compare(_) => Self::Skip(Reason::Same),
            decided => decided,
        }
    }

    /// What becomes of an entry where nothing of the file that is there may stay.
    pub(crate) fn replacing(self) -> Self {
        match self {
            Self::Metadata(changes) | Self::Compare(changes) => {
                Self::Write(Changes { content: true, ..changes })
            }
            Self::Skip(Reason::Same) => Self::Write(Changes { content: true, ..Changes::default() }),
            decided => decided,
        }
    }
}

/// Digits that file systems cut from the nanoseconds of a time: none, or to tenths of a microsecond (NTFS), microseconds,
/// milliseconds (HDFS), hundredths of a second (exFAT) or whole seconds.
const CUT_DIGITS: [u32; 6] = [0, 2, 3, 6, 7, 9];

/// How far apart times may be that count as the same, beyond what almost any file system may cut from one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leeway {
    /// So many seconds.
    pub window: u32,
    /// What was found may have been cut to a second that is even. Elsewhere that would be a time of its own.
    pub even_seconds: bool,
}

/// Whether `found` is `wanted`, or what a file system that keeps less of a time has made of it, or no further apart than there is leeway.
pub fn same_time(wanted: Mtime, found: Mtime, leeway: Leeway) -> bool {
    let Leeway { window, even_seconds } = leeway;
    let cut = |digits: u32| wanted.nanos - wanted.nanos % 10_u32.pow(digits);
    if wanted.seconds == found.seconds && CUT_DIGITS.iter().any(|&digits| cut(digits) == found.nanos) {
        return true;
    }
    let even = Mtime { seconds: wanted.seconds - wanted.seconds.rem_euclid(2), nanos: 0 };
    if even_seconds && found == even {
        return true;
    }
    window > 0 && nanoseconds(wanted).abs_diff(nanoseconds(found)) <= u128::from(window) * 1_000_000_000
}

fn nanoseconds(time: Mtime) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

/// Decides. `differs` tells of owner and attributes; it does not matter where nothing is there.
pub fn decide(entry: &Entry, found: Option<&Found>, differs: Differs, rules: &Rules) -> Decision {
    let Some(found) = found else {
        return match rules.only_existing {
            true => Decision::Skip(Reason::Missing),
            false => Decision::Write(Changes { new: true, ..Changes::default() }),
        };
    };
    let both_folders = matches!((&entry.kind, &found.kind), (EntryKind::Directory, FoundKind::Folder { .. }));
    if rules.only_new && !both_folders {
        return match entry.kind {
            // With all that is in it, which nobody would hear of.
            EntryKind::Directory => Decision::Refuse(Refused::InPlaceOfFolder),
            EntryKind::File { .. } | EntryKind::Symlink { .. } => {
                let is_same = is_same(entry, found, differs, rules);
                Decision::Skip(if is_same { Reason::Same } else { Reason::Exists })
            }
        };
    }
    if rules.only_existing && entry.kind == EntryKind::Directory && !both_folders {
        // An empty one in place of what is there would be all that comes of it.
        return Decision::Refuse(Refused::NewInPlaceOfFolder);
    }
    let leeway = rules.leeway();
    let changes = rules.compare((entry.mtime, entry.mode), found, differs);
    match (&entry.kind, &found.kind) {
        (EntryKind::Directory, FoundKind::Folder { .. }) => metadata_of(changes),
        (EntryKind::Symlink { target }, FoundKind::Symlink { target: there }) if target == there => {
            // A link has no permission bits of its own.
            metadata_of(Changes { mode: false, ..changes })
        }
        (EntryKind::Symlink { .. }, FoundKind::Symlink { .. }) => {
            Decision::Write(Changes { content: true, mode: false, ..changes })
        }
        (EntryKind::File { size }, FoundKind::File { size: there }) => {
            let changes = Changes { size: size != there, ..changes };
            if rules.update && is_newer(found.mtime, entry.mtime, leeway) {
                return Decision::Skip(Reason::Newer);
            }
            decide_file(changes, rules.compare)
        }
        (EntryKind::File { .. } | EntryKind::Symlink { .. }, FoundKind::Folder { yields: false }) => {
            Decision::Refuse(Refused::FolderInTheWay)
        }
        _ => Decision::Write(Changes { kind: true, ..Changes::default() }),
    }
}

/// The receiving folder itself, where it becomes what the source is. It is made in any case.
pub(crate) fn decide_top(top: &Top, found: Option<&Found>, differs: Differs, rules: &Rules) -> Decision {
    match found {
        None => Decision::Write(Changes { new: true, ..Changes::default() }),
        Some(found) => metadata_of(rules.compare((top.mtime, top.mode), found, differs)),
    }
}

/// Another name of a file: `linked` says that what is there is that file already.
pub fn decide_name(entry: &Entry, found: Option<&Found>, linked: bool, rules: &Rules) -> Decision {
    let changes = match found {
        _ if linked => return Decision::Skip(Reason::Same),
        Some(Found { kind: FoundKind::File { .. }, mtime, .. })
            if rules.update && is_newer(*mtime, entry.mtime, rules.leeway()) =>
        {
            return Decision::Skip(Reason::Newer);
        }
        None if rules.only_existing => return Decision::Skip(Reason::Missing),
        None => Changes { new: true, ..Changes::default() },
        Some(_) if rules.only_new => return Decision::Skip(Reason::Exists),
        Some(Found { kind: FoundKind::Folder { yields: false }, .. }) => {
            return Decision::Refuse(Refused::FolderInTheWay);
        }
        Some(Found { kind: FoundKind::File { .. }, .. }) => Changes { content: true, ..Changes::default() },
        Some(_) => Changes { kind: true, ..Changes::default() },
    };
    Decision::Write(changes)
}

/// Whether what is there is the entry without anything having to be done, as far as that shows without reading contents.
pub fn is_same(entry: &Entry, found: &Found, differs: Differs, rules: &Rules) -> bool {
    let rules = Rules { only_new: false, only_existing: false, update: false, ..*rules };
    decide(entry, Some(found), differs, &rules) == Decision::Skip(Reason::Same)
}

fn is_newer(found: Mtime, entry: Mtime, leeway: Leeway) -> bool {
    found > entry && !same_time(entry, found, leeway)
}

fn decide_file(changes: Changes, compare: Compare) -> Decision {
    let write = Decision::Write(Changes { content: true, ..changes });
    match compare {
        _ if changes.size => write,
        Compare::Never => write,
        Compare::SizeAndTime { .. } if changes.time => write,
        Compare::SizeAndTime { .. } | Compare::Size => metadata_of(changes),
        Compare::Content => Decision::Compare(changes),
    }
}

fn metadata_of(changes: Changes) -> Decision {
    if changes.has_metadata() { Decision::Metadata(changes) } else { Decision::Skip(Reason::Same) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use terahaul_core::EntryPath;

    fn time(seconds: i64, nanos: u32) -> Mtime {
        Mtime { seconds, nanos }
    }

    fn entry(kind: EntryKind, mtime: Mtime, mode: u32) -> Entry {
        Entry { path: EntryPath::new(&b"x"[..]).unwrap(), kind, mtime, mode, extra: None }
    }

    fn kind() -> impl Strategy<Value = EntryKind> {
        prop_oneof![
            (0u64..3).prop_map(|size| EntryKind::File { size: ByteCount(size) }),
            Just(EntryKind::Directory),
            proptest::collection::vec(97u8..99, 1..3).prop_map(|t| EntryKind::Symlink { target: t.into() }),
        ]
    }

    fn found() -> impl Strategy<Value = Found> {
        let kind = prop_oneof![
            (0u64..3).prop_map(|size| FoundKind::File { size: ByteCount(size) }),
            any::<bool>().prop_map(|yields| FoundKind::Folder { yields }),
            proptest::collection::vec(97u8..99, 1..3).prop_map(|t| FoundKind::Symlink { target: t.into() }),
            Just(FoundKind::Special("a FIFO")),
        ];
        (kind, mtime(), mode()).prop_map(|(kind, mtime, mode)| Found { kind, mtime, mode })
    }

    fn mtime() -> impl Strategy<Value = Mtime> {
        (0i64..3, prop_oneof![Just(0u32), Just(5), Just(123_456_789)]).prop_map(|(s, n)| time(s, n))
    }

    fn mode() -> impl Strategy<Value = u32> {
        prop_oneof![Just(0o644u32), Just(0o755)]
    }

    fn rules() -> impl Strategy<Value = Rules> {
        let compare = prop_oneof![
            (0u32..2).prop_map(|window| Compare::SizeAndTime { window }),
            Just(Compare::Size),
            Just(Compare::Content),
            Just(Compare::Never)
        ];
        let way = prop_oneof![Just(MakeWay::Empty), Just(MakeWay::Whole)];
        let permissions = prop_oneof![Just(Permissions::Basic), Just(Permissions::Exact)];
        (any::<[bool; 4]>(), compare, way, permissions).prop_map(|(flags, compare, make_way, permissions)| {
            let [update, only_existing, only_new, even_seconds] = flags;
            Rules { update, only_existing, only_new, compare, make_way, permissions, even_seconds }
        })
    }

    /// What is there once the decision was carried out.
    fn carried_out(entry: &Entry, found: Option<Found>, decision: Decision, rules: &Rules) -> Option<Found> {
        let as_sent = |mode| {
            let kind = match &entry.kind {
                EntryKind::File { size } => FoundKind::File { size: *size },
                EntryKind::Directory => FoundKind::Folder { yields: true },
                EntryKind::Symlink { target } => FoundKind::Symlink { target: target.clone() },
            };
            Found { kind, mtime: entry.mtime, mode }
        };
        let exact = rules.permissions == Permissions::Exact;
        match decision {
            Decision::Skip(_) | Decision::Refuse(_) => found,
            Decision::Metadata(_) => found.map(|found| as_sent(if exact { entry.mode } else { found.mode })),
            Decision::Write(_) | Decision::Compare(_) => Some(as_sent(entry.mode)),
        }
    }

    proptest! {
        #[test]
        fn what_was_carried_out_is_not_done_again(
            kind in kind(), mtime in mtime(), mode in mode(), found in proptest::option::of(found()), rules in rules(),
        ) {
            let entry = entry(kind, mtime, mode);
            let first = decide(&entry, found.as_ref(), Differs::default(), &rules).with_content(false);
            let after = carried_out(&entry, found, first, &rules);
            let again = decide(&entry, after.as_ref(), Differs::default(), &rules).with_content(true);
            let always = rules.compare == Compare::Never && entry.file_size().is_some();
            match first {
                Decision::Refuse(_) => prop_assert_eq!(again, first),
                _ => prop_assert!(matches!(again, Decision::Skip(_)) || always, "{:?} then {:?}", first, again),
            }
        }

        #[test]
        fn what_forbids_is_obeyed(
            kind in kind(), mtime in mtime(), mode in mode(), found in found(), rules in rules(),
        ) {
            let entry = entry(kind, mtime, mode);
            let decision = decide(&entry, Some(&found), Differs::default(), &rules);
            let stays = matches!(found.kind, FoundKind::Folder { yields: false });
            if rules.only_new && !matches!(found.kind, FoundKind::Folder { .. }) {
                let named = entry.kind == EntryKind::Directory;
                let refused = Decision::Refuse(Refused::InPlaceOfFolder);
                let is_same = is_same(&entry, &found, Differs::default(), &rules);
                let skipped = Decision::Skip(if is_same { Reason::Same } else { Reason::Exists });
                prop_assert_eq!(decision, if named { refused } else { skipped });
            }
            let is_folder = |found: &Found| matches!(found.kind, FoundKind::Folder { .. });
            if rules.only_existing && !rules.only_new && entry.kind == EntryKind::Directory && !is_folder(&found) {
                prop_assert_eq!(decision, Decision::Refuse(Refused::NewInPlaceOfFolder));
            }
            if stays {
                prop_assert!(!matches!(decision, Decision::Write(_)), "what has to stay is not removed");
            }
            let nothing = decide(&entry, None, Differs::default(), &rules);
            prop_assert_eq!(nothing == Decision::Skip(Reason::Missing), rules.only_existing);
        }

        #[test]
        fn a_time_is_the_same_as_itself_however_little_a_file_system_keeps(
            seconds in any::<i64>(), nanos in 0u32..1_000_000_000, window in 0u32..3, even_seconds in any::<bool>(),
        ) {
            let leeway = Leeway { window, even_seconds };
            for unit in CUT_DIGITS.map(|digits| 10_u32.pow(digits)) {
                prop_assert!(same_time(time(seconds, nanos), time(seconds, nanos - nanos % unit), leeway));
            }
            prop_assert!(!same_time(time(seconds, nanos), time(seconds.wrapping_add(4), nanos), leeway));
        }
    }

    #[test]
    fn a_time_that_no_file_system_has_cut_is_another_one() {
        let wanted = time(1, 123_456_789);
        for found in [123_456_780, 123_450_000, 123_400_000, 100_000_000] {
            assert!(!same_time(wanted, time(1, found), Leeway::default()), "{found}");
        }
    }

    /// Each run sent every other file to FAT once more.
    #[test]
    fn a_time_that_was_cut_to_two_seconds_is_the_same_where_that_is_done() {
        let fat = Leeway { even_seconds: true, ..Leeway::default() };
        let same =
            |wanted, found| (same_time(wanted, found, fat), same_time(wanted, found, Leeway::default()));
        assert_eq!(same(time(5, 123_456_789), time(4, 0)), (true, false));
        assert_eq!(same(time(4, 123_456_789), time(4, 0)), (true, true));
        assert_eq!(same(time(5, 0), time(5, 0)), (true, true));
        for other in [time(6, 0), time(4, 1), time(3, 0)] {
            assert_eq!(same(time(5, 0), other), (false, false), "{other:?}");
        }
        assert!(same_time(time(i64::MIN, 1), time(i64::MIN, 0), fat), "the first of all is even");
    }

    fn file(size: u64, mtime: Mtime) -> (Entry, Found) {
        let kind = FoundKind::File { size: ByteCount(size) };
        (entry(EntryKind::File { size: ByteCount(size) }, mtime, 0o644), Found { kind, mtime, mode: 0o644 })
    }

    #[test]
    fn every_set_of_changes_has_its_bits() {
        for bits in 0..1024 {
            assert_eq!(Changes::from_bits(bits).to_bits(), bits);
        }
        assert_eq!(Changes { time: true, ..Changes::default() }.to_bits(), 1 << 4);
    }

    #[test]
    fn a_file_is_compared_as_asked() {
        let (entry, there) = file(5, time(10, 7));
        let later = Found { mtime: time(11, 0), ..there.clone() };
        let longer = Found { kind: FoundKind::File { size: ByteCount(6) }, ..there.clone() };
        let by = |compare, found: &Found| {
            decide(&entry, Some(found), Differs::default(), &Rules { compare, ..Rules::default() })
        };
        let default = Compare::default();
        assert_eq!(by(default, &there), Decision::Skip(Reason::Same));
        assert!(matches!(by(default, &later), Decision::Write(changes) if changes.time && !changes.size));
        assert!(matches!(by(default, &longer), Decision::Write(changes) if changes.size && !changes.time));
        assert_eq!(by(Compare::SizeAndTime { window: 1 }, &later), Decision::Skip(Reason::Same));
        assert!(matches!(by(Compare::Size, &later), Decision::Metadata(changes) if changes.time));
        assert!(matches!(by(Compare::Never, &there), Decision::Write(_)));
        let undecided = by(Compare::Content, &later);
        assert!(matches!(undecided, Decision::Compare(_)));
        assert!(matches!(undecided.with_content(false), Decision::Write(changes) if changes.content));
        assert!(matches!(undecided.with_content(true), Decision::Metadata(changes) if !changes.content));
        assert_eq!(by(Compare::Content, &there).with_content(true), Decision::Skip(Reason::Same));
        assert!(matches!(by(Compare::Content, &longer), Decision::Write(_)));
    }

    #[test]
    fn an_update_spares_what_is_newer_but_not_what_is_of_another_kind() {
        let rules = Rules { update: true, ..Rules::default() };
        let (entry, there) = file(5, time(10, 0));
        let newer =
            Found { mtime: time(12, 0), kind: FoundKind::File { size: ByteCount(9) }, ..there.clone() };
        let older = Found { mtime: time(9, 0), ..there.clone() };
        let as_old = Found { kind: FoundKind::File { size: ByteCount(9) }, ..there };
        let link = Found { kind: FoundKind::Symlink { target: (*b"y").into() }, ..newer.clone() };
        let decide = |found: &Found| decide(&entry, Some(found), Differs::default(), &rules);
        assert_eq!(decide(&newer), Decision::Skip(Reason::Newer));
        assert!(matches!(decide(&older), Decision::Write(_)));
        assert!(matches!(decide(&as_old), Decision::Write(_)));
        assert!(matches!(decide(&link), Decision::Write(changes) if changes.kind));
    }

    #[test]
    fn another_name_is_made_unless_it_is_that_file() {
        let (entry, there) = file(5, time(1, 0));
        let rules = Rules::default();
        let decide_name = |found, linked, rules: &Rules| decide_name(&entry, found, linked, rules);
        assert_eq!(decide_name(Some(&there), true, &rules), Decision::Skip(Reason::Same));
        assert!(matches!(decide_name(Some(&there), false, &rules), Decision::Write(_)));
        assert!(matches!(decide_name(None, false, &rules), Decision::Write(changes) if changes.new));
        let newer = Found { mtime: time(2, 0), ..there.clone() };
        let update = Rules { update: true, ..rules };
        assert_eq!(decide_name(Some(&newer), false, &update), Decision::Skip(Reason::Newer));
        assert!(matches!(decide_name(Some(&there), false, &update), Decision::Write(_)));
        let full = Found { kind: FoundKind::Folder { yields: false }, ..there };
        assert_eq!(decide_name(Some(&full), false, &rules), Decision::Refuse(Refused::FolderInTheWay));
    }
}
