//! `terahaul extend`

use crate::api::Api;
use crate::cli::ExtendArgs;
use crate::commands::{depot, each, transfer};
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, date_of};

pub async fn run(args: ExtendArgs, output: &Output) -> Result<Exit, Failure> {
    let api = Api::new(&depot(args.depot.as_deref())?)?;
    each(&args.ids, output, async |id| {
        let id = transfer(id)?;
        let expires = api.extend(id, args.expire_days).await?.expires;
        let until =
            expires.map_or_else(|| "for good".into(), |expires| format!("until {}", date_of(expires)));
        let result = serde_json::json!({ "transfer": id, "expires": expires });
        output.emit(&Event::Done { command: "extend", result, text: format!("{id} is kept {until}") });
        Ok(())
    })
    .await
}
