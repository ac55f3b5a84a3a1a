//! What the machine asks the engine to do.

use super::event::By;
use super::step::StepKey;
use crate::ids::RunId;

/// What the engine is to do. Nothing in `core` performs one.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Evaluate a step's expressions now. A repeat is harmless: nothing was recorded yet.
    Evaluate(StepKey),
    /// Evaluate the flow's outputs. A repeat is harmless.
    EvaluateOutputs,
    /// Send, after the intent is durable. Never repeated on its own: each send has its own intent.
    Perform { step: StepKey, send: u32 },
    /// Carry the step's op (kv, child admission) with this commit. Its result is journaled there.
    Op(StepKey),
    /// Ask a child to stop. A repeat finds it stopping.
    CancelChild { run: RunId, by: By },
    /// The quiet period ended, or the date has come: take a lane slot or wait in line, with this commit.
    EnterLane,
    /// Take a lane slot even if there is none, with this commit.
    ForceLane,
    /// Another run is to take the place of this one, with this commit.
    RunAgain,
    /// Evaluate an assertion of the flow. A repeat is harmless.
    CheckSla(u32),
}
