//! A refused download, and an address at which nothing is, as pages. Browsers follow the page's download links as they do any other, and show
//! what is answered to a person.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

/// What a refusal says, beside the answer for programs.
#[derive(Clone)]
pub(super) struct Said(pub String);

/// Answers whoever asks for a page with one where the download is refused. The status stays, so that a browser saves nothing of it.
pub(super) async fn readable(request: Request, next: Next) -> Response {
    shown(request, next, refused_download).await
}

/// The same of an address at which nothing is, as of a link that was not copied whole.
pub(super) async fn readable_address(request: Request, next: Next) -> Response {
    shown(request, next, |_, _| no_such_page()).await
}

async fn shown(request: Request, next: Next, page: fn(StatusCode, &str) -> String) -> Response {
    let is_shown = takes_pages(request.headers());
    let response = next.run(request).await;
    let Some(Said(message)) = response.extensions().get().filter(|_| is_shown) else { return response };
    let page = page(response.status(), message);
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    Response::from_parts(parts, Body::from(page))
}

/// Only browsers that go somewhere name this type; their scripts, and other programs, take anything.
fn takes_pages(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    accepted.any(|line| line.contains("text/html"))
}

fn refused_download(status: StatusCode, message: &str) -> String {
    let said = match status {
        StatusCode::UNAUTHORIZED => "What this browser had from the transfer's link has ended. Open the link that you were given \
            once more, the whole of it: the part after # belongs to it. Then download again. If the transfer is your own, \
            <a href=\"/\">sign in</a>."
            .to_owned(),
        _ => escaped(&format!("{message}.")),
    };
    page("Nothing was downloaded", &said)
}

fn no_such_page() -> String {
    page(
        "There is nothing at this address",
        "If you were given a link, open the whole of it: it ends with a long part after #. If you send files with this depot, \
            <a href=\"/\">sign in</a>.",
    )
}

fn page(heading: &str, said: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
        <meta name=\"color-scheme\" content=\"light dark\">\n<title>{heading} · Terahaul</title>\n\
        <h1>{heading}</h1>\n<p>{said}</p>\n"
    )
}

/// Names that senders have chosen are text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_text() {
        let page = refused_download(StatusCode::CONFLICT, "'<script>' & co");
        assert!(page.contains("<p>'&lt;script&gt;' &amp; co.</p>"), "{page}");
    }
}
