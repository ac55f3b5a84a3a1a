//! `/api`: Conductor's URLs and shapes over the same engine. Translation only: a workflow is a run, a task is an attempt
//! at a step, a task for a worker is an errand.
//!
//! | module | holds |
//! |---|---|
//! | [`error`] | refusals in Conductor's shape |
//! | [`body`] | what clients send, read as leniently as they need it |
//! | [`token`] | `/api/token`, version and health |
//! | [`metadata`], [`task_defs`] | definitions of workflows and of tasks |
//! | [`start`], [`execute`] | workflows that are started, and waited for |
//! | [`workflow`], [`task`] | a run as a workflow, an attempt as a task |
//! | [`control`], [`bulk`] | what is asked of workflows that are there |
//! | [`messages`] | what is left for them |
//! | [`rehearse`] | a workflow tried out with answers that were thought out |
//! | [`listing`], [`search`], [`query`] | lists of them, and the language of searches |
//! | [`documents`], [`tags`], [`schemas`], [`environment`], [`secrets`] | things that are kept as they were written |
//! | [`schedules`], [`schedule_executions`] | workflows that the clock starts |
//! | [`webhooks`], [`receive`] | events from outside |
//! | [`events`], [`event_history`] | handlers of events, and what came of events |
//! | [`human`], [`human_templates`] | tasks that people do |
//! | [`tasks`], [`update`], [`signal`], [`queues`] | what workers ask and say |

pub mod body;
pub mod bulk;
pub mod control;
pub mod documents;
pub mod environment;
pub mod error;
pub mod event_history;
pub mod events;
pub mod execute;
pub mod human;
pub mod human_templates;
pub mod listing;
pub mod messages;
pub mod metadata;
pub mod query;
pub mod queues;
pub mod receive;
pub mod rehearse;
pub mod schedule_executions;
pub mod schedules;
pub mod schemas;
pub mod search;
pub mod secrets;
pub mod signal;
pub mod start;
pub mod tags;
pub mod task;
pub mod task_defs;
mod task_words;
pub mod tasks;
pub mod token;
pub mod update;
pub mod webhooks;
pub mod workflow;

use crate::call::Answer;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;

/// True for paths whose answers have Conductor's shapes.
pub fn is_under(path: &str) -> bool {
    let under = |base: &str| path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (under("/api") && !under("/api/v1")) || under("/webhook") || path == "/health"
}

/// 200 with an id or another plain text.
pub fn text(body: impl Into<String>) -> Answer {
    let mut response = Response::new(Body::from(body.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain;charset=UTF-8"));
    Ok(response)
}

/// 200 without a body and without a type: clients read one as an object.
pub fn done() -> Answer {
    Ok(Response::new(Body::empty()))
}
