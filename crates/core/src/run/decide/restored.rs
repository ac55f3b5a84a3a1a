//! After a restore: the journal ends at the backup, and what the run did since is not known.
//!
//! Until a person releases the run nothing happens to it: timers do not fire, answers and messages
//! wait. Released, it goes on as after a crash, from what the backup knew.

use super::{Machine, NotPossible, refuse};
use crate::run::event::{By, Event, Input};
use crate::run::state::{Phase, Timer};
use crate::run::step::StepKey;
use crate::run::wish::Wish;

impl Machine<'_> {
    pub(super) fn held_by_restore(&mut self, input: Input) -> Result<(), NotPossible> {
        match input {
            Input::Release { by } => {
                self.release(by);
                self.recover();
                Ok(())
            }
            Input::Cancel { ref by } | Input::CancelAlone { ref by } => {
                self.release(by.clone());
                self.cancelled(by.clone(), matches!(input, Input::CancelAlone { .. }))?;
                // What was in flight at the backup has no process that would hear its answer.
                if self.state.phase == Phase::Open {
                    self.recover_steps();
                }
                Ok(())
            }
            Input::Wish { wish: wish @ Wish::Terminate { .. }, by } => {
                self.release(by.clone());
                self.wish(wish, by)?;
                if self.state.phase == Phase::Open {
                    self.recover_steps();
                }
                Ok(())
            }
            Input::Pause { .. }
            | Input::Wish { .. }
            | Input::Resume { .. }
            | Input::ResumeStep { .. }
            | Input::Errand { .. }
            | Input::ResumeFromBreakpoint { .. }
            | Input::Restart { .. }
            | Input::RestartMarked { .. }
            | Input::Replay { .. }
            | Input::Verdict { .. }
            | Input::ForceRun { .. }
            | Input::SetLabels { .. }
            | Input::ChangeStatus { .. }
            | Input::MarkStep { .. } => {
                refuse("the store was restored and holds the run; release it first (semel run release)")
            }
            Input::Start
            | Input::Evaluated { .. }
            | Input::OutputsEvaluated(_)
            | Input::Performed { .. }
            | Input::Continue
            | Input::TimerFired { .. }
            | Input::ChildEnded { .. }
            | Input::ChildReopened { .. }
            | Input::DoubtsBelow { .. }
            | Input::Delivered { .. }
            | Input::Stop { .. }
            | Input::SlaChecked { .. }
            | Input::Recover => Ok(()),
        }
    }

    /// The restore took the rows of timers and errands away, so each is set again.
    fn release(&mut self, by: By) {
        self.emit(Event::Released { by });
        let timers: Vec<(u64, Timer)> = self.state.timers.iter().map(|(id, timer)| (*id, timer.clone())).collect();
        for (timer, Timer { due, step, why }) in timers {
            self.emit(Event::TimerSet { timer, due, step, why });
        }
        let errands: Vec<StepKey> = self.state.errands().map(|(key, ..)| key.clone()).collect();
        for key in errands {
            self.set_errand_again(&key, 0);
        }
    }
}
