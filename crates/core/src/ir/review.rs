//! What a pause needs where a person does not only let the run go on, but approves or denies.

use super::{Task, Template};
use serde::{Deserialize, Serialize};

/// Of a pause that is decided: its group holds what follows an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_deny: Vec<Task>,
    /// A word of [`AfterReview`], or a template that gives one; so are the next two.
    pub approved: Template,
    pub denied: Template,
    pub expired: Template,
    /// A word of [`CommentRequired`], or a template that gives one.
    pub comment: Template,
    /// `true` or a template that gives it: nobody is asked.
    pub auto: Template,
}

impl ReviewSpec {
    pub fn behavior(&self, decision: ReviewDecision) -> &Template {
        match decision {
            ReviewDecision::Approved => &self.approved,
            ReviewDecision::Denied => &self.denied,
            ReviewDecision::Expired => &self.expired,
        }
    }
}

/// Words of a closed list, as flows write them.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$word_doc])* $variant),+ }

        impl $name {
            pub const WORDS: &[&str] = &[$($word),+];

            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<$name> {
                let word = word.trim();
                [$($name::$variant),+].into_iter().find(|one| one.word().eq_ignore_ascii_case(word))
            }
        }
    };
}

words! {
    /// What became of a question.
    ReviewDecision {
        Approved = "APPROVED",
        Denied = "DENIED",
        /// Nobody answered in time.
        Expired = "EXPIRED",
    }
}

words! {
    /// What a decision means to the run, once the tasks that follow it have ended well.
    AfterReview {
        Continue = "CONTINUE",
        Warn = "WARN",
        Fail = "FAIL",
        /// The run ends well here.
        Succeed = "SUCCEED",
        /// It is cancelled here; what runs beside it ends by itself.
        Cancel = "CANCEL",
        /// As [`AfterReview::Cancel`], and what runs beside it is killed.
        Kill = "KILL",
    }
}

words! {
    /// Whether whoever decides has to say why.
    CommentRequired {
        Never = "NEVER",
        Always = "ALWAYS",
        OnDeny = "ON_DENY",
        OnApprove = "ON_APPROVE",
    }
}

impl CommentRequired {
    pub fn of(self, decision: ReviewDecision) -> bool {
        match (self, decision) {
            (CommentRequired::Always, _) => true,
            (CommentRequired::OnDeny, ReviewDecision::Denied)
            | (CommentRequired::OnApprove, ReviewDecision::Approved) => true,
            (CommentRequired::Never | CommentRequired::OnDeny | CommentRequired::OnApprove, _) => false,
        }
    }
}

/// What a person says to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reviewed {
    pub decision: ReviewDecision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}
