//! `terahaul remove`

use terahaul_core::TransferId;

use crate::api::Api;
use crate::cli::RemoveArgs;
use crate::commands::depot;
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output};

/// Goes on after a failure, so that one transfer that is gone already does not keep the others.
pub async fn run(args: RemoveArgs, output: &Output) -> Result<Exit, Failure> {
    let parse = |id: &String| {
        id.parse::<TransferId>().map_err(|error| Failure::usage(format!("'{}': {error}", id.escape_debug())))
    };
    let ids = args.ids.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let api = Api::new(&depot(args.to.as_deref())?)?;
    let mut first_failure = None;
    for id in ids {
        let removed = match args.dry_run {
            true => api.transfer(id).await.map(|transfer| output.emit(&Event::Transfer(&transfer))),
            false => api.remove(id).await.map(|()| {
                let result = serde_json::json!({ "transfer": id });
                output.emit(&Event::Done { command: "remove", result, text: format!("removed {id}") });
            }),
        };
        if let Err(failure) = removed {
            output.notice(format!("{id}: {failure}"));
            first_failure.get_or_insert(failure);
        }
    }
    first_failure.map_or(Ok(Exit::Ok), Err)
}
