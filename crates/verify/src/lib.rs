//! Proof: simulation, end-to-end, tidy. Never shipped.

pub mod disk;
pub mod fuzz;
pub mod kill;
pub mod linear;
pub mod nodes;
pub mod sim;
