//! `terahaul login`

use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use terahaul_net::endpoint::Endpoint;

use crate::api::Api;
use crate::blocking::blocking;
use crate::cli::LoginArgs;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, printable};
use crate::settings::{DepotSettings, LoginFile, NOTHING_PIPED, check_token, read_one_line};

const NOTHING_TYPED: &str = "no token was given: run the command again, and type or paste the token where it asks, which does not show it";

/// Stores a token only once the depot has accepted it.
pub async fn run(args: LoginArgs, output: &Output) -> Result<Exit, Failure> {
    let endpoint: Endpoint = args.url.parse().map_err(Failure::usage)?;
    let path = LoginFile::path()
        .ok_or_else(|| Failure::usage("there is no folder for settings: set HOME or XDG_CONFIG_HOME"))?;
    // What could not be added to is refused before anybody is asked for a token.
    LoginFile::read(&path)?;
    // Dropped when the user interrupts the wait below, which brings the echo back.
    let silence = Silence::begin()?;
    if silence.is_some() {
        // Without a terminal on stderr the user sees no question, and can answer it all the same.
        let _ = write!(std::io::stderr(), "Token for {} (not shown): ", endpoint.base_url());
    }
    let nothing = if silence.is_some() { NOTHING_TYPED } else { NOTHING_PIPED };
    let read = blocking(|| read_one_line(nothing)).await;
    drop(silence);
    let token = read??;
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

/// As long as it lives, a terminal on stdin does not show what is typed.
struct Silence {
    terminal: OwnedFd,
    before: Termios,
}

impl Silence {
    fn begin() -> Result<Option<Self>, Failure> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let begin = || -> std::io::Result<Self> {
            let terminal = stdin.as_fd().try_clone_to_owned()?;
            let before = tcgetattr(&terminal)?;
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
            Ok(Self { terminal, before })
        };
        begin().map(Some).map_err(|error| {
            Failure::usage(format!("the terminal would show the token ({error}): pipe it into stdin"))
        })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // The end of the line that was not shown either, or what is said next would stand behind the question.
        let _ = writeln!(std::io::stderr());
        // A terminal that is gone shows nothing any more.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}
