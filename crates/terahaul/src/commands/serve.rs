//! `terahaul serve`

use crate::cli::ServeArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::Output;

pub async fn run(_args: ServeArgs, _output: &Output, _interrupt: &Interrupt) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::Unexpected, "not yet"))
}
