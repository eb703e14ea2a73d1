//! A depot's HTTP API, as far as the command line uses it.

mod error;
mod types;

use std::io::Write;
use std::time::{Duration, SystemTime};

use reqwest::header::DATE;
use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use terahaul_core::{BlockNumber, BlockRun, Hash, TransferId};
use terahaul_net::tls::ClientTls;

use crate::exit::Failure;
use crate::output::PREFIXES;
use crate::settings::{DepotSettings, check_token};
use error::{protocol, refused, unanswered, unreachable};
use types::{BlockValue, BlockValues, EntryPage, Extents, Tokens, Transfers};
pub use types::{CreatedToken, EntryRecord, NewToken, Session, Token, Transfer};

/// Transfers that one request asks for: a busy depot has places for few longer lists.
const PAGE: usize = 50;
/// Entries that one request asks for.
const ENTRIES: u64 = 1000;

/// Longest answer, in bytes: a page of entries with the longest paths, or what a large transfer has in as many pieces as it can be.
const MOST_ANSWER: usize = 64 << 20;
/// Longest reason for a refusal, in bytes.
const MOST_REFUSAL: usize = 64 << 10;

/// A depot, over HTTP.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    host: String,
    credential: String,
}

impl Api {
    /// The depot of these settings.
    pub fn new(depot: &DepotSettings) -> Result<Self, Failure> {
        let tls = ClientTls::new(depot.endpoint.pin).map_err(Failure::usage)?;
        let http = reqwest::Client::builder()
            .use_preconfigured_tls((*tls.http).clone())
            .http1_only()
            .https_only(true)
            // A redirect or a proxy would carry the token to somebody else than the pinned depot.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(Duration::from_secs(15))
            .read_timeout(Duration::from_secs(60))
            .user_agent(concat!("terahaul/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::usage(format!("HTTP cannot be set up: {error}")))?;
        Ok(Self {
            http,
            base: format!("{}/api/v1", depot.endpoint.base_url()),
            host: format!("{}:{}", depot.endpoint.host, depot.endpoint.port),
            credential: depot.credential.clone(),
        })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.credential)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let (http, request) = request.build_split();
        let request = request.map_err(|error| unreachable(&self.host, &error))?;
        let changes = *request.method() != Method::GET;
        let failed = |error: reqwest::Error| match changes && !error.is_connect() && !error.is_timeout() {
            true => unanswered(&self.host, &error),
            false => unreachable(&self.host, &error),
        };
        let response = http.execute(request).await.map_err(failed)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response, MOST_REFUSAL).await.unwrap_or_default();
        Err(refused(&self.host, status.as_u16(), &body))
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        Ok(self.read_dated(request).await?.0)
    }

    /// The same, with when that was answered by the depot's clock, if it says so.
    async fn read_dated<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<(T, Option<SystemTime>), Failure> {
        let response = self.send(request).await?;
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let body = self.body(response, MOST_ANSWER).await?;
        Ok((serde_json::from_slice(&body).map_err(|_| protocol(&self.host))?, date))
    }

    /// What is answered, unless that is more than `most` bytes.
    async fn body(&self, mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&self.host, &error))? {
            if chunk.len() > most - body.len() {
                return Err(protocol(&self.host));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Who the credential stands for.
    pub async fn session(&self) -> Result<Session, Failure> {
        self.read(self.request(Method::GET, "/session")).await
    }

    /// Transfers, newest first, at most `max`.
    pub async fn transfers(&self, max: usize) -> Result<Vec<Transfer>, Failure> {
        let mut all: Vec<Transfer> = Vec::new();
        let mut next = None;
        while all.len() < max {
            let limit = PAGE.min(max - all.len());
            let before = next.map(|next: String| format!("&before={next}")).unwrap_or_default();
            let page: Transfers =
                self.read(self.request(Method::GET, &format!("/transfers?limit={limit}{before}"))).await?;
            let full = page.transfers.len() >= limit;
            all.extend(page.transfers);
            // The last one's id serves with older depots, as long as it is there.
            next = page.next.or_else(|| all.last().map(|last| last.id.clone()));
            if !full {
                break;
            }
        }
        Ok(all)
    }

    /// The unfinished transfer that running the command with this key again would take up.
    pub async fn unfinished(&self, resume_key: &str) -> Result<Option<TransferId>, Failure> {
        let found: Transfers = self
            .read(self.request(Method::GET, &format!("/transfers?limit=1&resume_key={resume_key}")))
            .await?;
        let first = found.transfers.first();
        first.map(|first| first.id.parse().map_err(|_| protocol(&self.host))).transpose()
    }

    /// One transfer.
    pub async fn transfer(&self, id: TransferId) -> Result<Transfer, Failure> {
        self.read(self.request(Method::GET, &format!("/transfers/{id}"))).await
    }

    /// How long ago a transfer was begun by the depot's clock, if that says what time it is.
    pub async fn age(&self, id: TransferId) -> Result<Option<Duration>, Failure> {
        let request = self.request(Method::GET, &format!("/transfers/{id}"));
        let (transfer, now): (Transfer, _) = self.read_dated(request).await?;
        let created = Duration::from_secs(transfer.created.try_into().unwrap_or_default());
        Ok(now.and_then(|now| now.duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(created)))
    }

    /// Calls `on_entry` with every entry of a transfer, in its order.
    pub async fn entries(
        &self,
        id: TransferId,
        mut on_entry: impl FnMut(EntryRecord) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut from = Some(0);
        while let Some(at) = from {
            let path = format!("/transfers/{id}/entries?from={at}&limit={ENTRIES}");
            let page: EntryPage = self.read(self.request(Method::GET, &path)).await?;
            page.entries.into_iter().try_for_each(&mut on_entry)?;
            // A next page that is not further on would never end.
            from = page.next.filter(|next| *next > at);
        }
        Ok(())
    }

    /// The blocks of a transfer that the depot keeps for good, in order.
    pub async fn durable_blocks(&self, id: TransferId) -> Result<Vec<BlockRun>, Failure> {
        let Extents { durable } =
            self.read(self.request(Method::GET, &format!("/transfers/{id}/extents"))).await?;
        Ok(durable.into_iter().map(|(first, count)| BlockRun { first: BlockNumber(first), count }).collect())
    }

    /// The values of those of `count` blocks, at most 1000, from `first` on that the depot keeps for good.
    pub async fn block_values(
        &self,
        id: TransferId,
        first: BlockNumber,
        count: u32,
    ) -> Result<Vec<(BlockNumber, Hash)>, Failure> {
        let path = format!("/transfers/{id}/values?first={first}&count={count}", first = first.0);
        let BlockValues { blocks } = self.read(self.request(Method::GET, &path)).await?;
        Ok(blocks.into_iter().map(|BlockValue { block, value }| (block, value)).collect())
    }

    /// Keeps a transfer for so many days from now.
    pub async fn extend(&self, id: TransferId, days: u32) -> Result<Transfer, Failure> {
        let change = serde_json::json!({ "expires_in_days": days });
        self.read(self.request(Method::PATCH, &format!("/transfers/{id}")).json(&change)).await
    }

    /// Removes a transfer.
    pub async fn remove(&self, id: TransferId) -> Result<(), Failure> {
        self.send(self.request(Method::DELETE, &format!("/transfers/{id}"))).await.map(drop)
    }

    /// Writes a transfer's receipt to `file`; `failed` says where that is.
    pub async fn receipt(
        &self,
        id: TransferId,
        file: &mut std::fs::File,
        failed: &dyn Fn(&std::io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let mut response = self.send(self.request(Method::GET, &format!("/transfers/{id}/receipt"))).await?;
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&self.host, &error))? {
            file.write_all(&chunk).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// All tokens.
    pub async fn tokens(&self) -> Result<Vec<Token>, Failure> {
        let tokens: Tokens = self.read(self.request(Method::GET, "/tokens")).await?;
        Ok(tokens.tokens)
    }

    /// Makes a token.
    pub async fn create_token(&self, new: &NewToken<'_>) -> Result<CreatedToken, Failure> {
        let created: CreatedToken = self.read(self.request(Method::POST, "/tokens").json(new)).await?;
        // Where it is printed, nothing else is to be.
        check_token(&created.token, "what the depot answered").map_err(|_| protocol(&self.host))?;
        Ok(created)
    }

    /// Has a token end so many days from now.
    pub async fn extend_token(&self, id: &str, days: u32) -> Result<Token, Failure> {
        let change = serde_json::json!({ "expires_in_days": days });
        self.read(self.request(Method::PATCH, &token_path(id)?).json(&change)).await
    }

    /// Ends a token.
    pub async fn revoke_token(&self, id: &str) -> Result<(), Failure> {
        self.send(self.request(Method::DELETE, &token_path(id)?)).await.map(drop)
    }
}

fn token_path(id: &str) -> Result<String, Failure> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    // A secret in an address would be in the logs of proxies.
    let is_secret = PREFIXES.iter().any(|prefix| id.starts_with(prefix));
    if id.is_empty() || is_secret || !id.bytes().all(plain) {
        return Err(Failure::usage("that is not a token's identifier: 'terahaul token list' prints them"));
    }
    Ok(format!("/tokens/{id}"))
}
