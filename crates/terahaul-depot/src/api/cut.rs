//! A download that is cut, in the log: a warning is worth an alarm, and that a transfer or a token ends is not.

use terahaul_core::TransferId;

use crate::DepotError;

/// Says why a download was cut.
pub(crate) fn log_cut(transfer: Option<TransferId>, error: &DepotError) {
    let transfer = transfer.map(tracing::field::display);
    if error.is_an_end() {
        tracing::info!(transfer, %error, "a download was cut");
    } else {
        tracing::warn!(transfer, %error, "a download was cut");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use http_body_util::BodyExt as _;
    use terahaul_core::{BLOCK_SIZE, ByteCount};
    use tower::ServiceExt as _;
    use tracing::Level;

    use super::*;
    use crate::fixture::Fixture;
    use crate::logged::Logged;
    use crate::{Caller, NewToken, Scope};

    /// Each was a warning.
    #[tokio::test]
    async fn that_a_transfer_or_a_token_ends_is_no_warning() {
        let logged = Logged::here();
        let fixture = Fixture::with(|mut config| {
            config.limits.recheck = Duration::ZERO;
            config
        })
        .await;
        let depot = &fixture.depot;
        let mut cut = 0;
        for call in ["zip", "files/0"] {
            for ends_with_token in [true, false] {
                let id = fixture.finished(ByteCount(BLOCK_SIZE)).await;
                let scopes = vec![Scope::Receive];
                let new = NewToken { label: "l".into(), scopes, quota: None, expires_in_days: None };
                let token = depot.create_token(new).await.unwrap();
                let request = Request::get(format!("/api/v1/transfers/{id}/{call}"))
                    .header("authorization", format!("Bearer {}", token.token))
                    .body(Body::empty())
                    .unwrap();
                let answer = depot.http_router().oneshot(request).await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
                let mut body = answer.into_body();
                body.frame().await.unwrap().unwrap();
                if ends_with_token {
                    depot.revoke_token(&token.info.id.0).await.unwrap();
                } else {
                    let owner = Caller::Token(fixture.owner.clone());
                    depot.delete_transfer(&owner, id).await.unwrap();
                }
                assert!(body.collect().await.is_err(), "{call}");
                cut += 1;
                let said = logged.at(Level::INFO);
                assert!(
                    said.iter().filter(|line| line.contains("a download was cut")).count() >= cut,
                    "{said:?}"
                );
            }
        }
        assert_eq!(logged.at(Level::WARN), [""; 0]);
    }

    #[test]
    fn that_the_disk_fails_is_a_warning_and_names_the_transfer() {
        let logged = Logged::here();
        let id = TransferId([7; 16]);
        log_cut(Some(id), &DepotError::Damaged("block 3".into()));
        let said = logged.at(Level::WARN);
        assert!(
            said.len() == 1 && said[0].contains(&id.to_string()) && said[0].contains("block 3"),
            "{said:?}"
        );
    }
}
