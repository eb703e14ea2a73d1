//! Sizes that flags give.

use terahaul_core::{ByteCount, ByteCountError};

/// Reads `500GB`, `1.5 TiB` or `4096B`: at least a byte, as nothing is asked for with none.
pub fn parse_size(text: &str) -> Result<ByteCount, String> {
    match text.parse().map_err(|error: ByteCountError| error.to_string())? {
        ByteCount(0) => Err(format!("'{text}' is nothing: give 1B at least")),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_needs_a_unit() {
        assert_eq!(parse_size("500GB"), Ok(ByteCount(500_000_000_000)));
        assert_eq!(parse_size("1.5 TiB"), Ok(ByteCount(1_649_267_441_664)));
        assert_eq!(parse_size("1b"), Ok(ByteCount(1)));
        for text in ["500", "GB", "", "0GB", "-1GB", "1GBit", "1e30PB", "99999999PB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_would_do() {
        for (text, advice) in
            [("500", "500GB or 64MiB"), ("0GB", "give 1B at least"), ("9999PB", "give 9000PB at most")]
        {
            let refusal = parse_size(text).unwrap_err();
            assert!(refusal.contains(advice), "{refusal}");
        }
    }
}
