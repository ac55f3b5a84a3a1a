//! `/v1/nodes`: the processes that share the store.

use crate::call::{Answer, Call, ok};
use crate::view;

pub async fn list(call: Call) -> Answer {
    let page = call.page("nodes")?;
    let (engine, version) = (call.app.engine().clone(), call.app.config().version.clone());
    let rows = call.app.read(move |_| engine.nodes(&version)).await?;
    ok(page.answer_slice(&rows, view::node)?)
}
