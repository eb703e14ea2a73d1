//! Ranges and conditions of RFC 9110, for everything that is downloaded.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::DepotError;

/// Which bytes of `0..size` an answer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub start: u64,
    pub end: u64,
    /// Whether it was asked for as a range (the answer is then 206, even when it is everything).
    pub is_range: bool,
}

/// What is to be downloaded.
pub(super) struct Download<'a> {
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    pub content_type: &'static str,
    pub file_name: &'a [u8],
}

/// Whether to answer at all, and with which part.
pub(super) enum Choice {
    Send(Part),
    NotModified,
}

impl Download<'_> {
    /// Reads the request's range and conditions.
    pub fn choose(&self, method: &Method, headers: &HeaderMap) -> Result<Choice, DepotError> {
        let quoted = format!("\"{}\"", self.etag);
        if !tags(headers, header::IF_MATCH).is_none_or(|mut tags| tags.any(|tag| tag == "*" || tag == quoted))
        {
            return Err(DepotError::Precondition);
        }
        let is_known = |tag: &str| tag == "*" || tag.trim_start_matches("W/") == quoted;
        if tags(headers, header::IF_NONE_MATCH).is_some_and(|mut tags| tags.any(is_known)) {
            return Ok(Choice::NotModified);
        }
        // Dates and weak tags never match: then the whole is sent.
        let holds = text(headers, header::IF_RANGE).is_none_or(|tag| tag.trim() == quoted);
        let holds = holds && method == Method::GET;
        let range = text(headers, header::RANGE).filter(|_| holds).and_then(parse);
        Ok(Choice::Send(match range {
            None => Part { start: 0, end: self.size, is_range: false },
            Some(range) => range.within(self.size).ok_or_else(|| DepotError::Range {
                message: format!("the range lies outside the {} bytes: ask for one within them", self.size),
                size: self.size,
            })?,
        }))
    }

    /// The answer with `body`, which is the part's bytes.
    pub fn respond(&self, part: Part, body: Body) -> Response {
        let mut response = body.into_response();
        let headers = response.headers_mut();
        let mut set = |name, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, self.content_type.to_owned());
        set(header::CONTENT_LENGTH, (part.end - part.start).to_string());
        set(header::CONTENT_DISPOSITION, disposition(self.file_name));
        if part.is_range {
            set(header::CONTENT_RANGE, format!("bytes {}-{}/{}", part.start, part.end - 1, self.size));
        }
        self.describe(headers);
        if part.is_range {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        response
    }

    pub fn not_modified(&self) -> Response {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        self.describe(response.headers_mut());
        response
    }

    fn describe(&self, headers: &mut HeaderMap) {
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.etag)) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// What a header lists, if there is one.
fn tags(headers: &HeaderMap, name: header::HeaderName) -> Option<impl Iterator<Item = &str>> {
    let mut lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).peekable();
    lines.peek()?;
    Some(lines.flat_map(|line| line.split(',')).map(str::trim))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    From { first: u64, last: Option<u64> },
    Last(u64),
}

/// A single range of bytes. Anything else (other units, several ranges, nonsense) is ignored, as RFC 9110 allows.
fn parse(text: &str) -> Option<Range> {
    let (unit, spec) = text.trim().split_once('=')?;
    let (first, last) = spec.trim().split_once('-')?;
    let number = |text: &str| {
        let digits = text.trim();
        // `parse` alone would take a sign; what overflows is past any end.
        (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| digits.parse::<u64>().unwrap_or(u64::MAX))
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    match (first.trim(), last.trim()) {
        ("", last) => Some(Range::Last(number(last)?)),
        (first, "") => Some(Range::From { first: number(first)?, last: None }),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Range::From { first, last: Some(last) })
        }
    }
}

impl Range {
    fn within(self, size: u64) -> Option<Part> {
        let (start, end) = match self {
            Self::From { first, last } => (first, last.map_or(size, |last| last.saturating_add(1).min(size))),
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        (start < end).then_some(Part { start, end, is_range: true })
    }
}

/// `attachment` with the name twice (RFC 6266): readable ASCII for old clients, and exact in UTF-8.
fn disposition(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let plain: String =
        text.chars()
            .map(|c| {
                if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%' | '/') || c == ' ' { c } else { '_' }
            })
            .collect();
    let mut exact = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            exact.push(char::from(byte));
        } else {
            exact.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(header: &str, size: u64) -> Option<(u64, u64)> {
        parse(header)?.within(size).map(|part| (part.start, part.end))
    }

    #[test]
    fn ranges_read_as_rfc_9110_has_them() {
        assert_eq!(part("bytes=0-499", 10_000), Some((0, 500)));
        assert_eq!(part("bytes=9500-", 10_000), Some((9500, 10_000)));
        assert_eq!(part("bytes=-500", 10_000), Some((9500, 10_000)));
        assert_eq!(part("bytes=-20000", 10_000), Some((0, 10_000)));
        assert_eq!(part("Bytes = 5-5", 10), Some((5, 6)));
        assert_eq!(part("bytes=0-99999999999999999999999", 10), Some((0, 10)));
        for ignored in
            ["bytes=5-4", "bytes=0-1,3-4", "lines=0-1", "bytes=", "bytes=a-b", "bytes=+1-2", "bytes=--1"]
        {
            assert_eq!(parse(ignored), None, "{ignored}");
        }
        for unsatisfiable in ["bytes=10-", "bytes=-0", "bytes=10-20"] {
            assert_eq!(parse(unsatisfiable).unwrap().within(10), None, "{unsatisfiable}");
        }
        assert_eq!(parse("bytes=0-").unwrap().within(0), None);
    }

    proptest! {
        #[test]
        fn a_satisfiable_range_lies_within(first in 0u64..50, last in 0u64..50, size in 0u64..40) {
            if let Some((start, end)) = part(&format!("bytes={first}-{last}"), size) {
                prop_assert!(start < end && end <= size);
                prop_assert_eq!((start, end), (first, size.min(last + 1)));
            } else {
                prop_assert!(first > last || first >= size);
            }
        }

        #[test]
        fn any_name_makes_a_valid_header(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let value = disposition(&name);
            prop_assert!(HeaderValue::from_str(&value).is_ok());
            prop_assert_eq!(value.matches('"').count(), 2);
        }
    }

    #[test]
    fn a_name_is_given_readable_and_exact() {
        assert_eq!(
            disposition("naïve \"x\".txt".as_bytes()),
            "attachment; filename=\"na_ve _x_.txt\"; filename*=UTF-8''na%C3%AFve%20%22x%22.txt"
        );
    }
}
