//! A breakpoint at one value of a loop (`task.value`): which steps of its rounds it means.
//!
//! The machine knows the rounds of a loop by their numbers only. Their values are known here: when the loop begins, and,
//! if a breakpoint is named later, from what the run remembers of the loops that are open.

use super::active::Active;
use crate::flows::LoadedFlow;
use crate::taskruns::round_value;
use semel_core::ir::TaskKind;
use semel_core::run::{Evaluated, ListName, Stage, StepKey};
use semel_expr::Value;

/// Names the steps of a loop that is to begin before which the run stops.
pub(super) fn marked(found: Evaluated, step: &StepKey, active: &Active) -> Evaluated {
    match found {
        Evaluated::Items { count, items, .. } if with_values(&active.state.breakpoints).next().is_some() => {
            let stops = match Value::from_stored(items.json()) {
                Value::List(values) => places(&active.flow, step, &values, &active.state.breakpoints),
                _ => vec![],
            };
            Evaluated::Items { count, items, stops }
        }
        other => other,
    }
}

/// The steps that breakpoints mean in the loops that have begun.
pub(super) fn in_open_loops(active: &Active, breakpoints: &[String]) -> Vec<StepKey> {
    let open = active.memory.loops.iter();
    open.flat_map(|(over, items)| places(&active.flow, over, items, breakpoints)).collect()
}

fn with_values(breakpoints: &[String]) -> impl Iterator<Item = (&str, &str)> {
    breakpoints.iter().filter_map(|name| name.split_once('.'))
}

/// Only the tasks right below a loop have its value, as in what is shown of them.
fn places(flow: &LoadedFlow, over: &StepKey, items: &[Value], breakpoints: &[String]) -> Vec<StepKey> {
    let wrapped = matches!(flow.index.task(over.task_id()).map(|task| &task.kind), Some(TaskKind::Loop(_)));
    let below = flow.index.children(over, &ListName::Tasks, Stage::Body);
    let mut found = Vec::new();
    for (task, value) in with_values(breakpoints).filter(|(task, _)| below.iter().any(|child| child.id == *task)) {
        let rounds = (0_u32..).zip(items).filter(|(_, item)| round_value(item, wrapped).to_text() == value);
        found.extend(rounds.map(|(number, _)| over.iteration(number).child(task)));
    }
    found
}
