//! `/api/v1`: Kestra's URLs and shapes over the same engine. Translation only: a tenant is a workspace, an execution
//! is a run, a task run is a step.
//!
//! | module | holds |
//! |---|---|
//! | [`tenant`] | which workspace a path means, and whether the caller belongs to it |
//! | [`error`] | refusals in Kestra's shape |
//! | [`execution`] | a run as an execution |
//! | [`filters`] | the grammar of searches |
//! | [`executions`] | the calls under `/executions` |
//! | [`flows`], [`namespaces`], [`namespace_files`], [`kv`], [`secrets`], [`logs`], [`log_search`], [`log_follow`], [`triggers`], [`trigger_search`], [`concurrency`], [`metrics`], [`configs`] | the other resources |
//! | [`flow_json`], [`kv_value`], [`matching`], [`paged`] | what they share |

pub mod concurrency;
pub mod configs;
pub mod error;
pub mod execution;
pub mod executions;
pub mod filters;
pub mod flow_json;
pub mod flows;
pub mod kv;
pub mod kv_value;
pub mod log_follow;
pub mod log_search;
pub mod logs;
pub mod matching;
pub mod metrics;
pub mod namespace_files;
pub mod namespaces;
pub mod paged;
pub mod secrets;
pub mod tenant;
pub mod trigger_search;
pub mod triggers;

/// True for paths whose answers have Kestra's shapes.
pub fn is_under(path: &str) -> bool {
    path.strip_prefix("/api/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
