//! Named points where a test build dies on purpose, or breaks a promise to see whether anyone notices.
//!
//! Only builds with the feature `failpoints` have them; in every other build these functions are empty,
//! and a release build with the feature does not compile. `SEMEL_FAILPOINT=NAME@N=ACTION` arms one:
//! at the N-th time (from 1) that the point is passed,
//!
//! | action | what happens |
//! |---|---|
//! | `abort` | the process ends at once, as by a kill |
//! | `abort_in:MICROSECONDS` | it ends so much later, in the middle of whatever follows |
//! | `skip` | what follows is left out though everyone is told it was done; the process ends 40 ms later |
//!
//! | point | where |
//! |---|---|
//! | `admission.committed`, `intent.committed`, `outcome.committed` | such a commit is durable, and nobody knows yet |
//! | `admission.committing`, `intent.committing`, `outcome.committing` | right before such a commit; the one place where `skip` has a meaning |
//! | `effect.sending` | the intent is durable, nothing has left |
//! | `effect.answered` | the far side has answered, nothing is written down |
//! | `migration.script`, `migration.committed` | after each script inside the transaction; after the transaction |
//! | `checkpoint.begun`, `checkpoint.copied` | around the copy of the log into the database |
//!
//! `SEMEL_FAILPOINT_NEXT_SCHEMA=1` gives such a build a migration that no other has, for tests of upgrades.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("failpoints are for tests: a release build must not have them");

#[cfg(feature = "failpoints")]
pub use armed::{committed, committing, hit, number};

#[cfg(not(feature = "failpoints"))]
pub use unarmed::{committed, committing, hit, number};

#[cfg(not(feature = "failpoints"))]
mod unarmed {
    use crate::Work;

    /// True when what follows is to be left out: never, in this build.
    #[inline(always)]
    pub fn hit(_name: &str) -> bool {
        false
    }

    #[inline(always)]
    pub fn committing<'w>(_batch: impl Iterator<Item = &'w Work>) -> bool {
        false
    }

    #[inline(always)]
    pub fn committed<'w>(_batch: impl Iterator<Item = &'w Work>) {}

    /// A setting that only tests make: there is none in this build.
    #[inline(always)]
    pub fn number(_variable: &str) -> Option<u32> {
        None
    }
}

#[cfg(feature = "failpoints")]
mod armed {
    use crate::{EffectState, Work};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Long enough for the answers to leave the process.
    const AFTER_A_LIE: Duration = Duration::from_millis(40);

    #[derive(Clone, Copy)]
    enum Action {
        Abort,
        AbortIn(Duration),
        Skip,
    }

    struct Armed {
        name: String,
        nth: u32,
        action: Action,
        passed: AtomicU32,
    }

    /// A misspelt arming must not pass for a survived one.
    fn parse(text: &str) -> Option<Armed> {
        let (point, action) = text.split_once('=')?;
        let (name, nth) = point.split_once('@')?;
        let action = match action.split_once(':') {
            None if action == "abort" => Action::Abort,
            None if action == "skip" => Action::Skip,
            Some(("abort_in", micros)) => Action::AbortIn(Duration::from_micros(micros.parse().ok()?)),
            _ => return None,
        };
        Some(Armed { name: name.to_owned(), nth: nth.parse().ok()?, action, passed: AtomicU32::new(0) })
    }

    fn armed() -> Option<&'static Armed> {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let read = || {
            let text = std::env::var("SEMEL_FAILPOINT").ok()?;
            Some(parse(&text).unwrap_or_else(|| panic!("SEMEL_FAILPOINT is not NAME@N=ACTION: {text}")))
        };
        ARMED.get_or_init(read).as_ref()
    }

    fn abort_in(delay: Duration) {
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            std::process::abort();
        });
    }

    /// True when what follows is to be left out.
    pub fn hit(name: &str) -> bool {
        let Some(point) = armed().filter(|point| point.name == name) else { return false };
        if point.passed.fetch_add(1, Ordering::SeqCst) + 1 != point.nth {
            return false;
        }
        match point.action {
            Action::Abort => std::process::abort(),
            Action::AbortIn(delay) => abort_in(delay),
            Action::Skip => {
                abort_in(AFTER_A_LIE);
                return true;
            }
        }
        false
    }

    pub fn number(variable: &str) -> Option<u32> {
        std::env::var(variable).ok()?.parse().ok()
    }

    /// True when the batch is to be dropped and answered all the same.
    pub fn committing<'w>(batch: impl Iterator<Item = &'w Work>) -> bool {
        pass(batch, ["admission.committing", "intent.committing", "outcome.committing"])
    }

    pub fn committed<'w>(batch: impl Iterator<Item = &'w Work>) {
        pass(batch, ["admission.committed", "intent.committed", "outcome.committed"]);
    }

    fn pass<'w>(batch: impl Iterator<Item = &'w Work>, [admission, intent, outcome]: [&str; 3]) -> bool {
        let (mut admits, mut intends, mut settles) = (false, false, false);
        for work in batch {
            match work {
                Work::Admit(_) | Work::AdmitAndRun(_) => admits = true,
                Work::Commit(commit) => {
                    intends |= commit.effects.iter().any(|effect| effect.state == EffectState::Intent);
                    settles |= commit.effects.iter().any(|effect| effect.state != EffectState::Intent);
                }
                _ => {}
            }
        }
        let there = [(admits, admission), (intends, intent), (settles, outcome)];
        there.into_iter().any(|(is_there, name)| is_there && hit(name))
    }
}
