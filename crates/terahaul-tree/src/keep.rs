//! What is kept of a file besides its content.

/// Which permission bits an entry gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// The sender's read, write and execute bits. Folders that exist keep their own.
    #[default]
    Basic,
    /// All of the sender's, with set-user-id, set-group-id and sticky bits, for what exists as well.
    Exact,
}

/// What of an entry is kept. Content, links and modification times of files always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Permission bits.
    pub permissions: Permissions,
    /// The user, where this process may give files away, and the group, where it is a member.
    pub owner: bool,
    /// Users and groups by number, and not by name.
    pub numeric_ids: bool,
    /// Files of several names stay one file.
    pub hard_links: bool,
    /// Extended attributes; those of the `user` namespace only, unless this process is root.
    pub xattrs: bool,
    /// Access control lists.
    pub acls: bool,
}
