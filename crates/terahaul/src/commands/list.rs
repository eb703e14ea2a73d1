//! `terahaul list`

use crate::api::Api;
use crate::cli::ListArgs;
use crate::commands::depot;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, transfers_head};

pub async fn run(args: ListArgs, output: &Output) -> Result<Exit, Failure> {
    let api = Api::new(&depot(args.depot.as_deref())?)?;
    let transfers = api.transfers(args.max.unwrap_or(usize::MAX)).await?;
    if transfers.is_empty() && args.max != Some(0) {
        output.notice("there are no transfers yet: 'terahaul send PATH' makes one");
        return Ok(Exit::Ok);
    }
    output.heading(&transfers_head(transfers.iter().any(|transfer| transfer.sender.is_some())));
    transfers.iter().for_each(|transfer| output.emit(&Event::Transfer(transfer)));
    Ok(Exit::Ok)
}
