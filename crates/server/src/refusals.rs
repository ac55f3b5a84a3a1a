//! The last refused arrivals, for people who wonder why nothing happened. In memory, bounded,
//! and without payloads: a refusal stores nothing, and this list keeps to that.

use crate::codes::Code;
use parking_lot::Mutex;
use semel_core::{Door, Millis, WorkspaceId};
use std::collections::VecDeque;

/// Refusals kept.
pub const REFUSALS_MAX: usize = 256;
const PATH_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub at: Millis,
    /// `None` when the caller did not prove to belong to any.
    pub workspace: Option<WorkspaceId>,
    pub door: Door,
    pub code: Code,
    pub path: String,
}

#[derive(Default)]
pub struct Refusals {
    ring: Mutex<VecDeque<Refused>>,
}

impl Refusals {
    pub fn add(&self, mut refused: Refused) {
        if refused.path.chars().count() > PATH_CHARS_MAX {
            refused.path = refused.path.chars().take(PATH_CHARS_MAX).chain(['…']).collect();
        }
        let mut ring = self.ring.lock();
        if ring.len() == REFUSALS_MAX {
            ring.pop_front();
        }
        ring.push_back(refused);
    }

    /// Newest first. Those that belong to nobody are shown in `main`.
    pub fn of(&self, workspace: &WorkspaceId) -> Vec<Refused> {
        let home = WorkspaceId::default();
        let ring = self.ring.lock();
        ring.iter().rev().filter(|r| r.workspace.as_ref().unwrap_or(&home) == workspace).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_newest_first_and_split_by_workspace() {
        let refusals = Refusals::default();
        for n in 0..REFUSALS_MAX + 10 {
            let workspace = if n % 2 == 0 { Some(WorkspaceId("other".into())) } else { None };
            refusals.add(Refused {
                at: Millis(n as i64),
                workspace,
                door: Door::Trigger,
                code: Code::KeyEmpty,
                path: "/".repeat(500),
            });
        }
        let (main, other) = (refusals.of(&WorkspaceId::default()), refusals.of(&WorkspaceId("other".into())));
        assert_eq!(main.len() + other.len(), REFUSALS_MAX);
        assert_eq!(main[0].at, Millis((REFUSALS_MAX + 9) as i64));
        assert_eq!(main[0].path.chars().count(), PATH_CHARS_MAX + 1);
    }
}
