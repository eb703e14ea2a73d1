//! Globs that leave nothing of what was named: one of them is mistyped, and the depot is to hear nothing of it.

use std::ops::ControlFlow;
use std::sync::Arc;

use terahaul_tree::{Filter, Roots, walk};
use tokio::sync::oneshot;

use crate::api::Api;
use crate::blocking::blocking;
use crate::cli::FilterArgs;
use crate::exit::Failure;

/// Fails where the walk ends without having found anything, although something is there. What an earlier run has sent may be gone. The depot
/// is asked meanwhile: in a large tree it may be long until something is found, and whoever has a wrong address or token hears that before.
pub async fn check(
    mut found: oneshot::Receiver<()>,
    globs: &FilterArgs,
    roots: &Arc<Roots>,
    (api, resume_key): (&Api, &str),
) -> Result<(), Failure> {
    if globs.is_none() {
        return Ok(());
    }
    let goes_on = async { Ok::<_, Failure>(api.unfinished(resume_key).await?.is_some()) };
    tokio::pin!(goes_on);
    let may_go = tokio::select! {
        is_found = &mut found => is_found.is_ok() || goes_on.await?,
        goes_on = &mut goes_on => goes_on? || found.await.is_ok(),
    };
    if may_go {
        return Ok(());
    }
    let (globs, roots) = (globs.clone(), Arc::clone(roots));
    blocking(move || check_empty(&globs, &roots)).await?
}

/// The same, where it is known that the globs leave nothing. Folders that are empty by themselves may be sent.
pub fn check_empty(globs: &FilterArgs, roots: &Roots) -> Result<(), Failure> {
    let is_empty = walk(roots, &Filter::default(), 0, |_| ControlFlow::Break(()));
    if globs.is_none() || is_empty {
        return Ok(());
    }
    Err(Failure::usage(format!("nothing of what was named is selected, so nothing is sent: check {globs}")))
}
