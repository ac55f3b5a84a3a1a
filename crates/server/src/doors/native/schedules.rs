//! `/v1/schedules`: when flows fire next.

use crate::call::{Answer, Call, ok};
use crate::view;

pub async fn list(call: Call) -> Answer {
    let page = call.page("schedules")?;
    let workspace = call.workspace()?;
    let owner = workspace.clone();
    let mut rows = call.app.read(move |store| store.schedules(&owner)).await?;
    // Flow triggers are remembered with them, and are never due.
    let engine = call.app.engine();
    rows.retain(|row| match engine.flow(&workspace, &row.flow) {
        Ok(flow) => flow.index.flow.triggers.iter().any(|t| t.id == row.trigger && t.kind.has_instants()),
        Err(_) => false,
    });
    ok(page.answer_slice(&rows, view::schedule)?)
}
