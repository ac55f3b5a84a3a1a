//! What expressions of a run ask the outside for: the step waits in memory, and is evaluated again with the answer.

use super::active::Active;
use super::{Driver, Out};
use crate::away;
use crate::outside::{Answers, Need, answer_of, request_of};
use semel_core::run::{Action, StepKey};
use semel_core::{Hash16, Millis, RunId};
use semel_tasks::Outcome;

impl Active {
    pub(super) fn answers_at(&self, place: &Option<StepKey>) -> Answers {
        self.answers.get(place).cloned().unwrap_or_default()
    }
}

impl Driver {
    /// The action is done again when the answer is there; nothing is written down before that.
    pub(super) fn ask(&mut self, active: &mut Active, place: Option<StepKey>, need: Need, action: Action) {
        let key = need.key;
        if !active.reading.contains_key(&(place.clone(), key)) {
            let made = away::noticed(|| request_of(&self.services, &self.limits, &active.workspace, &need));
            let Ok(made) = made else { return self.act_later(active, action) };
            let (request, masks) = match made {
                Ok(made) => made,
                Err(message) => {
                    active.answers.entry(place).or_default().put(key, Err(message));
                    return self.act_later(active, action);
                }
            };
            active.reading.insert((place.clone(), key), masks);
            let request = Box::new(request);
            self.out.push(Out::Read { run: active.run, place, key, request });
        }
        active.later.push(action);
    }

    pub(super) fn read(&mut self, run: RunId, place: Option<StepKey>, key: Hash16, outcome: Outcome, now: Millis) {
        let Some(active) = self.runs.get_mut(&run) else { return };
        // Of a life that is over: whoever evaluates now has asked anew.
        let Some(masks) = active.reading.remove(&(place.clone(), key)) else { return };
        let answer = answer_of(&self.services, &active.workspace, outcome, &masks);
        active.answers.entry(place).or_default().put(key, answer);
        self.later(run, now);
    }
}
