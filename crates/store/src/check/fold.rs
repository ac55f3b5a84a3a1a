//! One run, folded again from its journal.

use super::codes::Code;
use super::ledger::Ledger;
use crate::rows::{JournalRow, SnapshotRow};
use semel_core::ir::Flow;
use semel_core::run::{Event, Phase, RunState, SNAPSHOT_VERSION, decode_events};
use semel_core::{Hash16, RunId};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Findings about one run, still without its name.
pub(super) type Findings = Vec<(Code, String)>;

pub(super) struct Fold {
    pub run: RunId,
    pub logical: RunId,
    flow: Option<Arc<Flow>>,
    pub last_seq: u64,
    pub rows: u64,
    pub events: u64,
    pub state: RunState,
    /// The journal cannot be followed any further.
    pub broken: bool,
    pub ledger: Ledger,
    pub inputs: Option<Hash16>,
    pub trigger: Option<Hash16>,
    pub labels: BTreeMap<String, String>,
    /// Code of the failure, if any, of the last end.
    pub ended: Option<Option<String>>,
    pub has_values: bool,
    pub reopened: bool,
}

impl Fold {
    pub fn new(run: RunId, logical: RunId, flow: Option<Arc<Flow>>) -> Fold {
        Fold {
            run,
            logical,
            flow,
            last_seq: 0,
            rows: 0,
            events: 0,
            state: RunState::new(logical),
            broken: false,
            ledger: Ledger::default(),
            inputs: None,
            trigger: None,
            labels: BTreeMap::new(),
            ended: None,
            has_values: false,
            reopened: false,
        }
    }

    pub fn row(&mut self, row: &JournalRow, snapshot: Option<&SnapshotRow>, out: &mut Findings) {
        if self.broken {
            return;
        }
        self.rows += 1;
        if row.seq != self.last_seq + 1 {
            self.broken = true;
            out.push((Code::JournalGap, format!("journal row {} follows row {}", row.seq, self.last_seq)));
            return;
        }
        self.last_seq = row.seq;
        self.has_values |= row.values.is_some();
        let events = match decode_events(&row.events, row.values.as_deref()) {
            Ok(events) => events,
            Err(error) => {
                self.broken = true;
                out.push((Code::JournalDamaged, format!("journal row {}: {error}", row.seq)));
                return;
            }
        };
        for (at, event) in events.iter().enumerate() {
            let first = row.seq == 1 && at == 0;
            if first != matches!(event, Event::Created { .. }) {
                self.broken = true;
                let text = format!("journal row {} is not what a journal can hold there", row.seq);
                out.push((Code::JournalDamaged, text));
                return;
            }
            self.event(event, row.seq, out);
        }
        if let Some(snapshot) = snapshot.filter(|s| s.version == row.seq) {
            self.compare_snapshot(snapshot, out);
        }
    }

    fn event(&mut self, event: &Event, seq: u64, out: &mut Findings) {
        self.events += 1;
        let ended = matches!(self.state.phase, Phase::Ended(_));
        match event {
            Event::Created { inputs, trigger, labels, logical, .. } => {
                (self.inputs, self.trigger) = (Some(inputs.digest), Some(trigger.digest));
                self.set_labels(labels.json());
                if *logical != self.logical {
                    out.push((
                        Code::HeadDiffers,
                        format!("the head's logical run is {}, the journal's {logical}", self.logical),
                    ));
                }
            }
            Event::InputsReplaced { inputs, trigger } => {
                (self.inputs, self.trigger) = (Some(inputs.digest), Some(trigger.digest));
            }
            Event::InputsGiven { inputs: Some(inputs), .. } => self.inputs = Some(inputs.digest),
            Event::LabelsSet { labels } => self.set_labels(labels.json()),
            Event::LabelsReplaced { labels, .. } => {
                self.labels.clear();
                self.set_labels(labels.json());
            }
            Event::Started { .. }
            | Event::StepStarted { .. }
            | Event::Intent { .. }
            | Event::TimerSet { .. }
            | Event::OpRequested { .. }
            | Event::ChildRequested { .. }
                if ended =>
            {
                out.push((
                    Code::JournalAfterEnd,
                    format!("journal row {seq} begins something in a run that had ended"),
                ));
            }
            Event::Restarted { .. } | Event::Replayed { .. } => self.reopened = true,
            Event::StatusChanged { failure: Some(failure), .. } => self.ended = Some(Some(failure.code.clone())),
            Event::Ended { failure, .. } => self.ended = Some(failure.as_ref().map(|f| f.code.clone())),
            _ => {}
        }
        self.state.evolve(event);
        self.ledger.see(self.run, event, &self.state, self.flow.as_deref(), out);
    }

    fn set_labels(&mut self, labels: &Json) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            self.labels.insert(key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }

    fn compare_snapshot(&self, snapshot: &SnapshotRow, out: &mut Findings) {
        // A snapshot of another format is never read.
        if snapshot.format != SNAPSHOT_VERSION {
            return;
        }
        let agrees = serde_json::from_slice::<RunState>(&snapshot.state).is_ok_and(|state| state == self.state);
        if !agrees {
            let text = format!("the snapshot at version {} is not the fold of the journal", snapshot.version);
            out.push((Code::SnapshotDiffers, text));
        }
    }
}
