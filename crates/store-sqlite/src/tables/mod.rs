//! SQL, one file per group of tables. Functions take the number of a workspace and return what
//! SQLite says; [`crate::tx`] and [`crate::reads`] turn errors into the store's.

pub mod admin;
pub mod changes;
pub mod claims;
pub mod decisions;
pub mod errands;
pub mod files;
pub mod found;
pub mod history;
pub mod log_search;
pub mod runs;
pub mod words;
