//! `--channels`.

use terahaul_wire::MAX_CHANNELS;

/// How many data channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// As many as help.
    Auto,
    /// Exactly so many.
    Fixed(u32),
}

impl Channels {
    /// The number, if one was fixed.
    pub fn fixed(self) -> Option<u32> {
        match self {
            Self::Auto => None,
            Self::Fixed(count) => Some(count),
        }
    }
}

/// Reads `auto` or a number.
pub fn parse_channels(text: &str) -> Result<Channels, String> {
    if text == "auto" {
        return Ok(Channels::Auto);
    }
    match text.parse() {
        Ok(count) if (1..=MAX_CHANNELS).contains(&count) => Ok(Channels::Fixed(count)),
        _ => Err(format!("give a number from 1 to {MAX_CHANNELS}, or auto")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_a_small_number_or_auto() {
        assert_eq!(parse_channels("auto"), Ok(Channels::Auto));
        assert_eq!(parse_channels("4"), Ok(Channels::Fixed(4)));
        for text in ["0", "65", "-1", "four", ""] {
            assert!(parse_channels(text).is_err(), "{text}");
        }
    }
}
