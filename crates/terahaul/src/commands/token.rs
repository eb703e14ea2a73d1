//! `terahaul token`

use crate::api::{Api, NewToken};
use crate::cli::{TokenArgs, TokenCommand, TokenCreateArgs};
use crate::commands::{depot, each};
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, TOKENS, date_of};

pub async fn run(args: TokenArgs, output: &Output) -> Result<Exit, Failure> {
    let api = Api::new(&depot(args.depot.as_deref())?)?;
    match args.command {
        TokenCommand::Create(args) => create(&api, &args, output).await?,
        TokenCommand::List => {
            let tokens = api.tokens().await?;
            output.heading(TOKENS);
            tokens.iter().for_each(|token| output.emit(&Event::Token(token)));
        }
        TokenCommand::Extend(args) => {
            let extend = async |id: &String| {
                let expires = api.extend_token(id, args.expire_days).await?.expires;
                let until = expires
                    .map_or_else(|| "for good".into(), |expires| format!("until {}", date_of(expires)));
                let result = serde_json::json!({ "id": id, "expires": expires });
                output.emit(&Event::Done {
                    command: "token extend",
                    result,
                    text: format!("{id} holds {until}"),
                });
                Ok(())
            };
            return each(&args.ids, output, extend).await;
        }
        TokenCommand::Revoke(args) => {
            let revoke = async |id: &String| {
                api.revoke_token(id).await?;
                let result = serde_json::json!({ "id": id });
                output.emit(&Event::Done { command: "token revoke", result, text: format!("revoked {id}") });
                Ok(())
            };
            return each(&args.ids, output, revoke).await;
        }
    }
    Ok(Exit::Ok)
}

async fn create(api: &Api, args: &TokenCreateArgs, output: &Output) -> Result<(), Failure> {
    let new = NewToken {
        label: &args.label,
        scopes: args.scope.iter().map(|scope| scope.text()).collect(),
        quota_bytes: args.quota.map(|quota| quota.0),
        expires_in_days: args.expire_days,
    };
    let created = api.create_token(&new).await?;
    let id = &created.info.id;
    output.set_remedy(format!(
        "the token is there, and its secret is lost: revoke it with 'terahaul token revoke {id}'"
    ));
    output.notice(format!("token {id} is shown only now; keep it where only its user can read it"));
    let result = serde_json::to_value(&created).unwrap_or_default();
    output.emit(&Event::Done { command: "token create", result, text: created.token });
    Ok(())
}
