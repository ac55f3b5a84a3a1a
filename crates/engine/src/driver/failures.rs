//! Why steps failed, as lines of the log: there a caller of Kestra's API looks for it, and nowhere else.

use crate::flows::LoadedFlow;
use semel_core::ir::TaskKind;
use semel_core::run::{Event, Failure, Input, StepKey, StepOutcome};
use semel_tasks::{Level, LogLine};

/// One line for each failure that these events, which `input` led to, are the first to tell.
///
/// A group that ends because a task in it failed has nothing to add. `said` is what the step wrote itself.
pub fn lines(
    flow: &LoadedFlow,
    input: &Input,
    events: &[Event],
    said: Option<&(StepKey, Vec<LogLine>)>,
) -> Vec<(StepKey, LogLine)> {
    if flow.is_conductor() {
        return Vec::new();
    }
    let own = |step: &StepKey| match flow.index.task(step.task_id()).map(|task| &task.kind) {
        Some(TaskKind::Leaf { .. } | TaskKind::Subflow(_) | TaskKind::Sleep { .. } | TaskKind::Pause(_)) => true,
        Some(TaskKind::Batches(_)) if step.iteration_number().is_some() => true,
        _ => matches!(input, Input::Evaluated { step: asked, result: Err(_), .. } if asked == step),
    };
    let mut found: Vec<(StepKey, LogLine)> = Vec::new();
    let mut tell = |step: &StepKey, failure: &Failure| {
        let message = failure.message().to_owned();
        let known = said.is_some_and(|(by, lines)| by == step && lines.iter().any(|line| line.message == message))
            || found.iter().any(|(by, line)| by == step && line.message == message);
        if !known && !message.is_empty() {
            found.push((step.clone(), LogLine { level: Level::Error, message }));
        }
    };
    for event in events {
        match event {
            Event::AttemptFailed { step, failure, .. } => tell(step, failure),
            Event::StepEnded { step, outcome: StepOutcome::Failed, failure: Some(failure), .. } if own(step) => {
                tell(step, failure);
            }
            Event::GroupAnswered { step, failure: Some(failure), .. } => tell(step, failure),
            _ => {}
        }
    }
    if let Input::OutputsEvaluated(Err(failure)) = input {
        tell(&StepKey::root(), failure);
    }
    found
}
