//! The pure domain of Semel.
//!
//! Nothing in this crate reads a clock, a random source, a file or the network, and nothing is
//! async: `now` and fresh ids are arguments. What must happen outside is returned as data
//! (decisions, events, actions) for the engine to carry out.
//!
//! | module | question it answers |
//! |---|---|
//! | [`admission`] | an event arrived: start, attach, replay, queue, …? |
//! | [`run`] | something happened to a run: what is recorded, what is done next? |
//! | [`ir`] | what does a compiled flow look like? |
//! | [`fingerprint`] | are these two payloads the same? |
//! | [`date`] | what day is it where it was written? |
//! | [`holidays`] | is nobody at work that day? |
//! | [`files`] | what is the address of a file? |
//! | [`labels`] | which labels are the system's own? |
//! | [`wait`] | how long is a WAIT of Conductor's? |
//! | [`schema`] | does a value have the shape that is asked for? |
//! | [`limits`] | how much is too much? |

pub mod admission;
pub mod date;
pub mod duration;
pub mod files;
pub mod fingerprint;
pub mod holidays;
pub mod ids;
pub mod ir;
pub mod labels;
pub mod limits;
pub mod planted;
pub mod run;
pub mod schema;
pub mod subject;
pub mod time;
pub mod wait;

pub use ids::*;
pub use time::Millis;
