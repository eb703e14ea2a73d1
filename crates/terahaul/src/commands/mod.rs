//! One module a command.

mod client_error;
mod extend;
mod info;
mod install;
mod list;
mod login;
pub mod named_link;
pub mod persist;
pub mod receipts;
pub mod receive;
mod remove;
pub mod send;
mod serve;
mod token;
mod verify;
pub mod watch;

use terahaul_core::TransferId;

use crate::cli::{Cli, Command, EXIT_CODES};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText, masked};
use crate::settings::{DepotSettings, Environment, LoginFile};

/// Does what was asked.
pub async fn run(cli: Cli, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    if let Command::Send(_) | Command::Copy(_) | Command::Far = cli.command {
        // The folder of each source is kept open, and there may be thousands.
        terahaul_net::raise_descriptor_limit();
    }
    match cli.command {
        Command::Serve(args) => serve::run(args, output, interrupt).await,
        Command::Send(args) => send::run(args, output, interrupt).await,
        Command::Receive(args) => receive::run(args, output, interrupt).await,
        Command::Copy(args) => crate::cp::run(args, output, interrupt).await,
        Command::Far => crate::cp::run_far(interrupt).await,
        Command::Verify(args) => interrupt.guard(verify::run(args, output)).await,
        Command::List(args) => interrupt.guard(list::run(args, output)).await,
        Command::Info(args) => interrupt.guard(info::run(args, output)).await,
        Command::Extend(args) => interrupt.guard(extend::run(args, output)).await,
        Command::Remove(args) => interrupt.guard(remove::run(args, output)).await,
        Command::Token(args) => interrupt.guard(token::run(args, output)).await,
        Command::Login(args) => interrupt.guard(login::run(args, output)).await,
        Command::Probe(args) => crate::probe::run(args, output, interrupt).await,
        Command::Lab(args) => crate::lab::run(args, output, interrupt).await,
        Command::Completions(args) => install::completions(&args, output),
        Command::Man(args) => install::man(&args, output),
        Command::ExitCodes => {
            let result = serde_json::json!({ "text": EXIT_CODES });
            output.emit(&Event::Done { command: "exit-codes", result, text: EXIT_CODES.into() });
            Ok(Exit::Ok)
        }
    }
}

/// Does `act` with each, also after one failed: what is gone already does not keep the others. Fails as the first did.
async fn each(
    ids: &[String],
    output: &Output,
    act: impl AsyncFn(&String) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let (mut failed, mut first) = (0, None);
    for id in ids {
        let Err(failure) = act(id).await else { continue };
        if ids.len() == 1 || fails_with_all(&failure) {
            return Err(failure);
        }
        let name = if may_be_link(id) { "a link".to_owned() } else { masked(id) };
        let path = PathText::from(name.as_bytes());
        let message = format!("failed: {failure}");
        output.emit(&Event::Failure { path, cause: "failed", message: &message });
        failed += 1;
        first.get_or_insert((name, failure));
    }
    let Some((name, failure)) = first else { return Ok(Exit::Ok) };
    // Why has been said of each.
    let message = match failed {
        1 => format!("1 of {} failed: {name}", ids.len()),
        _ => format!("{failed} of {} failed, {name} first", ids.len()),
    };
    Err(Failure { message, ..failure })
}

/// Whether it has nothing to do with the thing that was asked for. A refusal may have: what one may not do with this transfer, one may
/// with the next.
fn fails_with_all(failure: &Failure) -> bool {
    failure.exit == Exit::Unreachable || (failure.exit == Exit::Denied && failure.code != "scope_missing")
}

/// A transfer, by its identifier.
fn transfer(id: &str) -> Result<TransferId, Failure> {
    id.parse().map_err(|error| match may_be_link(id) {
        true => Failure::usage(
            "this takes no link: give the transfer's identifier, which stands between '/t/' and '#' in it",
        ),
        false => Failure::usage(format!("'{}': {error}", id.escape_debug())),
    })
}

/// Whether it was meant as a link, which holds a secret: no message repeats it.
fn may_be_link(text: &str) -> bool {
    text.contains("://") || text.contains("#thl_")
}

/// The depot that the flag, the environment or the login names.
fn depot(to: Option<&str>) -> Result<DepotSettings, Failure> {
    DepotSettings::settle(to, &Environment::read(), LoginFile::stored)
}
