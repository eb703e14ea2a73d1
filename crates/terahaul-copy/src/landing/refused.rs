//! What is said of entries that cannot get their names.

use terahaul_tree::decision::{MakeWay, Refused};

/// Why an entry is refused, and what to do about it.
pub(super) fn refusal(refused: Refused, make_way: MakeWay) -> String {
    match refused {
        Refused::FolderInTheWay if make_way == MakeWay::Whole => {
            "exists already as a folder in which something stays, such as what a rule leaves out: move it away"
        }
        Refused::FolderInTheWay => {
            "exists already as a folder in which something stays, such as what a rule leaves out: move it away, or give --force or --delete"
        }
        Refused::InPlaceOfFolder => {
            "exists already as something else, so nothing that is in it is copied: move that away, or leave --ignore-existing out"
        }
        Refused::NewInPlaceOfFolder => {
            "exists already as something else, so nothing that is in it is there: move that away, or leave --existing out"
        }
        Refused::FirstName => {
            "is another name of a file that stays as it is there, or is not made: copy without -H to have this one changed"
        }
        Refused::StagingName => {
            "has a name that folders for what is not complete have: leave it out, or give it another"
        }
        Refused::NotAFolder => "is in what is no folder there: move that away, or give --force or --delete",
    }
    .into()
}
