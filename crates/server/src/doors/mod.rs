//! Handlers: translation between HTTP and the engine. Rules live below.

pub mod answer;
pub mod conductor;
pub mod event;
pub mod follow;
pub mod form;
pub mod health;
pub mod kestra;
pub mod native;
pub mod trigger;
pub mod webhook;
pub mod webhook_body;
