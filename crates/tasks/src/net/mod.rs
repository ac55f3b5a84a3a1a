//! The guarded HTTP client: every call a flow makes to the outside goes through here.
//!
//! | file | what it guarantees |
//! |---|---|
//! | [`address`] | which addresses may be reached at all |
//! | `allow` | the operator's exceptions |
//! | `guard` | a URL and every address its name resolves to are checked; only checked ones are used |
//! | `gate` | the lease is checked after the connection stands and before the first byte leaves |
//! | `slots` | no more calls at once than configured, in all and per host |
//! | `client` | one request per call, and an honest word on whether it may have left |
//!
//! Invariants: a redirect leads only to a read, nothing is resent, no proxy or cookie is taken from the
//! environment. A mutating call opens its own connection: on a reused one, a close by the far
//! side could not be told from a request that was read and lost.

pub mod address;
mod allow;
mod client;
mod gate;
mod guard;
mod slots;
#[cfg(test)]
mod spellings;

pub(crate) use client::{Answer, Body, Call, CallError, Net, Pour};
pub use guard::{Guard, Looking, Lookup, Refusal};

use semel_core::limits::Limits;

/// May flows reach loopback and private networks?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivatePolicy {
    /// A self-hosted engine calls the services beside it.
    #[default]
    Allow,
    /// Only global addresses, and what the allow-list names.
    Deny,
}

#[derive(Clone, Debug)]
pub struct NetConfig {
    pub private: PrivatePolicy,
    /// `host`, `host:port`, `address`, `address:port` or `network/bits`. It lifts
    /// [`PrivatePolicy::Deny`], never the refusal of metadata and link-local addresses.
    pub allow: Vec<String>,
    /// Total time of a call whose author names none.
    pub timeout_ms: u64,
    pub answer_bytes_max: usize,
    pub calls_max: usize,
    pub calls_per_host_max: usize,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        let limits = Limits::default();
        NetConfig {
            private: PrivatePolicy::Allow,
            allow: Vec::new(),
            timeout_ms: limits.http_timeout_ms,
            answer_bytes_max: limits.http_answer_bytes_max,
            calls_max: limits.http_calls_max,
            calls_per_host_max: limits.http_calls_per_host_max,
        }
    }
}

/// Why no client can be made. All of these are for the operator to mend.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("`{0}` in the outbound allow-list is not a host, host:port, address or network/bits")]
    BadAllowEntry(String),
    #[error("the limits on outbound calls must be at least 1")]
    ZeroLimit,
    #[error("the TLS set-up failed: {0}")]
    Tls(#[source] reqwest::Error),
}
