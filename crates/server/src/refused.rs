//! Which code each error of the layers below becomes. All matches are exhaustive: a new variant
//! there does not compile until it has an answer here.

use crate::codes::Code;
use crate::problem::Problem;
use semel_core::RunId;
use semel_core::admission::{KeyError, Reason};
use semel_engine::{
    AdmitError, ControlError, FieldError, FlowLookupError, PushError, ReplayError, SecretError, SignatureError,
};
use semel_store::{Refusal, StoreError};
use serde_json::json;

/// Seconds after which a caller may try again, by what it waits for.
const RETRY_STORE_S: u32 = 1;
const RETRY_RUN_S: u32 = 1;
const RETRY_QUEUE_S: u32 = 5;

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let problem = match &error {
            StoreError::Full(_) => {
                Problem::new(Code::StoreFull, "nothing was stored: the server's disk is full; free space and send the request again").retry_after(30)
            }
            StoreError::Busy(_) => {
                Problem::new(Code::StoreBusy, "nothing was stored: the store is busy; send the request again").retry_after(RETRY_STORE_S)
            }
            StoreError::Poisoned(_) => Problem::new(
                Code::StorePoisoned,
                "the store stopped after a failed write and the server must be restarted; send the request again with the same key afterwards",
            )
            .retry_after(30),
            StoreError::Closed => {
                Problem::new(Code::StoreClosed, "the server is shutting down; send the request again").retry_after(RETRY_STORE_S)
            }
            StoreError::Conflict(_) => {
                Problem::new(Code::Conflict, "the thing changed while it was being written; read it again and repeat the request")
            }
            StoreError::Bug(_) => {
                Problem::new(Code::StoreBug, "nothing was stored; the log has the details under this request id")
            }
        };
        match &error {
            StoreError::Full(_) | StoreError::Poisoned(_) | StoreError::Bug(_) => {
                tracing::error!(%error, "the store refused")
            }
            StoreError::Busy(_) | StoreError::Closed | StoreError::Conflict(_) => {
                tracing::debug!(%error, "the store refused")
            }
        }
        problem
    }
}

fn key_code(error: &KeyError) -> Code {
    match error {
        KeyError::Empty => Code::KeyEmpty,
        KeyError::TooLong(_) => Code::KeyTooLong,
        KeyError::OuterBlanks => Code::KeyOuterBlanks,
        KeyError::Control => Code::KeyControlCharacter,
        KeyError::Conflict { .. } => Code::KeyConflict,
        KeyError::Unresolved(_) => Code::KeyUnresolved,
        KeyError::Missing => Code::KeyMissing,
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Problem {
        Problem::new(key_code(&error), error.to_string())
    }
}

impl From<AdmitError> for Problem {
    fn from(error: AdmitError) -> Problem {
        let text = error.to_string();
        match error {
            AdmitError::Key(error) => error.into(),
            AdmitError::Inputs(fields) => input_invalid(&text, &fields),
            AdmitError::Disabled => Problem::new(Code::FlowDisabled, text),
            AdmitError::Checks(_) => Problem::new(Code::ChecksFailed, text),
            AdmitError::Expression { .. } => Problem::new(Code::ExpressionFailed, text)
                .hint("nothing was stored and no key was spent; correct the request or the flow"),
            AdmitError::TooManyPending => {
                Problem::new(Code::TooManyPending, format!("{text}; nothing was stored, send the request again later"))
                    .retry_after(RETRY_QUEUE_S)
            }
            AdmitError::Store(error) => error.into(),
        }
    }
}

fn input_invalid(text: &str, fields: &[FieldError]) -> Problem {
    let errors: Vec<_> = fields.iter().map(|f| json!({"field": f.field, "message": f.message})).collect();
    let first = fields.first().map(|f| format!("; first: `{}`: {}", f.field, f.message)).unwrap_or_default();
    Problem::new(Code::InputInvalid, format!("{text}{first}")).errors(errors)
}

impl From<FlowLookupError> for Problem {
    fn from(error: FlowLookupError) -> Problem {
        let text = error.to_string();
        match error {
            FlowLookupError::Unknown(_) => Problem::new(Code::FlowUnknown, text)
                .hint("`GET /v1/workflows` lists the flows; push one with `PUT /v1/workflows`"),
            FlowLookupError::Ambiguous { candidates, .. } => {
                Problem::new(Code::FlowAmbiguous, text).with("candidates", json!(candidates))
            }
            FlowLookupError::Store(error) => error.into(),
        }
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Problem {
        let text = error.to_string();
        match error {
            ControlError::Unknown => Problem::run_unknown(),
            ControlError::NotPossible(why) => Problem::new(Code::NotPossible, why),
            ControlError::Inputs(fields) => input_invalid(&text, &fields),
            ControlError::Store(error) => error.into(),
        }
    }
}

impl From<ReplayError> for Problem {
    fn from(error: ReplayError) -> Problem {
        match error {
            ReplayError::Unknown => Problem::run_unknown(),
            ReplayError::NotPossible(why) => Problem::new(Code::IllegalArgument, why),
            ReplayError::Admit(error) => error.into(),
        }
    }
}

/// The name that rendered diagnostics give to a text without a file.
pub const FLOW_FILE: &str = "flow.yaml";

/// A flow that was not stored, with its errors for programs and for people.
pub fn not_pushed(error: PushError, source: &str) -> Problem {
    let text = error.to_string();
    match error {
        PushError::Invalid(found) => Problem::new(Code::FlowInvalid, text)
            .errors(found.iter().map(|diagnostic| diagnostic.to_json()).collect())
            .with("rendered", semel_flow::render(&found, FLOW_FILE, source, false).into()),
        PushError::Exists => Problem::new(Code::Exists, text),
        PushError::Unknown => Problem::new(Code::FlowUnknown, text),
        PushError::Store(error) => error.into(),
    }
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Problem {
        let text = error.to_string();
        match error {
            SecretError::NoKey => Problem::new(Code::SecretsUnavailable, text),
            SecretError::BadName(_) => Problem::new(Code::SecretNameInvalid, text),
            SecretError::Undecryptable => Problem::new(Code::SecretUndecryptable, text),
            SecretError::Store(error) => error.into(),
        }
    }
}

impl From<SignatureError> for Problem {
    fn from(error: SignatureError) -> Problem {
        // The verifier names its codes as ours; one we do not know is still a refusal.
        let code = Code::parse(error.code).filter(|code| code.word().starts_with("signature_"));
        Problem::new(code.unwrap_or(Code::SignatureMismatch), format!("{}; nothing was stored", error.message))
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        match refusal {
            Refusal::RunLive => Problem::new(Code::RunLive, "the run has not ended; cancel it first, or wait"),
            Refusal::DoubtOpen => Problem::new(
                Code::DoubtOpen,
                "an effect of the run is in doubt; decide it with `POST /v1/runs/{id}/verdict` first",
            ),
            Refusal::LaneBusy => {
                Problem::new(Code::LaneBusy, "another run holds the lane; repeat the request when it has ended")
            }
            Refusal::KeyLive => Problem::new(
                Code::NotPossible,
                "another run has the key of this one and has not ended; wait for its end",
            ),
            Refusal::Exists => Problem::new(Code::Exists, "it exists already and was left as it is"),
        }
    }
}

/// The code of a decision against the event, and what the caller can do. `None`: this reason
/// never accompanies a rejection.
fn rejection(reason: Reason) -> Option<(Code, &'static str)> {
    match reason {
        Reason::KeyMissing => {
            Some((Code::KeyMissing, "this flow requires an idempotency key; send the header Idempotency-Key"))
        }
        Reason::PayloadMismatch => Some((
            Code::PayloadMismatch,
            "this key was used before with another payload; use a new key for a new event, or send the first payload again",
        )),
        Reason::InProgress => {
            Some((Code::InProgress, "the run of this key has not ended; send the request again when it has"))
        }
        Reason::AlreadyDone => {
            Some((Code::AlreadyDone, "this event was handled and completed; use a new key for a new event"))
        }
        Reason::AlreadyFailed => Some((
            Code::AlreadyFailed,
            "this event was handled and failed; restart its run, release the key, or use a new key",
        )),
        Reason::AlreadyCancelled => Some((
            Code::AlreadyCancelled,
            "this event's run was cancelled; restart it, release the key, or use a new key",
        )),
        Reason::LateRejected => Some((
            Code::LateRejected,
            "this key was used before and its window has ended; use a new key for a new event",
        )),
        Reason::Held | Reason::HeldMismatch => Some((
            Code::Held,
            "the run of this key has an effect in doubt; a person must decide it before anything is repeated",
        )),
        Reason::HeldNoReplace => Some((
            Code::HeldNoReplace,
            "the run that holds the lane has an effect in doubt and is not replaced; a person must decide it first",
        )),
        Reason::LaneBusy => {
            Some((Code::LaneBusy, "another run holds the lane; send the request again when it has ended"))
        }
        Reason::NotResumable => Some((
            Code::NotResumable,
            "the failed run of this key cannot go on; restart it by hand, release the key, or use a new key",
        )),
        Reason::QueueFull => {
            Some((Code::QueueFull, "the lane's queue is full; nothing was stored, send the request again later"))
        }
        Reason::Erased => {
            Some((Code::Erased, "this event was handled and its run was erased; use a new key for a new event"))
        }
        Reason::Keyless
        | Reason::First
        | Reason::LateDuplicate
        | Reason::LateWarned
        | Reason::FirstAfterRestore
        | Reason::AttachedPending
        | Reason::Attached
        | Reason::AttachedMismatch
        | Reason::Replayed
        | Reason::ReplayedMismatch
        | Reason::ReplayedFailure
        | Reason::ReplayedCancelled
        | Reason::Rerun
        | Reason::RetryFailed
        | Reason::RetryCancelled
        | Reason::Resumed
        | Reason::ResumedMismatch
        | Reason::ResumedCancelled
        | Reason::Queued
        | Reason::Replaced
        | Reason::ReplaceDeferred
        | Reason::Coalesced
        | Reason::CoalescePending
        | Reason::CoalesceNext
        | Reason::Delivered
        | Reason::LaneCancelled
        | Reason::LaneFailed => None,
    }
}

/// The answer to an event that was decided against.
pub fn rejected(reason: Reason, run: Option<RunId>) -> Problem {
    let Some((code, detail)) = rejection(reason) else {
        return Problem::internal(&format!("a rejection with the reason {}", reason.word()));
    };
    let problem = Problem::new(code, detail).with("reason", json!(reason));
    // A caller that does not know the payload has no claim to the run either.
    let problem = if code == Code::PayloadMismatch { problem } else { problem.run(run) };
    match code {
        Code::InProgress | Code::LaneBusy => problem.retry_after(RETRY_RUN_S),
        Code::QueueFull => problem.retry_after(RETRY_QUEUE_S),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_engine::FieldError;

    fn status(problem: Problem) -> (u16, &'static str) {
        (problem.code.status().as_u16(), problem.code.word())
    }

    #[test]
    fn store_errors_have_their_statuses_and_keep_their_texts() {
        let secret = || "/var/lib/semel: SELECT".to_owned();
        for (error, expected) in [
            (StoreError::Full(secret()), (507, "store_full")),
            (StoreError::Busy(secret()), (503, "store_busy")),
            (StoreError::Poisoned(secret()), (503, "store_poisoned")),
            (StoreError::Closed, (503, "store_closed")),
            (StoreError::Conflict(secret()), (409, "conflict")),
            (StoreError::Bug(secret()), (500, "store_bug")),
        ] {
            let word = error.code();
            let problem = Problem::from(error);
            assert!(!problem.to_json().to_string().contains("SELECT"));
            assert_eq!(problem.code.word(), word);
            assert_eq!(status(problem), expected);
        }
        assert!(Problem::from(StoreError::Busy(secret())).retry_after_s.is_some());
    }

    #[test]
    fn key_errors_keep_the_domain_s_codes() {
        for (error, expected) in [
            (KeyError::Empty, 400),
            (KeyError::TooLong(256), 400),
            (KeyError::OuterBlanks, 400),
            (KeyError::Control, 400),
            (KeyError::Conflict { caller: "a".into(), flow: "b".into() }, 422),
            (KeyError::Unresolved("x".into()), 422),
            (KeyError::Missing, 400),
        ] {
            assert_eq!(status(Problem::from(AdmitError::Key(error.clone()))), (expected, error.code()));
        }
    }

    #[test]
    fn refusals_before_the_decision_have_their_statuses() {
        let fields = vec![FieldError { field: "amount".into(), message: "is missing".into() }];
        let inputs = Problem::from(AdmitError::Inputs(fields));
        assert_eq!(inputs.more.errors, vec![json!({"field": "amount", "message": "is missing"})]);
        assert_eq!(status(inputs), (422, "input_invalid"));
        assert_eq!(status(AdmitError::Disabled.into()), (409, "flow_disabled"));
        assert_eq!(status(AdmitError::Checks(vec!["not today".into()]).into()), (422, "checks_failed"));
        assert_eq!(
            status(AdmitError::Expression { what: "lane", message: "x".into() }.into()),
            (422, "expression_failed")
        );
        let pending = Problem::from(AdmitError::TooManyPending);
        assert!(pending.retry_after_s.is_some());
        assert_eq!(status(pending), (429, "too_many_pending"));
        assert_eq!(status(FlowLookupError::Unknown("f".into()).into()), (404, "flow_unknown"));
        let two = FlowLookupError::Ambiguous { name: "f".into(), candidates: vec!["a:f".into(), "b:f".into()] };
        assert_eq!(status(two.into()), (409, "flow_ambiguous"));
        assert_eq!(status(ControlError::Unknown.into()), (404, "run_unknown"));
        assert_eq!(status(ControlError::NotPossible("it runs".into()).into()), (409, "not_possible"));
        assert_eq!(status(SecretError::NoKey.into()), (503, "secrets_unavailable"));
        assert_eq!(status(SecretError::BadName("?".into()).into()), (400, "secret_name_invalid"));
        for refusal in [Refusal::RunLive, Refusal::DoubtOpen, Refusal::LaneBusy, Refusal::Exists] {
            assert_eq!(status(refusal.into()), (409, refusal.code()));
        }
    }

    #[test]
    fn rejections_say_why_and_name_the_run_only_to_who_knows_the_payload() {
        let run = Some(RunId::from_bytes([7; 16]));
        for (reason, expected) in [
            (Reason::KeyMissing, 400),
            (Reason::PayloadMismatch, 422),
            (Reason::InProgress, 409),
            (Reason::AlreadyDone, 409),
            (Reason::AlreadyFailed, 409),
            (Reason::AlreadyCancelled, 409),
            (Reason::LateRejected, 409),
            (Reason::Held, 409),
            (Reason::HeldNoReplace, 409),
            (Reason::LaneBusy, 409),
            (Reason::NotResumable, 409),
            (Reason::QueueFull, 429),
            (Reason::Erased, 410),
        ] {
            let problem = rejected(reason, run);
            assert_eq!(problem.more.run_id.is_some(), reason != Reason::PayloadMismatch, "{reason:?}");
            assert_eq!(status(problem), (expected, reason.word()));
        }
        for reason in [Reason::InProgress, Reason::QueueFull] {
            assert!(rejected(reason, run).retry_after_s.is_some(), "{reason:?}");
        }
        assert_eq!(rejected(Reason::First, run).code, Code::Internal);
    }

    #[test]
    fn signature_errors_are_refusals_whatever_their_code() {
        let of = |code| status(SignatureError { code, message: String::new() }.into());
        assert_eq!(of("signature_missing"), (401, "signature_missing"));
        assert_eq!(of("signature_not_configured"), (503, "signature_not_configured"));
        assert_eq!(of("exists"), (401, "signature_mismatch"));
        assert_eq!(of("else"), (401, "signature_mismatch"));
    }
}
