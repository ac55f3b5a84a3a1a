//! `/api/v1/{tenant}/executions`: one file per kind of call.

pub mod show;
