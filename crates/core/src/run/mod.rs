//! Runs: a pure machine and a journal.
//!
//! [`decide`] takes the folded [`RunState`] and one [`Input`], and returns the [`Event`]s to
//! append and the [`Action`]s to carry out; [`RunState::evolve`] folds one event. The journal is
//! the truth: a state is nothing but the fold of its events, and a test holds the two together.
//!
//! | phase | input | next |
//! |---|---|---|
//! | Waiting (created, queued, gathering) | Start | Open: the root group starts its first child |
//! | Waiting | TimerFired (the quiet period) | Waiting: the lane is asked for a slot |
//! | Waiting, RetryLater, Finishing | Cancel | Ended(cancelled) |
//! | Open | Evaluated, Performed, TimerFired, ChildEnded, Continue | Open, or Finishing when the root group ends well, or Ended |
//! | Open | the same, when the root group fails and the flow has a `retry:` left | RetryLater |
//! | RetryLater | TimerFired | Open, finished steps kept; or a new run is asked for, which takes its place |
//! | Open | Pause / Resume | Open, nothing new starts in between |
//! | Open, the next step is one to stop before | the same inputs | Open, nothing new starts |
//! | Open, stopped before a step | ResumeFromBreakpoint, Resume | Open: the step starts |
//! | Open, standing still at a step | ResumeStep | Open: the step goes on with its tasks, or ends |
//! | Open, standing still at a step | TimerFired (its time) | Open, by the word of its author: on, with a warning, failed; or as after Cancel |
//! | Open, a group whose list is done | Evaluated | Open: the group goes round again when its timer fires, or has ended |
//! | Open | Evaluated (exit) | Open until what is in flight has settled, then Ended as the flow says |
//! | Open, an errand is out | Errand | Open: the step has ended, or its next attempt is out |
//! | Open | Cancel | Open until what is in flight has settled, then Ended(cancelled) |
//! | Open | CancelAlone | as after Cancel, its sub-runs going on by themselves |
//! | Open | Recover | Open: pure work is asked for again, effects by their class |
//! | Finishing | OutputsEvaluated | Ended |
//! | Ended(failed or cancelled), no doubt | Restart | Open, finished steps kept |
//! | Ended(failed or cancelled), no doubt | RestartMarked | as after Restart, by another revision where one is named |
//! | Ended, no doubt | Replay | Open from that step on, take + 1 |
//! | Waiting | ForceRun | Waiting: a slot is taken even if there is none |
//! | Open, the end is decided and the flow has tasks for after it | the same inputs | Open until they are done, then Ended as decided |
//! | Waiting, RetryLater, Finishing | Stop (by a rule) | Ended as the rule says |
//! | Open | Stop, TimerFired or SlaChecked (an SLA is broken) | as after Cancel, then Ended as the rule says |
//! | Ended | SetLabels | Ended |
//! | Ended, no doubt | ChangeStatus | Ended otherwise |
//! | Ended(failed or cancelled), no doubt | MarkStep | Open, the step being what it was called |
//! | Open | Wish: Pause, Resume | as the inputs of these names; asked once more, nothing happens |
//! | any but Ended | Wish: Terminate | as after Stop, with the reason that was given |
//! | Ended(failed) | Wish: Terminate | Ended(cancelled) |
//! | Ended(failed or cancelled), no doubt | Wish: Retry | as after Restart; its sub-runs go on, or are begun anew |
//! | Ended, no doubt | Wish: Redo | Open from the start or from any step that was reached, take + 1 |
//! | Open | Wish: Skip | Open; the task ends when it would start, with what was given for it |
//! | Waiting, Open | Wish: Tell | the same; variables are set, and an errand is answered, at once |
//! | Waiting, Open | Wish: Leave | the same; a message is left, and a step that waits for one is done |
//! | Waiting, Open | Wish: Append | the same; lists among the variables get more |
//! | Open | Wish: Jump | Open, what was under way being skipped; the task starts |
//! | Open | Wish: Upgrade | Open, by another definition |
//! | Ended(failed or cancelled), no doubt | ChildReopened | Open, waiting for the sub-run again |
//! | any, with `restored` | Release | as before the restore, and then as after Recover |
//! | any, with `restored` | Cancel | released, then cancelled; what was in flight is settled by its class |
//! | any, with `restored` | whatever else | nothing happens, or it is refused |
//! | any with a doubt | Verdict | the doubt is settled; a failed run goes on from the step once no doubt is open |
//!
//! A step is one task in a run. Its key is the path of the author's task ids with iteration
//! numbers (`each[3]/charge`); its id is a digest of logical run, take and key, the same on every
//! attempt, restart and node.

mod action;
mod back;
mod codec;
mod conclusion;
mod conductor_state;
mod decide;
mod errand;
mod event;
mod evolve;
mod index;
mod input;
mod kestra_state;
mod reopen;
mod retry;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod wish;

pub use back::*;
pub use codec::*;
pub use conclusion::*;
pub use conductor_state::*;
pub use decide::*;
pub use errand::*;
pub use event::*;
pub use index::*;
pub use kestra_state::*;
pub use retry::delay_ms;
pub use state::*;
pub use step::*;
pub use wish::*;
