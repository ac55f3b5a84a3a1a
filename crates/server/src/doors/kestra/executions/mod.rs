//! `/api/v1/{tenant}/executions`: one file per kind of call.

pub mod act;
pub mod bulk;
pub mod change;
pub mod create;
pub mod eval;
pub mod files;
pub mod flow;
pub mod follow;
pub mod list;
mod query;
pub mod review;
pub mod show;
mod uploads;
pub mod validate;
pub mod webhook;
