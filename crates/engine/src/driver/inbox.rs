//! What was left for a run: each message becomes an input of its machine.

use super::active::{Active, Origin, Queued};
use super::control::control_input;
use super::wishes::Places;
use crate::conductor::sub_workflow_output;
use semel_core::Hash16;
use semel_core::run::{By, Failure, Input, Payload, Said};
use semel_expr::Value;
use semel_store::Inbox;
use serde_json::Value as Json;

impl Active {
    pub(super) fn take_in(&mut self, places: Places<'_>, seq: u64, message: Inbox) {
        let input = match message {
            Inbox::Promoted => Input::Start,
            Inbox::Cancel { by } => Input::Cancel { by },
            Inbox::CancelAlone { by } => Input::CancelAlone { by },
            Inbox::Delivered { payload } => {
                Input::Delivered { payload: Payload::new(Value::from_json(&payload).to_stored()) }
            }
            Inbox::ChildEnded { run, status, conclusion, warned, outputs, doubts } if self.flow.is_conductor() => {
                let outputs = sub_workflow_output(run, &outputs);
                Input::ChildEnded { run, status, conclusion, warned, outputs, doubts }
            }
            Inbox::ChildEnded { run, status, conclusion, warned, outputs, doubts } => {
                let (status, outputs) = self.child_gives(&places, run, (status, warned), outputs);
                Input::ChildEnded { run, status, conclusion, warned, outputs, doubts }
            }
            Inbox::DoubtsBelow { run, count } => Input::DoubtsBelow { run, count },
            Inbox::ErrandLate { step, attempt, late, seen } => {
                Input::Errand { step, attempt, said: Said::Late(late), seen }
            }
            Inbox::Stop { by, status, code, text } => Input::Stop { by, status, failure: Failure::new(code, text) },
            Inbox::Restart { by } => Input::Restart { by },
            Inbox::ChildReopened { run, by } => Input::ChildReopened { run, by },
            Inbox::Asked { ticket, control, by } => return self.asked(places, seq, ticket, control, by),
        };
        self.queue.push_back(Queued { input, origin: Origin::Inbox(seq) });
    }

    /// A person's wish that came by way of another node.
    fn asked(&mut self, places: Places<'_>, seq: u64, ticket: Hash16, control: Json, by: By) {
        let control = serde_json::from_value(control).map_err(|error| format!("not a request: {error}"));
        match control.and_then(|control| control_input(places, self, control, by)) {
            Ok(input) => self.queue.push_back(Queued { input, origin: Origin::Asked { seq, ticket } }),
            Err(text) => self.answer(seq, ticket, Some(text)),
        }
    }

    pub(super) fn answer(&mut self, seq: u64, ticket: Hash16, refused: Option<String>) {
        self.pending.inbox_consumed.push(seq);
        self.pending.answers.push((ticket, refused));
    }
}
