//! `/metrics`: no task of this server records any, so the lists that scripts and clients go through are empty ones.

use super::paged::{Paged, results};
use crate::call::{Answer, Call, ok};

/// Those of an execution.
pub async fn of_execution(call: Call) -> Answer {
    Paged::read(&call.query)?;
    results(Vec::new(), 0)
}

/// Their names, or the tasks that have any.
pub async fn names(_: Call) -> Answer {
    ok(Vec::<String>::new())
}
