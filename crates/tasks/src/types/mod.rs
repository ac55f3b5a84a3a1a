//! One file per task type. Each has `SPEC`, what the compiler needs to know, and `WORK`, what a
//! run does with it.

pub mod debug_return;
pub mod execution_fail;
pub mod execution_labels;
pub mod http_request;
pub mod kv_delete;
pub mod kv_get;
pub mod kv_set;
pub mod log_log;
pub mod output_values;
pub mod trigger_toggle;

use semel_core::ir::{FieldKind, FieldSpec};

const fn field(name: &'static str, kind: FieldKind, summary: &'static str) -> FieldSpec {
    FieldSpec { name, kind, required: false, summary }
}

const fn required(name: &'static str, kind: FieldKind, summary: &'static str) -> FieldSpec {
    FieldSpec { name, kind, required: true, summary }
}
