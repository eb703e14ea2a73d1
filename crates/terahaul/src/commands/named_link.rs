//! Links among what was named to be sent or copied.

use std::path::Path;

use crate::output::Output;

/// Says of the first link that it goes as one: who named it may have meant what it leads to.
pub fn say<P: AsRef<Path>>(paths: &[P], output: &Output) {
    if let Some(said) = paths.iter().find_map(|path| describe(path.as_ref())) {
        output.notice(said);
    }
}

/// `None` of what is no link, or leads nowhere.
fn describe(path: &Path) -> Option<String> {
    if !path.symlink_metadata().ok()?.is_symlink() {
        return None;
    }
    let (target, name) = (path.metadata().ok()?, path.display());
    Some(match target.file_type() {
        kind if kind.is_dir() => {
            format!("{name} is a link and goes as one: {name}/ is what is in the folder")
        }
        kind if kind.is_file() => {
            format!("{name} is a link and goes as one: give the file's own path to have that")
        }
        _ => format!(
            "{name} is a link and goes as one: what it leads to is a stream or a device, which is to be written to a file first"
        ),
    })
}
