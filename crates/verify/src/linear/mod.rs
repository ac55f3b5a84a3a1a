//! Admission as one object: whatever several nodes answer about a key must be what one of them alone could have said.
//!
//! | part | what it is | where |
//! |---|---|---|
//! | the history | what each client asked, when, and what it heard, when | here |
//! | the check | exact and pure: is there an order that explains the history? | [`check`] |
//! | the hammer | clients on hot keys of several nodes, which are killed, frozen and cut off meanwhile | [`hammer`] |

pub mod check;
pub mod hammer;
mod trouble;

/// One attempt to have an event admitted. Instants are of one clock that never goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub invoked: u64,
    /// `None`: the answer was lost, or said nothing about the event. It may have taken effect, now or later, or never.
    pub heard: Option<Heard>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub returned: u64,
    pub run: String,
    /// This attempt made the run; else it was there.
    pub created: bool,
}
