//! `--compress`.

use terahaul_core::Compress;

/// The level that `yes` means: Zstandard's own default.
const YES: i32 = 3;

/// Reads `auto`, `no`, `yes` or a level.
pub fn parse_compress(text: &str) -> Result<Compress, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(Compress::Auto),
        ("no", _) => Ok(Compress::No),
        ("yes", _) => Ok(Compress::Level(YES)),
        (_, Ok(level @ 1..=19)) => Ok(Compress::Level(level)),
        _ => Err("give auto, no, yes, or a level from 1 to 19".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_a_word_or_a_level() {
        assert_eq!(parse_compress("auto"), Ok(Compress::Auto));
        assert_eq!(parse_compress("no"), Ok(Compress::No));
        assert_eq!(parse_compress("yes"), Ok(Compress::Level(3)));
        assert_eq!(parse_compress("19"), Ok(Compress::Level(19)));
        for text in ["0", "20", "-1", "zstd", ""] {
            assert!(parse_compress(text).is_err(), "{text}");
        }
    }
}
