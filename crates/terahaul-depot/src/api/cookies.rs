//! Cookies, in and out.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::DepotError;

/// The value of the cookie `name`.
pub(super) fn read<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(known, value)| (known == name).then_some(value))
}

/// A `Set-Cookie` value: not for scripts, not for other sites. `seconds` of 0 removes the cookie.
pub(super) fn write(
    name: &str,
    value: &str,
    path: &str,
    seconds: i64,
    tls: bool,
) -> Result<HeaderValue, DepotError> {
    let secure = if tls { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).map_err(|_| DepotError::Invalid("the value does not fit a cookie".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; terahaul_session=ths_x; b=2"));
        headers.append(header::COOKIE, HeaderValue::from_static("terahaul_session2=no; c"));
        assert_eq!(read(&headers, "terahaul_session"), Some("ths_x"));
        assert_eq!(read(&headers, "c"), None);
        assert_eq!(read(&headers, "session"), None);
    }
}
