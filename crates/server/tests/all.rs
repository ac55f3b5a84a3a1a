//! One binary for all integration tests of the server: real router, real engine, store in memory.

#[path = "suite/access.rs"]
mod access;
#[path = "suite/conductor.rs"]
mod conductor;
#[path = "suite/conductor_control.rs"]
mod conductor_control;
#[path = "suite/conductor_resources.rs"]
mod conductor_resources;
#[path = "suite/conductor_scheduler.rs"]
mod conductor_scheduler;
#[path = "suite/conductor_search.rs"]
mod conductor_search;
#[path = "suite/conductor_webhook.rs"]
mod conductor_webhook;
#[path = "suite/harness.rs"]
mod harness;
#[path = "suite/kestra.rs"]
mod kestra;
#[path = "suite/kestra_executions.rs"]
mod kestra_executions;
#[path = "suite/kestra_flows.rs"]
mod kestra_flows;
#[path = "suite/kestra_namespace_files.rs"]
mod kestra_namespace_files;
#[path = "suite/kestra_resources.rs"]
mod kestra_resources;
#[path = "suite/matrix.rs"]
mod matrix;
#[path = "suite/matrix_conductor.rs"]
mod matrix_conductor;
#[path = "suite/matrix_conductor_control.rs"]
mod matrix_conductor_control;
#[path = "suite/matrix_conductor_resources.rs"]
mod matrix_conductor_resources;
#[path = "suite/matrix_kestra.rs"]
mod matrix_kestra;
#[path = "suite/matrix_kestra_resources.rs"]
mod matrix_kestra_resources;
#[path = "suite/native.rs"]
mod native;
#[path = "suite/socket.rs"]
mod socket;
#[path = "suite/trigger.rs"]
mod trigger;
#[path = "suite/webhook.rs"]
mod webhook;
