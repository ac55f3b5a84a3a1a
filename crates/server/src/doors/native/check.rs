//! `POST /v1/check`: does this workspace obey its own rules?

use crate::call::{Answer, Call, ok};
use semel_store::check::{Options, check};
use serde::Deserialize;
use tokio::sync::Semaphore;

/// A check holds a connection of the store for as long as it reads: one at a time.
static ONE: Semaphore = Semaphore::const_new(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {}

/// Reads on one snapshot while the server goes on; the caller waits for all of it.
pub async fn post(call: Call) -> Answer {
    let Body {} = call.json()?;
    let options = Options { workspace: Some(call.workspace()?), ..Options::default() };
    // The semaphore is never closed.
    let _turn = ONE.acquire().await.ok();
    let report = call.app.read(move |store| check(store, &options)).await?;
    ok(serde_json::to_value(report).unwrap_or_default())
}
