//! `terahaul info`

use terahaul_core::TransferId;

use crate::api::{Api, EntryRecord};
use crate::cli::InfoArgs;
use crate::commands::receipts;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, PathText, printable, transfers_head};
use crate::settings::{Environment, Target};

pub async fn run(args: InfoArgs, output: &Output) -> Result<Exit, Failure> {
    receipts::check_place(args.receipt.as_deref())?;
    let target = Target::settle(&args.transfer, args.depot.as_deref(), &Environment::read()).await?;
    let api = Api::new(&target.depot)?;
    let transfer = api.transfer(target.transfer).await?;
    output.heading(&transfers_head(transfer.sender.is_some()));
    output.emit(&Event::Transfer(&transfer));
    if let Some(link) = &transfer.link {
        output.detail(&format!("Link: {}", printable(link.as_bytes())));
    }
    if !args.summary {
        list_entries(&api, target.transfer, output).await?;
    }
    if let Some(path) = &args.receipt {
        receipts::keep(&api, target.transfer, path, &|| ()).await?;
    }
    Ok(Exit::Ok)
}

async fn list_entries(api: &Api, transfer: TransferId, output: &Output) -> Result<(), Failure> {
    let show = |record: EntryRecord| {
        match &record.reason {
            _ if record.superseded => {}
            Some(reason) if record.state == "failed" => {
                let path = match record.entry.to_entry() {
                    Ok(entry) => PathText::from(&entry.path),
                    Err(_) => PathText::from(record.entry.path.as_bytes()),
                };
                output.emit(&Event::Failure {
                    path,
                    cause: "failed",
                    message: &format!("was not received: {reason}"),
                });
            }
            _ => {
                let present = Some(record.state == "complete");
                output.emit(&Event::Entry { entry: &record.entry, present });
            }
        }
        Ok(())
    };
    api.entries(transfer, show).await
}
