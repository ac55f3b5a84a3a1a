//! One file per group of tables: their columns, rows to values and back.

pub mod admin;
pub mod claims;
pub mod decisions;
pub mod errands;
pub mod files;
pub mod history;
pub mod runs;
