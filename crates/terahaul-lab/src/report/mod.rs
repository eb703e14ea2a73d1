//! Results as people read them: tables in Markdown, and one HTML page with plots that needs nothing else.

mod heat;
mod html;
mod markdown;
mod plot;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

pub use html::html;
pub use markdown::markdown;

use crate::compare::{CompareError, Results};

/// Writes `report.md` and `report.html` into `folder`, and returns where they are.
pub fn write(results: &Results, folder: &Path) -> Result<[PathBuf; 2], CompareError> {
    let reports = [("report.md", markdown(results)), ("report.html", html(results))];
    let paths = reports.each_ref().map(|(name, _)| folder.join(name));
    for (path, (_, text)) in paths.iter().zip(&reports) {
        fs::write(path, text).map_err(CompareError::file("written", path))?;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests;
