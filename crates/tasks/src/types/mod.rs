//! One file per task type. Each has `SPEC`, what the compiler needs to know, and `WORK`, what a
//! run does with it.

pub mod debug_echo;
pub mod debug_return;
pub mod execution_assert;
pub mod execution_fail;
pub mod execution_kill;
pub mod execution_labels;
pub mod execution_set_variables;
pub mod execution_unset_variables;
mod http;
pub mod http_download;
pub mod http_request;
pub mod kv_delete;
pub mod kv_get;
pub mod kv_set;
pub mod log_fetch;
pub mod log_log;
mod multipart;
pub mod output_values;
mod process;
pub mod process_commands;
pub mod process_node;
pub mod process_python;
pub mod process_script;
mod storage;
pub mod storage_concat;
pub mod storage_deduplicate_items;
pub mod storage_delete;
pub mod storage_filter_items;
pub mod storage_local_files;
pub mod storage_reverse;
pub mod storage_size;
pub mod storage_split;
pub mod storage_write;
pub mod trigger_toggle;

use semel_core::ir::{FieldKind, FieldSpec};

const fn field(name: &'static str, kind: FieldKind, summary: &'static str) -> FieldSpec {
    FieldSpec { name, kind, required: false, summary }
}

const fn required(name: &'static str, kind: FieldKind, summary: &'static str) -> FieldSpec {
    FieldSpec { name, kind, required: true, summary }
}
