//! Admission: one pure decision for every way in.
//!
//! Two keys answer two questions. The **event key** says "have I seen this?"; its record is a
//! [`Claim`]. The **lane** says "may this run now?". [`decide_event`] looks at the claim; only an
//! event it calls [`EventVerdict::Fresh`] ever asks the lane ([`decide_lane`]), so whatever a lane
//! does, a redelivered event is never queued, delivered or run a second time.
//!
//! Both functions are total and run inside the transaction that applies their result. The table
//! in [`decide_event`]'s documentation is the specification; a test walks every cell of it.

mod decide;
mod key;
mod lane;
mod policy;
mod presets;
#[cfg(test)]
mod tests;

pub use decide::*;
pub use key::*;
pub use lane::*;
pub use policy::*;
pub use presets::*;

/// Written into every decision row, so that a later release can recompute old rows by old rules.
pub const RULES_VERSION: u32 = 1;
