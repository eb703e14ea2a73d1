//! What others named, as text that is safe to show.

use std::fmt::{self, Write as _};

/// A name to be shown with [`Display`](fmt::Display): characters that are not seen and bytes that are not UTF-8 are escaped, so that it
/// cannot rewrite a terminal, and a backslash is doubled, so that it does not look like another one.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a [u8]);

/// Text that is no name, in which names may be escaped already: shown like one, but that a backslash stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct PrintableText<'a>(pub &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, |c| c == '\\' || is_unseen(c), f)
    }
}

impl fmt::Display for PrintableText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, is_unseen, f)
    }
}

fn escape(bytes: &[u8], is_escaped: impl Fn(char) -> bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_escaped(c) { write!(f, "{}", c.escape_default())? } else { f.write_char(c)? }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Whether a character in a name has no look of its own, or turns round what follows it, so that who reads the name reads another
/// one. Joiners have none either, but scripts and emoji need them; tags are spelled out, though three flags need them, as any text hides in them.
fn is_unseen(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_nothing = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || turns || is_nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line feed, and a backslash with an n behind it, were both shown as the latter.
    #[test]
    fn no_two_names_look_the_same() {
        let names: [&[u8]; 8] =
            [b"a\nb", b"a\\nb", b"a\\\nb", b"a\\\\nb", b"a\xff", b"a\\xff", b"a\\u{1b}", b"a\x1b"];
        let shown: std::collections::BTreeSet<_> =
            names.iter().map(|name| Printable(name).to_string()).collect();
        assert_eq!(shown.len(), names.len(), "{shown:?}");
        assert_eq!(Printable(b"dev\\x2ddisk").to_string(), "dev\\\\x2ddisk");
    }

    #[test]
    fn a_name_in_a_text_is_not_escaped_once_more() {
        let text = format!("{} is gone\n", Printable(b"a\\b\n"));
        assert_eq!(PrintableText(text.as_bytes()).to_string(), "a\\\\b\\n is gone\\n");
    }
}
