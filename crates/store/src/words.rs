//! Words of tasks: where a search over tasks looks.
//!
//! What tasks a Conductor workflow has stands in its journal, and nowhere else. So that a search need not read every
//! journal there is, each commit that tells of tasks also leaves *words*: ids, names, types and troubles that its run
//! now has. Words are only added while a run is there, and one too many costs a look at a journal that has nothing;
//! one too few would hide a task. Who looks reads the journals of the runs that are found, and judges by them.

use crate::search::TextTest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a word is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WordOf {
    /// The run has tasks that its words do not tell of: it is found whatever is looked for.
    Untold,
    /// Tasks were tried again under ids that its words do not tell of.
    UntoldId,
    /// The id of an attempt at a task.
    Id,
    /// The reference name, without the round of a loop.
    Reference,
    Kind,
    Name,
    /// How an attempt ended, if it did not simply complete.
    Trouble,
}

impl WordOf {
    /// As it is stored.
    pub fn word(self) -> &'static str {
        match self {
            WordOf::Untold => "untold",
            WordOf::UntoldId => "untold_id",
            WordOf::Id => "id",
            WordOf::Reference => "reference",
            WordOf::Kind => "kind",
            WordOf::Name => "name",
            WordOf::Trouble => "trouble",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskWord {
    pub of: WordOf,
    pub text: String,
}

/// A task that may be there: the run has a word of this kind that passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordTest {
    pub of: WordOf,
    pub test: TextTest,
    /// A run that has tasks of which its words tell nothing passes too.
    pub untold: bool,
}

impl WordTest {
    /// What stands for any word of this kind.
    pub(crate) fn stand_ins(&self) -> &'static [WordOf] {
        match (self.of, self.untold) {
            (WordOf::Id, true) => &[WordOf::Untold, WordOf::UntoldId],
            (WordOf::Id, false) => &[WordOf::UntoldId],
            (_, true) => &[WordOf::Untold],
            (_, false) => &[],
        }
    }

    pub(crate) fn holds(&self, words: &BTreeSet<TaskWord>) -> bool {
        words
            .iter()
            .any(|word| self.stand_ins().contains(&word.of) || (word.of == self.of && self.test.holds(&word.text)))
    }
}
