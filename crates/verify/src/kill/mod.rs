//! The kill loop: the real binary on a real file, killed again and again under load, with judges that are never killed.
//!
//! | process | what it is | where |
//! |---|---|---|
//! | the server | `semel serve` on a SQLite file; dies by SIGKILL, at failpoints, is stopped and resumed | [`nemesis`] |
//! | the ledger | the outside world: every call it got, in a file that is synced before it answers | [`ledger`] |
//! | the sender | hands out event keys, sends twins, resends on doubt, writes down each promise it got | [`sender`] |
//! | the person | decides some of the doubts, by what the ledger shows (a task, not a process) | [`person`] |
//!
//! The same company judges several nodes on one database: [`crate::nodes`].
//!
//! At the end the two records and what the server says are compared by [`check::violations`], a pure function that is
//! shown, for each kind of violation, to find it. The server's word alone proves nothing; the records do.

pub mod check;
pub mod company;
pub mod flows;
pub mod ledger;
pub mod nemesis;
pub mod observe;
pub mod person;
pub mod records;
pub mod report;
pub mod sender;
