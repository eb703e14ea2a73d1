//! One module a command.

mod client_error;
mod info;
mod list;
mod login;
pub mod receipts;
pub mod receive;
mod remove;
pub mod send;
mod serve;
mod token;
mod verify;
pub mod watch;

use crate::cli::{Cli, Command, EXIT_CODES};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output};
use crate::settings::{DepotSettings, Environment, LoginFile};

/// Does what was asked.
pub async fn run(cli: Cli, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    match cli.command {
        Command::Serve(args) => serve::run(args, output, interrupt).await,
        Command::Send(args) => send::run(args, output, interrupt).await,
        Command::Receive(args) => receive::run(args, output, interrupt).await,
        Command::Copy(args) => crate::cp::run(args, output, interrupt).await,
        Command::Far => crate::cp::run_far().await,
        Command::Verify(args) => interrupt.guard(verify::run(args, output)).await,
        Command::List(args) => interrupt.guard(list::run(args, output)).await,
        Command::Info(args) => interrupt.guard(info::run(args, output)).await,
        Command::Remove(args) => interrupt.guard(remove::run(args, output)).await,
        Command::Token(args) => interrupt.guard(token::run(args, output)).await,
        Command::Login(args) => interrupt.guard(login::run(args, output)).await,
        Command::Probe(args) => crate::probe::run(args, output, interrupt).await,
        Command::Lab(args) => crate::lab::run(args, output, interrupt).await,
        Command::ExitCodes => {
            let result = serde_json::json!({ "text": EXIT_CODES });
            output.emit(&Event::Done { command: "exit-codes", result, text: EXIT_CODES.into() });
            Ok(Exit::Ok)
        }
    }
}

/// Does `act` with each, also after one failed: what is gone already does not keep the others. Fails as the first did.
async fn each<T: std::fmt::Display>(
    things: &[T],
    output: &Output,
    act: impl AsyncFn(&T) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut first_failure = None;
    for thing in things {
        let Err(failure) = act(thing).await else { continue };
        // Those fail with all.
        if things.len() == 1 || matches!(failure.exit, Exit::Unreachable | Exit::Denied) {
            return Err(failure);
        }
        output.notice(format!("{thing}: {failure}"));
        first_failure.get_or_insert(failure);
    }
    first_failure.map_or(Ok(Exit::Ok), Err)
}

/// The depot that the flag, the environment or the login names.
fn depot(to: Option<&str>) -> Result<DepotSettings, Failure> {
    let login = LoginFile::path().map_or_else(|| Ok(LoginFile::default()), |path| LoginFile::read(&path))?;
    DepotSettings::settle(to, &Environment::read(), &login)
}
