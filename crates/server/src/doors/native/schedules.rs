//! `/v1/schedules`: when flows fire next.

use crate::call::{Answer, Call, ok};
use crate::view;

pub async fn list(call: Call) -> Answer {
    let page = call.page("schedules")?;
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.schedules(&workspace)).await?;
    ok(page.answer_slice(&rows, view::schedule)?)
}
