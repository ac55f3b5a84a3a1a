//! `/api/v1/{tenant}/executions`: one file per kind of call.

pub mod act;
pub mod change;
pub mod create;
pub mod eval;
pub mod follow;
pub mod list;
mod query;
pub mod show;
pub mod validate;
pub mod webhook;
