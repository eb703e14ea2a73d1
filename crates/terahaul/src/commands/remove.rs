//! `terahaul remove`

use terahaul_core::TransferId;

use crate::api::Api;
use crate::cli::RemoveArgs;
use crate::commands::{depot, each};
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output};

pub async fn run(args: RemoveArgs, output: &Output) -> Result<Exit, Failure> {
    let parse = |id: &String| {
        id.parse::<TransferId>().map_err(|error| Failure::usage(format!("'{}': {error}", id.escape_debug())))
    };
    let ids = args.ids.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let api = Api::new(&depot(args.to.as_deref())?)?;
    each(&ids, output, async |&id| {
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
