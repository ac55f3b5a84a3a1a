//! Where a run goes on again when a person asks for one of its steps once more.
//!
//! What was done before the step stays done, and what came after it is done again. Both are told by the groups around
//! the step: in one that does its children in their order all before it are kept and all behind it are not; in one that
//! does several at once the others are kept if they ended well, and go on as after a restart if they did not; where
//! children wait for others, those that waited for the step are done again too.
//!
//! A group that has ended is not part of a run's state any more, so the groups around the step are found in the journal.

use super::decide::{NotPossible, refuse};
use super::event::{Event, Payload, Stage};
use super::index::FlowIndex;
use super::state::{Asks, GroupState, Needs, RunState, Work};
use super::step::StepKey;
use crate::ir::TaskKind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The step, and the groups around it as they are to be, outermost first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Back {
    pub step: StepKey,
    pub frames: Vec<Frame>,
    /// What the step is given instead of what its author wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    pub step: StepKey,
    pub take: u32,
    pub round: u32,
    pub group: GroupState,
    /// Of a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Payload>,
    /// Children whose doing is forgotten, besides the one that leads to the step. `None`: all that are not done before
    /// it, in the order of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<BTreeSet<String>>,
}

/// What the journal knows of one group around the step.
struct Seen {
    take: u32,
    round: u32,
    group: GroupState,
}

impl Back {
    /// Whether what is known of a step stays so. The step itself and all below it do not.
    pub fn keeps(&self, flow: &FlowIndex, key: &StepKey) -> bool {
        if key.is_under(&self.step) {
            return false;
        }
        // The innermost group around both.
        let Some(frame) = self.frames.iter().rev().find(|frame| key.is_under(&frame.step) && *key != frame.step) else {
            return true;
        };
        let (Some(own), Some(path)) = (child_of(&frame.step, key), child_of(&frame.step, &self.step)) else {
            return true;
        };
        if own == path {
            return true;
        }
        match (&frame.undone, own.iteration_number(), path.iteration_number()) {
            (Some(undone), _, _) => !undone.contains(own.task_id()) || own.iteration_number().is_some(),
            (None, Some(own), Some(path)) => own < path,
            (None, _, _) => {
                let children = flow.children(&frame.step, &frame.group.list, Stage::Body);
                let place = |key: &StepKey| children.iter().position(|task| task.id == key.task_id());
                place(&own).is_some_and(|own| place(&path).is_some_and(|path| own < path))
            }
        }
    }

    pub fn payloads_mut(&mut self) -> impl Iterator<Item = &mut Payload> {
        self.frames.iter_mut().filter_map(|frame| frame.items.as_mut()).chain(self.input.as_mut())
    }
}

/// The child of a group that a step is, or is below of.
pub(super) fn child_of(group: &StepKey, step: &StepKey) -> Option<StepKey> {
    let mut key = step.clone();
    loop {
        let parent = key.parent()?;
        if parent == *group {
            return Some(key);
        }
        key = parent;
    }
}

/// Finds the groups around a step that was reached.
pub fn back_to(flow: &FlowIndex, journal: &[Event], step: &StepKey) -> Result<Back, NotPossible> {
    if step.is_root() || step.iteration_number().is_some() {
        return refuse("a run goes on again from a task");
    }
    let (seen, mut items, reached) = look(journal, step);
    if !reached {
        return refuse(format!("`{step}` was never reached; a run goes on again from a step that was"));
    }
    let mut frames = Vec::new();
    let mut around: Vec<StepKey> = std::iter::successors(step.parent(), StepKey::parent).collect();
    around.reverse();
    for key in around {
        let kind = flow.task(key.task_id()).map(|task| &task.kind);
        if matches!(kind, Some(TaskKind::Loop(_) | TaskKind::Batches(_) | TaskKind::Pause(_))) {
            return refuse(format!(
                "`{step}` is inside `{key}`, which keeps its rounds to itself; begin with that one"
            ));
        }
        let (Some(known), Some(child)) = (seen.get(&key), child_of(&key, step)) else {
            return refuse(format!("`{step}` was never reached; a run goes on again from a step that was"));
        };
        frames.push(frame(flow, &key, &child, known, items.remove(&key), child == *step)?);
    }
    Ok(Back { step: step.clone(), frames, input: None })
}

type Items = BTreeMap<StepKey, Payload>;

/// The groups around the step as they were last, and the items of loops.
fn look(journal: &[Event], step: &StepKey) -> (BTreeMap<StepKey, Seen>, Items, bool) {
    let mut seen = BTreeMap::new();
    let (mut items, mut reached) = (Items::new(), false);
    let Some(Event::Created { logical, .. }) = journal.first() else { return (seen, items, reached) };
    let mut state = RunState::new(*logical);
    let around = |key: &StepKey| step.is_under(key) && step != key;
    let note = |state: &RunState, key: &StepKey, seen: &mut BTreeMap<StepKey, Seen>| {
        if let Some(found) = state.steps.get(key)
            && let Work::Group(group) = &found.work
        {
            seen.insert(key.clone(), Seen { take: found.take, round: found.round, group: group.clone() });
        }
    };
    for event in journal {
        match event {
            Event::StepEnded { step: ended, .. } if around(ended) => note(&state, ended, &mut seen),
            Event::LoopStarted { step: begun, items: given, .. } if around(begun) => {
                items.insert(begun.clone(), given.clone());
            }
            Event::StepStarted { step: begun, .. } if begun == step => reached = true,
            Event::Finishing | Event::Ended { .. } => note(&state, &StepKey::root(), &mut seen),
            _ => {}
        }
        state.evolve(event);
    }
    for key in std::iter::successors(step.parent(), StepKey::parent) {
        note(&state, &key, &mut seen);
    }
    (seen, items, reached)
}

/// A group as it is to be when the step below it starts once more. `last`: it holds the step itself.
fn frame(
    flow: &FlowIndex,
    key: &StepKey,
    child: &StepKey,
    known: &Seen,
    items: Option<Payload>,
    last: bool,
) -> Result<Frame, NotPossible> {
    let was = &known.group;
    let next = if was.stage == Stage::Body { was.next } else { was.body_next };
    let mut group = GroupState {
        asks: was.asks,
        warned: was.warned,
        next,
        ..GroupState::new(was.list.clone(), was.concurrent, was.count)
    };
    (group.each_asks, group.each_is_step, group.needs) = (was.each_asks, was.each_is_step, was.needs.clone());
    if group.asks != Asks::Never {
        group.asks = Asks::WhenDone;
    }
    let children = flow.children(key, &group.list, Stage::Body);
    let place = match child.iteration_number() {
        Some(n) => Some(n),
        None => children.iter().position(|task| task.id == child.task_id()).map(|place| place as u32),
    };
    let Some(place) = place.filter(|place| *place < next) else {
        return refuse(format!("`{child}` is not a task that a run can go on from again"));
    };
    // The step is counted when it starts.
    let begun = u32::from(!last);
    let mut undone = None;
    if let Some(needs) = &mut group.needs {
        let gone = dependents(flow, key, child.task_id());
        forget(needs, &gone, child.task_id(), last);
        undone = Some(gone);
    } else if group.concurrent == 1 {
        group.next = place + begun;
        if child.iteration_number().is_some()
            && matches!(flow.task(key.task_id()).map(|task| &task.kind), Some(TaskKind::LoopUntil(_)))
        {
            group.count = Some(place + 1);
        }
    } else {
        group.next = next - u32::from(last);
        undone = Some(BTreeSet::new());
    }
    Ok(Frame { step: key.clone(), take: known.take, round: known.round, group, items, undone })
}

/// All that wait for a task, directly or not.
fn dependents(flow: &FlowIndex, group: &StepKey, task: &str) -> BTreeSet<String> {
    let Some(TaskKind::Dag { depends, .. }) = flow.task(group.task_id()).map(|task| &task.kind) else {
        return BTreeSet::new();
    };
    let mut found: BTreeSet<String> = BTreeSet::from([task.to_owned()]);
    loop {
        let more =
            depends.iter().filter(|(id, needs)| !found.contains(*id) && needs.iter().any(|id| found.contains(id)));
        let more: Vec<String> = more.map(|(id, _)| id.clone()).collect();
        if more.is_empty() {
            found.remove(task);
            return found;
        }
        found.extend(more);
    }
}

fn forget(needs: &mut Needs, gone: &BTreeSet<String>, task: &str, last: bool) {
    needs.started.retain(|id| !(gone.contains(id) || (last && id == task)));
    needs.done.retain(|id| !gone.contains(id) && id != task);
}
