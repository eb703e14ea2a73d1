//! The transfer that is sent to a depot to measure, and removed again.

use std::time::Duration;

use terahaul_core::TransferId;

use crate::api::Api;
use crate::exit::{Exit, Failure};

/// Longest wait for the depot to remove it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What there is to remove.
pub struct Temporary {
    api: Api,
    /// Finds the transfer while it is not finished, even if the depot's answer never came.
    key: String,
    /// The depot may have been asked for it.
    asked: bool,
    /// Known once the depot has answered.
    pub transfer: Option<TransferId>,
}

impl Temporary {
    /// Under a key of its own.
    pub fn new(api: Api) -> Result<Self, Failure> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|_| Failure::new(Exit::Unexpected, "the system has no random numbers: try again"))?;
        let key = format!("probe-{}", data_encoding::HEXLOWER.encode(&random));
        Ok(Self { api, key, asked: false, transfer: None })
    }

    /// What it is opened with, from now on.
    pub fn key(&mut self) -> String {
        self.asked = true;
        self.key.clone()
    }

    /// Removes it. Returns what is left, as a sentence with a remedy.
    pub async fn remove(self) -> Option<String> {
        if !self.asked {
            return None;
        }
        let removing = async {
            let transfer = match self.transfer {
                Some(transfer) => Some(transfer),
                None => self.api.unfinished(&self.key).await?,
            };
            match transfer {
                Some(transfer) => self.api.remove(transfer).await,
                None => Ok(()),
            }
        };
        let why = match tokio::time::timeout(PATIENCE, removing).await {
            Ok(Ok(())) => return None,
            Ok(Err(failure)) => failure.message,
            Err(_) => "the depot does not answer".into(),
        };
        let (name, remedy) = match self.transfer {
            Some(transfer) => (format!(" {transfer}"), format!("'terahaul remove {transfer}' removes it")),
            None => (String::new(), "'terahaul list' names it".into()),
        };
        Some(format!(
            "the temporary transfer{name} could not be removed ({why}): {remedy}, and the depot does by itself after a day"
        ))
    }
}
