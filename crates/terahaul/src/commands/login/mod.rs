//! `terahaul login`

mod prompt;

use std::path::PathBuf;

use terahaul_net::endpoint::Endpoint;

use crate::api::Api;
use crate::blocking::blocking;
use crate::cli::LoginArgs;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, printable};
use crate::settings::{DepotSettings, LoginFile, check_token, read_one_line};
use prompt::{Prompt, would_show};

const NOTHING_TYPED: &str = "no token was given: run the command again, and type or paste the token where it asks, which does not show it";
const NOTHING_PIPED: &str =
    "no token came from stdin: pipe it in, or run this at a terminal, where it asks for the token";

/// Stores a token only once the depot has accepted it.
pub async fn run(args: LoginArgs, output: &Output) -> Result<Exit, Failure> {
    let endpoint: Endpoint = args.url.parse().map_err(Failure::usage)?;
    let path = LoginFile::path()
        .ok_or_else(|| Failure::usage("there is no folder for settings: set HOME or XDG_CONFIG_HOME"))?;
    // What could not be added to is refused before anybody is asked for a token.
    LoginFile::read(&path)?;
    // Dropped when the user interrupts the wait below, which has the terminal show again what is typed.
    let question = format!("Token for {} (not shown): ", endpoint.base_url());
    match Prompt::begin(question).map_err(|error| would_show(&error))? {
        None => log_in(blocking(|| read_one_line(NOTHING_PIPED)).await??, &endpoint, path, output).await,
        Some((prompt, signals)) => {
            let answered = async {
                let read = blocking(|| read_one_line(NOTHING_TYPED)).await;
                prompt.end();
                log_in(read??, &endpoint, path, output).await
            };
            tokio::select! {
                biased;
                ended = answered => ended,
                failure = prompt.attend(signals) => Err(failure),
            }
        }
    }
}

async fn log_in(token: String, endpoint: &Endpoint, path: PathBuf, output: &Output) -> Result<Exit, Failure> {
    if !token.starts_with("tht_") {
        return Err(Failure::usage(
            "that is not a token: tokens begin with tht_, as 'terahaul serve' prints them",
        ));
    }
    check_token(&token, "stdin")?;
    let settings = DepotSettings { endpoint: endpoint.clone(), credential: token.clone() };
    let session = Api::new(&settings)?.session().await?;
    let url = endpoint.to_string();
    blocking(move || LoginFile::add(&path, &url, &token)).await??;
    let scopes = session.scopes.join(", ");
    let result =
        serde_json::json!({ "url": endpoint.base_url(), "label": session.label, "scopes": session.scopes });
    let (label, scopes) = (printable(session.label.as_bytes()), printable(scopes.as_bytes()));
    let text = format!("logged in to {} as '{label}' ({scopes})", endpoint.base_url());
    output.emit(&Event::Done { command: "login", result, text });
    Ok(Exit::Ok)
}
