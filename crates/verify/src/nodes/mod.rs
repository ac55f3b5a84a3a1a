//! Several nodes on one PostgreSQL, under load, with judges that are never killed.
//!
//! The company is that of the kill loop ([`crate::kill`]): the same flows, the same ledger and sender, the same end
//! check. Here are the nodes, and what is done to them and to their database:
//!
//! | trouble | where |
//! |---|---|
//! | nodes die, are frozen for longer than their lease, are told to stop, and come back | [`kill_loop`] |
//! | the database restarts, and fails over to a standby | [`database`] |

pub mod database;
pub mod kill_loop;
pub mod node;
pub mod scene;

use std::time::Duration;

/// A frozen node is frozen for longer than this: by then its runs belong to others.
pub const LEASE: Duration = Duration::from_secs(6);
