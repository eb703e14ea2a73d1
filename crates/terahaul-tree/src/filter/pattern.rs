//! One pattern of a rule, as rsync writes them, translated into a regular expression over bytes.
//!
//! | in a pattern | means |
//! |---|---|
//! | `/` in front | the path begins here; otherwise it may begin behind any `/` |
//! | `/` at the end | folders only |
//! | `*`, `?` | any bytes but `/`, one of them |
//! | `**` | any bytes |
//! | `[a-z]`, `[!a]`, `[[:digit:]]` | one of these, but never `/` |
//! | `\` before one of these | that byte, if the pattern has any of `*?[` |
//! | `/***` at the end, or more stars | the folder, and all that is in it; with a `/` behind, the folders of that |
//!
//! Paths are matched with a `/` in front, so that "behind any `/`" needs no case of its own.

/// Longest pattern, in bytes.
const LONGEST: usize = 4096;

/// A pattern cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing, or `/` alone.
    #[error("there is no name in it, as there is in *.tmp or /cache/")]
    Empty,
    /// More than 4,096 bytes.
    #[error("it is longer than 4096 bytes")]
    TooLong,
    /// A `[` without its `]`.
    #[error("a '[' in it is not closed: write it as \\[ if it is meant itself")]
    OpenBracket,
    /// `[[:…:]]` with a class that there is not.
    #[error("it has a class of bytes, as in [[:digit:]], that there is not")]
    NoSuchClass,
}

/// A pattern, ready to be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    /// A regular expression for the whole of `/path`.
    pub(super) regex: String,
    pub(super) folders_only: bool,
}

/// What a pattern stands for. `/***` is two expressions.
pub(super) fn translate(pattern: &[u8]) -> Result<Vec<Expression>, PatternError> {
    if pattern.len() > LONGEST {
        return Err(PatternError::TooLong);
    }
    let (text, folders_only) = match pattern.strip_suffix(b"/") {
        Some(folder) => (folder, true),
        None => (pattern, false),
    };
    if let Some(folder) = folder_of(text) {
        let of =
            |text: String, folders_only| Expression { regex: format!(r"(?s-u)\A{text}\z"), folders_only };
        // What is before the stars is no tail of a path once they are there, so it is read together with them.
        let content = body(text)?;
        let folder = body_as(folder, &Shape::of(text))?;
        return Ok(vec![of(folder, true), of(content, folders_only)]);
    }
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    Ok(vec![Expression { regex: format!(r"(?s-u)\A{}\z", body(text)?), folders_only }])
}

/// What is before `/***` and any more stars.
fn folder_of(text: &[u8]) -> Option<&[u8]> {
    let stars = text.iter().rev().take_while(|byte| **byte == b'*').count();
    let folder = text[..text.len() - stars].strip_suffix(b"/")?;
    (stars >= 3 && !folder.is_empty()).then_some(folder)
}

/// Where a pattern may begin.
struct Shape {
    anchored: bool,
    wild: bool,
    /// `**` in front may stand for the beginning of the path too.
    stars_in_front: bool,
}

impl Shape {
    fn of(pattern: &[u8]) -> Self {
        Self {
            anchored: pattern.first() == Some(&b'/'),
            wild: pattern.iter().any(|byte| b"*?[".contains(byte)),
            stars_in_front: pattern.starts_with(b"**"),
        }
    }
}

fn body(pattern: &[u8]) -> Result<String, PatternError> {
    body_as(pattern, &Shape::of(pattern))
}

fn body_as(pattern: &[u8], shape: &Shape) -> Result<String, PatternError> {
    let (start, rest) = match pattern.strip_prefix(b"/") {
        Some(rest) if shape.anchored => ("/", rest),
        _ if shape.stars_in_front => ("", pattern),
        _ => ("(?:.*/)", pattern),
    };
    let mut regex = String::from(start);
    if !shape.wild {
        rest.iter().for_each(|&byte| push_byte(&mut regex, byte));
        return Ok(regex);
    }
    let mut rest = rest;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'*' if rest.first() == Some(&b'*') => {
                let stars = rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[stars..];
                regex.push_str(".*");
            }
            b'*' => regex.push_str("[^/]*"),
            b'?' => regex.push_str("[^/]"),
            b'[' => rest = push_class(&mut regex, rest)?,
            b'\\' => match rest.split_first() {
                Some((&byte, after)) => {
                    rest = after;
                    push_byte(&mut regex, byte);
                }
                // It takes the meaning from nothing: as in rsync, nothing matches.
                None => regex.push_str(r"\z."),
            },
            byte => push_byte(&mut regex, byte),
        }
    }
    Ok(regex)
}

fn push_byte(regex: &mut String, byte: u8) {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'_' => regex.push(char::from(byte)),
        byte => regex.push_str(&format!(r"\x{byte:02x}")),
    }
}

/// Translates what is behind a `[`; returns what is behind the `]`.
fn push_class<'a>(regex: &mut String, class: &'a [u8]) -> Result<&'a [u8], PatternError> {
    let (negated, mut rest) = match class.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, class),
    };
    let mut items = String::new();
    let mut first = true;
    loop {
        let (&byte, after) = rest.split_first().ok_or(PatternError::OpenBracket)?;
        if byte == b']' && !first {
            rest = after;
            break;
        }
        first = false;
        if byte == b'[' && after.first() == Some(&b':') {
            let end = after.windows(2).position(|pair| pair == b":]").ok_or(PatternError::OpenBracket)?;
            let name = after.get(1..end).unwrap_or_default();
            const CLASSES: [&[u8]; 12] = [
                b"alnum", b"alpha", b"blank", b"cntrl", b"digit", b"graph", b"lower", b"print", b"punct",
                b"space", b"upper", b"xdigit",
            ];
            if !CLASSES.contains(&name) {
                return Err(PatternError::NoSuchClass);
            }
            items.push_str(&format!("[:{}:]", String::from_utf8_lossy(name)));
            rest = &after[end + 2..];
            continue;
        }
        let (low, after) = literal(rest)?;
        rest = after;
        match rest {
            [b'-', next, ..] if *next != b']' => {
                let (high, after) = literal(&rest[1..])?;
                rest = after;
                // A range that runs backwards stands for nothing.
                if low <= high {
                    items.push_str(&format!(r"\x{low:02x}-\x{high:02x}"));
                }
            }
            _ => items.push_str(&format!(r"\x{low:02x}")),
        }
    }
    let matched = match (items.is_empty(), negated) {
        (true, false) => r"[^\x00-\xff]".to_owned(),
        (true, true) => "[^/]".to_owned(),
        (false, false) => format!("[[{items}]&&[^/]]"),
        (false, true) => format!("[^{items}/]"),
    };
    regex.push_str(&matched);
    Ok(rest)
}

/// One byte of a class, which a backslash may stand before.
fn literal(class: &[u8]) -> Result<(u8, &[u8]), PatternError> {
    match class {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Ok((*byte, rest)),
        [] => Err(PatternError::OpenBracket),
    }
}
