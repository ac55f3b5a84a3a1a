//! One file per task type, and one for those that run scripts. Each has `SPEC`, what the compiler needs to know, and `WORK`, what a
//! run does with it.

pub mod conductor_event;
pub mod conductor_http;
#[cfg(feature = "kafka")]
pub mod conductor_kafka;
pub mod conductor_script;
pub mod debug_echo;
pub mod debug_return;
pub mod execution_assert;
pub mod execution_count;
pub mod execution_fail;
pub mod execution_kill;
pub mod execution_labels;
pub mod execution_purge;
pub mod execution_resume;
pub mod execution_set_variables;
pub mod execution_unset_variables;
pub mod for_each_item_merge;
pub mod for_each_item_split;
mod http;
pub mod http_download;
pub mod http_request;
pub mod kv_delete;
pub mod kv_get;
pub mod kv_get_keys;
pub mod kv_purge;
pub mod kv_set;
pub mod log_fetch;
pub mod log_log;
pub mod log_purge;
mod multipart;
pub mod namespace_delete_files;
pub mod namespace_download_files;
pub mod namespace_upload_files;
pub mod output_values;
mod process;
mod process_types;
mod purge;
pub mod state_delete;
pub mod state_get;
pub mod state_set;
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
pub mod templating_templated_task;
pub mod trigger_toggle;

pub use process_types::{process_commands, process_node, process_python, process_script};

use semel_core::ir::{FieldKind, FieldSpec};

const fn field(name: &'static str, kind: FieldKind, summary: &'static str) -> FieldSpec {
    FieldSpec { name, kind, required: false, summary }
}

const fn required(name: &'static str, kind: FieldKind, summary: &'static str) -> FieldSpec {
    FieldSpec { name, kind, required: true, summary }
}
