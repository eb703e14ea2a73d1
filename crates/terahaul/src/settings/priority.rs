//! `--priority`.

use terahaul_core::Priority;

/// Reads `fair`, `background` or `full`.
pub fn parse_priority(text: &str) -> Result<Priority, String> {
    match text {
        "fair" => Ok(Priority::Fair),
        "background" => Ok(Priority::Background),
        "full" => Ok(Priority::Full),
        _ => Err("give fair, background or full".to_owned()),
    }
}
