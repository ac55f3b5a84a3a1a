//! What came back from the outside, with its secrets taken out again.

use crate::masking::{Mask, Masker};
use semel_core::run::{Failure, Payload, Performed};
use semel_expr::Value;
use semel_tasks::{LogLine, Outcome};

/// An outcome for the machine, with every secret the request carried masked out again.
pub(crate) fn translate(outcome: Outcome, masks: &[Mask], seal: &dyn Fn(&str) -> Option<String>) -> Performed {
    let masker = Masker::new(masks, seal);
    let failure = |code: &str, message: String| {
        // Messages are ours and short: here even a secret of one character is taken out.
        let texts = masks.iter().map(|(_, text)| text).filter(|text| !text.is_empty());
        let hidden = texts.fold(masker.masked(&message), |message, text| message.replace(text.as_str(), "***"));
        Failure::new(code, hidden)
    };
    match outcome {
        Outcome::Done { output } => {
            Performed::Done { output: Payload::new(masker.hide(&Value::from_json(&output)).to_stored()) }
        }
        Outcome::FailedClean { code, message, .. } => Performed::FailedClean { failure: failure(code, message) },
        Outcome::Lost { code, message } => Performed::Lost { failure: failure(code, message) },
    }
}

/// What a step said while it was performed, without the secrets it was given.
pub(super) fn masked(lines: Vec<LogLine>, masks: &[Mask], seal: &dyn Fn(&str) -> Option<String>) -> Vec<LogLine> {
    if masks.is_empty() || lines.is_empty() {
        return lines;
    }
    let masker = Masker::new(masks, seal);
    lines.into_iter().map(|line| LogLine { message: masker.masked(&line.message), ..line }).collect()
}
