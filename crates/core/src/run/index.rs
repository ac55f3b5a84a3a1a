//! A flow prepared for running: disabled tasks left out, tasks found by id.

use super::event::{ListName, Stage};
use super::step::StepKey;
use crate::ir::{Flow, Task, TaskKind};
use std::collections::BTreeMap;

/// One hop from a list of tasks into a child list.
#[derive(Clone, Debug)]
struct Hop {
    index: usize,
    list: ChildList,
}

#[derive(Clone, Debug)]
enum ChildList {
    Named(ListName),
    Stage(Stage),
}

/// The flow as the machine reads it.
#[derive(Clone, Debug)]
pub struct FlowIndex {
    pub flow: Flow,
    /// Task id → where it is: the root stage, the hops, the index in the last list.
    places: BTreeMap<String, (Stage, Vec<Hop>, usize)>,
}

impl FlowIndex {
    pub fn new(mut flow: Flow) -> FlowIndex {
        for list in [&mut flow.tasks, &mut flow.errors, &mut flow.finally, &mut flow.after] {
            drop_disabled(list);
        }
        let mut places = BTreeMap::new();
        for (stage, list) in [
            (Stage::Body, &flow.tasks),
            (Stage::Errors, &flow.errors),
            (Stage::Finally, &flow.finally),
            (Stage::After, &flow.after),
        ] {
            collect(list, stage, &mut Vec::new(), &mut places);
        }
        FlowIndex { flow, places }
    }

    pub fn task(&self, id: &str) -> Option<&Task> {
        let (stage, hops, index) = self.places.get(id)?;
        let mut list = self.root_list(*stage);
        for hop in hops {
            list = child_list(&list.get(hop.index)?.kind, &hop.list);
        }
        list.get(*index)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.places.keys().filter_map(|id| self.task(id))
    }

    fn root_list(&self, stage: Stage) -> &[Task] {
        match stage {
            Stage::Body => &self.flow.tasks,
            Stage::Errors => &self.flow.errors,
            Stage::Finally => &self.flow.finally,
            Stage::After => &self.flow.after,
        }
    }

    /// The children of a group at one of its stages.
    pub fn children(&self, group: &StepKey, list: &ListName, stage: Stage) -> &[Task] {
        if group.is_root() {
            return self.root_list(stage);
        }
        let Some(task) = self.task(group.task_id()) else { return &[] };
        // The handlers of a loop belong to the loop, not to each iteration; those of a `Loop` to each iteration.
        let of_rounds = matches!(task.kind, TaskKind::Loop(_));
        if stage != Stage::Body && group.iteration_number().is_some() != of_rounds {
            return &[];
        }
        let wanted = match stage {
            Stage::Body => ChildList::Named(list.clone()),
            Stage::Errors | Stage::Finally | Stage::After => ChildList::Stage(stage),
        };
        child_list(&task.kind, &wanted)
    }
}

fn child_list<'a>(kind: &'a TaskKind, list: &ChildList) -> &'a [Task] {
    const NONE: &[Task] = &[];
    match list {
        ChildList::Named(name) => match (kind, name) {
            (kind, ListName::Tasks) => kind.group().map_or(NONE, |group| &group.tasks),
            (TaskKind::Pause(spec), ListName::OnPause) => &spec.on_pause,
            (TaskKind::Pause(spec), ListName::OnDeny) => spec.review.as_ref().map_or(NONE, |review| &review.on_deny),
            (TaskKind::If { then, .. }, ListName::Then) => then,
            (TaskKind::If { otherwise, .. }, ListName::Else) => otherwise,
            (TaskKind::Switch { cases, .. }, ListName::Case(case)) => cases.get(case).map_or(NONE, |l| l),
            (TaskKind::Switch { defaults, .. }, ListName::Defaults) => defaults.as_deref().unwrap_or(NONE),
            _ => NONE,
        },
        ChildList::Stage(stage) => match (kind.handlers(), stage) {
            (Some((errors, _)), Stage::Errors) => errors,
            (Some((_, finally)), Stage::Finally) => finally,
            (Some(_), Stage::Body | Stage::After) | (None, _) => NONE,
        },
    }
}

/// Every child list of a task, with its name.
fn lists(kind: &TaskKind) -> Vec<ChildList> {
    let mut found = vec![ChildList::Stage(Stage::Errors), ChildList::Stage(Stage::Finally)];
    match kind {
        TaskKind::If { .. } => {
            found.extend([ListName::Then, ListName::Else].map(ChildList::Named));
        }
        TaskKind::Switch { cases, .. } => {
            found.extend(cases.keys().map(|case| ChildList::Named(ListName::Case(case.clone()))));
            found.push(ChildList::Named(ListName::Defaults));
        }
        TaskKind::Pause(_) => {
            found.extend([ListName::OnPause, ListName::Tasks, ListName::OnDeny].map(ChildList::Named));
        }
        kind if kind.group().is_some() => found.push(ChildList::Named(ListName::Tasks)),
        _ => {}
    }
    found
}

fn collect(list: &[Task], stage: Stage, hops: &mut Vec<Hop>, places: &mut BTreeMap<String, (Stage, Vec<Hop>, usize)>) {
    for (index, task) in list.iter().enumerate() {
        places.insert(task.id.clone(), (stage, hops.clone(), index));
        for inner in lists(&task.kind) {
            let children = child_list(&task.kind, &inner);
            if children.is_empty() {
                continue;
            }
            hops.push(Hop { index, list: inner.clone() });
            collect(children, stage, hops, places);
            hops.pop();
        }
    }
}

fn drop_disabled(list: &mut Vec<Task>) {
    list.retain(|task| !task.disabled);
    for task in list {
        task.kind.lists_mut().into_iter().for_each(drop_disabled);
    }
}
