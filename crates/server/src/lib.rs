//! HTTP doors, authorisation, problem answers, OpenAPI.
//!
//! | module | holds |
//! |---|---|
//! | [`routes`] | the whole URL map on one page, as data: authorisation and OpenAPI come from it |
//! | `spelling` | the names of headers as their sender wrote them |
//! | [`site`] | that table as a service: the row of a request |
//! | `dispatch` | what happens to every request before and after its handler |
//! | [`auth`] | tokens, roles, who may use which route |
//! | [`problem`], [`codes`], `refused` | refusals, their codes, and which error becomes which |
//! | `doors` | handlers: translation between HTTP and the engine, no rules |
//! | [`serve`](mod@serve) | the accept loop with its limits and its orderly end |
//!
//! One request: socket → limits → route → authorise → body → door → engine → answer. A refusal at
//! any point before the engine's decision stores nothing and spends no key.

pub mod auth;
mod call;
pub mod codes;
mod dispatch;
mod doors;
mod json;
mod metrics;
mod openapi;
mod page;
pub mod problem;
mod refusals;
mod refused;
pub mod routes;
pub mod serve;
pub mod site;
mod spelling;
mod state;
mod view;

pub use auth::{NewToken, Principal, Role, make_token, os_random};
pub use problem::Problem;
pub use serve::serve;
pub use site::Site;
pub use state::{AppState, ServerConfig, TriggerScope};
