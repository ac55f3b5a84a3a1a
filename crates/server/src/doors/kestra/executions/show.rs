//! One execution, looked at.

use crate::call::{Answer, Call, ok};
use crate::doors::kestra::execution;

pub async fn get(call: Call) -> Answer {
    let whole = execution::find(&call.app, &call.workspace()?, call.run_id()?).await?;
    ok(execution::shown(&whole, call.sees_payloads(), call.now()))
}
