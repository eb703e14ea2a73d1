//! Tokens and links' secrets in what went wrong: there they come from a command line on which they do not belong.

use serde::Serializer;

const TOKEN: &str = "tht_";
const LINK: &str = "thl_";

/// What every one begins with.
pub const PREFIXES: [&str; 2] = [TOKEN, LINK];

/// A secret has 43 characters behind its prefix. Of one that was cut to fewer than these, too much is missing for it to be guessed, and
/// files may have such names.
const SHORTEST: usize = 32;

/// The text, with `…` in place of each secret behind its prefix.
pub fn masked(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = PREFIXES.iter().filter_map(|prefix| rest.find(prefix)).min() {
        let (before, behind) = rest.split_at(at + TOKEN.len());
        let is_secret = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let len = behind.bytes().take_while(|b| is_secret(b)).count();
        said.push_str(before);
        rest = behind;
        if len >= SHORTEST {
            said.push('…');
            rest = &behind[len..];
        }
    }
    said + rest
}

/// Where a secret belongs that `text` repeats.
pub fn remedy_of_repeated(text: &str) -> Option<&'static str> {
    let shown = masked(text);
    let repeats = |prefix: &str| shown.contains(&format!("{prefix}…")) && shown != text;
    if repeats(TOKEN) {
        return Some(
            "a token belongs on the stdin of 'terahaul login', or in TERAHAUL_TOKEN, and on no command line",
        );
    }
    repeats(LINK).then_some("a link is for 'terahaul receive', 'info' or 'verify', one at a time")
}

/// For JSON lines.
pub(super) fn serialize_masked<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&masked(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_it_stands_and_what_only_begins_like_one_is_not() {
        let (token, link) = (format!("tht_{}", "aZ9-_".repeat(9)), format!("thl_{}", "b".repeat(43)));
        let text = format!("'{token}': https://h/t/x#{link}&fp=ab, \\n{token}");
        assert_eq!(masked(&text), "'tht_…': https://h/t/x#thl_…&fp=ab, \\ntht_…");
        assert!(remedy_of_repeated(&text).unwrap().contains("TERAHAUL_TOKEN"));
        assert!(remedy_of_repeated(&link).unwrap().contains("receive"));
        for text in ["thl_007.tif", "take tht_ and what follows", "'tht_…'", ""] {
            assert_eq!((masked(text).as_str(), remedy_of_repeated(text)), (text, None));
        }
    }
}
