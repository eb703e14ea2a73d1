//! What the API refuses, and what becomes of a request on the way, as exit codes.

use std::error::Error;
use std::io;

use serde::Deserialize;
use terahaul_net::client::ClientError;
use terahaul_net::control::why_lost;

use crate::exit::{Exit, Failure};

#[derive(Deserialize)]
struct Body {
    error: Refusal,
}

#[derive(Deserialize)]
struct Refusal {
    code: String,
    message: String,
}

/// The depot answered with an error.
pub fn refused(host: &str, status: u16, body: &[u8]) -> Failure {
    let Ok(Body { error: Refusal { code, message } }) = serde_json::from_slice(body) else {
        return on_the_way(host, status);
    };
    Failure { exit: exit_of(&code, status), code, message }
}

/// Something else has answered.
fn on_the_way(host: &str, status: u16) -> Failure {
    let (exit, what) = match status {
        502..=504 => (
            Exit::Unreachable,
            "a server between this machine and the depot does not reach it: see that the depot runs, and try again later",
        ),
        429 => (
            Exit::Unreachable,
            "a server between this machine and the depot takes no more requests just now: try again later",
        ),
        413 => (
            Exit::Unexpected,
            "a server between this machine and the depot takes no requests of this size: it has to allow bodies of 256 MiB",
        ),
        500.. => (Exit::Unreachable, "it is perhaps not a Terahaul depot: check the address"),
        _ => (Exit::Unexpected, "it is perhaps not a Terahaul depot: check the address"),
    };
    Failure::new(exit, format!("{host} answered {status}, and {what}"))
}

fn exit_of(code: &str, status: u16) -> Exit {
    match (code, status) {
        ("quota_exceeded" | "disk_full", _) | (_, 507) => Exit::NoSpace,
        ("too_many_attempts", _) | (_, 401 | 403) => Exit::Denied,
        ("not_found", _) | (_, 404 | 410) => Exit::NotFound,
        ("bad_request", _) | (_, 400) => Exit::Usage,
        (_, 503) => Exit::Unreachable,
        _ => Exit::Unexpected,
    }
}

/// The answer cannot be read.
pub fn protocol(host: &str) -> Failure {
    Failure::new(
        Exit::Unexpected,
        format!("{host} answered something that cannot be read: use the same version here and at the depot"),
    )
}

/// The request did not get through.
pub fn unreachable(host: &str, error: &reqwest::Error) -> Failure {
    unconnected(host, error).unwrap_or_else(|| {
        let detail = innermost(error);
        Failure::new(
            Exit::Unreachable,
            format!("{host} cannot be reached ({detail}): check the address and that the depot is running"),
        )
    })
}

/// A request that changes something went out, and no answer came.
pub fn unanswered(host: &str, error: &reqwest::Error) -> Failure {
    unconnected(host, error).unwrap_or_else(|| {
        let detail = innermost(error);
        Failure::new(
            Exit::Unreachable,
            format!(
                "{host} did not answer ({detail}): it may have done what was asked all the same, so see by 'terahaul list', and try again"
            ),
        )
    })
}

/// What kept a request from going out: a limit here, or TLS.
fn unconnected(host: &str, error: &reqwest::Error) -> Option<Failure> {
    let failed = causes(error).find_map(|cause| match cause.downcast_ref::<rustls::Error>() {
        Some(tls) => Some(ClientError::from_tls(host.to_owned(), tls)),
        None => cause.downcast_ref().and_then(ClientError::from_limit),
    });
    failed.map(Into::into)
}

/// The error's own text has the whole address in it; its cause says more in fewer words.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(next) = deepest.source() {
        deepest = next;
    }
    deepest.downcast_ref().map_or_else(|| deepest.to_string(), why_lost)
}

/// What is behind it, from the outside in.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| {
        // An I/O error that only wraps another one skips it in its own chain of sources.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_the_depots_own_code_and_words() {
        let body = br#"{"error":{"code":"quota_exceeded","message":"Full. Remove some.","retry":false}}"#;
        let failure = refused("h:1", 413, body);
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::NoSpace, "quota_exceeded"));
        assert_eq!(failure.message, "Full. Remove some.");
        assert_eq!(refused("h:1", 500, b"<html>").exit, Exit::Unreachable);
    }

    #[test]
    fn what_a_proxy_answers_is_not_taken_for_a_wrong_address() {
        for (status, exit) in [(502, Exit::Unreachable), (503, Exit::Unreachable), (429, Exit::Unreachable)] {
            let failure = refused("h:1", status, b"<html>");
            assert_eq!(failure.exit, exit);
            assert!(
                failure.message.contains("between") && failure.message.contains("try again"),
                "{}",
                failure.message
            );
        }
        assert!(refused("h:1", 404, b"<html>").message.contains("check the address"));
    }

    #[test]
    fn refusals_have_the_exit_codes_that_are_documented() {
        for (code, status, exit) in [
            ("token_revoked", 401, Exit::Denied),
            ("scope_missing", 403, Exit::Denied),
            ("too_many_attempts", 429, Exit::Denied),
            ("not_found", 404, Exit::NotFound),
            ("disk_full", 507, Exit::NoSpace),
            ("bad_request", 400, Exit::Usage),
            ("stopping", 503, Exit::Unreachable),
            ("internal", 500, Exit::Unexpected),
        ] {
            assert_eq!(exit_of(code, status), exit, "{code}");
        }
    }
}
