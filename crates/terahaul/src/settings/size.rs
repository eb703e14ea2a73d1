//! Sizes as people write them.

use terahaul_core::ByteCount;

/// Reads `500GB`, `1.5 TiB` or `4096B`. The unit is required: a bare number says nothing of what was meant.
pub fn parse_size(text: &str) -> Result<ByteCount, String> {
    let unreadable = || format!("'{text}' is not a size: give a number and a unit, such as 500GB or 64MiB");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(unreadable)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| unreadable())?;
    let (base, power): (f64, i32) = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => (1.0, 0),
        "kb" => (1000.0, 1),
        "mb" => (1000.0, 2),
        "gb" => (1000.0, 3),
        "tb" => (1000.0, 4),
        "pb" => (1000.0, 5),
        "kib" => (1024.0, 1),
        "mib" => (1024.0, 2),
        "gib" => (1024.0, 3),
        "tib" => (1024.0, 4),
        "pib" => (1024.0, 5),
        _ => return Err(unreadable()),
    };
    let bytes = number * base.powi(power);
    if bytes < 1.0 || bytes > i64::MAX as f64 { Err(unreadable()) } else { Ok(ByteCount(bytes as u64)) }
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
}
