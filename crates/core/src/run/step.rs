//! Names of steps.

use crate::ids::{Hash16, RunId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The path of a step inside its run: author's task ids joined by `/`, loops with `[n]`.
/// The empty key is the root group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepKey(pub String);

impl StepKey {
    pub fn root() -> StepKey {
        StepKey::default()
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The key of a child task.
    pub fn child(&self, task_id: &str) -> StepKey {
        if self.is_root() { StepKey(task_id.to_owned()) } else { StepKey(format!("{}/{task_id}", self.0)) }
    }

    /// The key of the `n`-th iteration of a loop.
    pub fn iteration(&self, n: u32) -> StepKey {
        StepKey(format!("{}[{n}]", self.0))
    }

    /// `Some(n)` when this is the n-th iteration of a loop rather than a task.
    pub fn iteration_number(&self) -> Option<u32> {
        let open = self.0.rfind('[')?;
        self.0.strip_suffix(']')?.get(open + 1..)?.parse().ok()
    }

    pub fn parent(&self) -> Option<StepKey> {
        if self.is_root() {
            return None;
        }
        if self.0.ends_with(']') {
            return self.0.rfind('[').map(|at| StepKey(self.0[..at].to_owned()));
        }
        Some(StepKey(self.0.rfind('/').map_or(String::new(), |at| self.0[..at].to_owned())))
    }

    /// The task this step runs (for an iteration: its loop).
    pub fn task_id(&self) -> &str {
        let last = self.0.rsplit('/').next().unwrap_or("");
        last.split('[').next().unwrap_or("")
    }

    /// True for `other` itself and everything below it.
    pub fn is_under(&self, other: &StepKey) -> bool {
        other.is_root()
            || self == other
            || (self.0.starts_with(&other.0) && matches!(self.0.as_bytes().get(other.0.len()), Some(b'/' | b'[')))
    }

    /// (loop key, iteration) for each loop around this step, outermost first.
    pub fn iterations(&self) -> Vec<(StepKey, u32)> {
        let mut found = Vec::new();
        let mut key = Some(self.clone());
        while let Some(current) = key {
            if let (Some(n), Some(parent)) = (current.iteration_number(), current.parent()) {
                found.push((parent, n));
            }
            key = current.parent();
        }
        found.reverse();
        found
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stable id of a step: outbound keys are made of it, so it must never depend on attempts.
/// `round` is 0 but for steps of `errors:` and `finally:`, which run anew after each restart.
pub fn step_id(logical: RunId, take: u32, round: u32, key: &StepKey) -> Hash16 {
    Hash16::of(&[logical.as_bytes(), &take.to_be_bytes(), &round.to_be_bytes(), key.0.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_know_their_parents() {
        let key = StepKey("a/each[3]/inner[12]/b".into());
        assert_eq!(key.task_id(), "b");
        assert_eq!(key.parent(), Some(StepKey("a/each[3]/inner[12]".into())));
        assert_eq!(key.parent().unwrap().parent(), Some(StepKey("a/each[3]/inner".into())));
        assert_eq!(key.parent().unwrap().task_id(), "inner");
        assert_eq!(key.iterations(), vec![(StepKey("a/each".into()), 3), (StepKey("a/each[3]/inner".into()), 12)]);
        assert_eq!(StepKey("a".into()).parent(), Some(StepKey::root()));
        assert_eq!(StepKey::root().parent(), None);
        assert!(key.is_under(&StepKey("a/each".into())));
        assert!(!StepKey("ab".into()).is_under(&StepKey("a".into())));
        assert_eq!(StepKey("each[7]".into()).iteration_number(), Some(7));
        assert_eq!(StepKey("each".into()).iteration_number(), None);
    }

    #[test]
    fn ids_depend_on_logical_run_take_and_path_only() {
        let (run, other) = (RunId(uuid::Uuid::from_u128(1)), RunId(uuid::Uuid::from_u128(2)));
        let key = StepKey("each[0]/pay".into());
        let id = step_id(run, 0, 0, &key);
        assert_eq!(id, step_id(run, 0, 0, &key));
        for different in [
            step_id(other, 0, 0, &key),
            step_id(run, 1, 0, &key),
            step_id(run, 0, 1, &key),
            step_id(run, 0, 0, &StepKey("each[1]/pay".into())),
        ] {
            assert_ne!(id, different);
        }
    }
}
