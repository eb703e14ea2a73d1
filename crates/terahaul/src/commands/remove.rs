//! `terahaul remove`

use crate::api::Api;
use crate::cli::RemoveArgs;
use crate::commands::{depot, each, transfer};
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output};

pub async fn run(args: RemoveArgs, output: &Output) -> Result<Exit, Failure> {
    let api = Api::new(&depot(args.depot.as_deref())?)?;
    each(&args.ids, output, async |id| {
        let id = transfer(id)?;
        if args.dry_run {
            output.emit(&Event::Transfer(&api.transfer(id).await?));
        } else {
            api.remove(id).await?;
            let result = serde_json::json!({ "transfer": id });
            output.emit(&Event::Done { command: "remove", result, text: format!("removed {id}") });
        }
        Ok(())
    })
    .await
}
