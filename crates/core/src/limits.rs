//! A limit on everything, in one place. Each field has a test at the limit and one past it
//! where it is enforced.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    pub body_bytes_max: usize,
    /// Of what a webhook is sent.
    pub webhook_bytes_max: usize,
    /// Of a form with its files, and the time for it.
    pub upload_bytes_max: u64,
    pub upload_read_ms_max: u64,
    pub header_bytes_max: usize,
    pub connections_max: usize,
    pub header_read_ms_max: u64,
    pub body_read_ms_max: u64,
    pub json_depth_max: usize,
    pub yaml_nodes_max: usize,
    pub flow_bytes_max: usize,
    pub steps_per_run_max: u64,
    pub parallel_branches_max: u32,
    pub foreach_items_max: u32,
    pub subrun_depth_max: u32,
    pub retries_max: u32,
    pub wait_ms_max: i64,
    pub pending_admissions_max: u64,
    pub http_timeout_ms: u64,
    pub http_answer_bytes_max: usize,
    pub http_calls_max: usize,
    pub http_calls_per_host_max: usize,
    pub log_line_bytes_max: usize,
    pub step_log_lines_max: usize,
    pub file_bytes_max: u64,
    pub step_files_max: usize,
    pub scripts_max: usize,
    pub event_streams_max: usize,
    pub page_rows_max: u32,
    pub prefer_wait_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes_max: 1024 * 1024,
            webhook_bytes_max: 4 * 1024 * 1024,
            upload_bytes_max: 512 * 1024 * 1024,
            upload_read_ms_max: 600_000,
            header_bytes_max: 16 * 1024,
            connections_max: 1024,
            header_read_ms_max: 10_000,
            body_read_ms_max: 30_000,
            json_depth_max: 64,
            yaml_nodes_max: 50_000,
            flow_bytes_max: 512 * 1024,
            steps_per_run_max: 1_000_000,
            parallel_branches_max: 1_000,
            foreach_items_max: 100_000,
            subrun_depth_max: 16,
            retries_max: 100,
            wait_ms_max: crate::duration::MAX_MS,
            pending_admissions_max: 100_000,
            http_timeout_ms: 30_000,
            http_answer_bytes_max: 8 * 1024 * 1024,
            http_calls_max: 32,
            http_calls_per_host_max: 8,
            log_line_bytes_max: 64 * 1024,
            step_log_lines_max: 10_000,
            file_bytes_max: 128 * 1024 * 1024,
            step_files_max: 10_000,
            scripts_max: 8,
            event_streams_max: 100,
            page_rows_max: 500,
            prefer_wait_ms_max: 300_000,
        }
    }
}
