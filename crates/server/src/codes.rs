//! Every code a problem answer can carry, with its status and title: one row each.
//!
//! A code is part of the API: programs match on it, and `docs/reference/errors.md` has a section
//! for each (a test holds the two together).

use axum::http::StatusCode;

macro_rules! codes {
    ($($name:ident = $word:literal, $status:literal, $title:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($name,)+
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            pub fn word(self) -> &'static str {
                match self {
                    $(Code::$name => $word,)+
                }
            }

            fn status_number(self) -> u16 {
                match self {
                    $(Code::$name => $status,)+
                }
            }

            pub fn title(self) -> &'static str {
                match self {
                    $(Code::$name => $title,)+
                }
            }
        }
    };
}

codes! {
    // The bytes of a request.
    BodyTooLarge = "body_too_large", 413, "The body is too large";
    HeadTooLarge = "head_too_large", 431, "The head of the request is too large";
    BodyTimeout = "body_timeout", 408, "The body took too long to arrive";
    BodyUnreadable = "body_unreadable", 400, "The body broke off";
    BodyNotUtf8 = "body_not_utf8", 400, "The body is not UTF-8";
    BodyNotJson = "body_not_json", 400, "The body is not JSON";
    BodyInvalid = "body_invalid", 400, "The body does not have the expected shape";
    JsonTooDeep = "json_too_deep", 400, "The JSON is nested too deep";
    JsonDuplicateKey = "json_duplicate_key", 400, "A JSON object names one key twice";
    UnsupportedMediaType = "unsupported_media_type", 415, "This content type is not accepted here";
    QueryInvalid = "query_invalid", 400, "A query parameter cannot be used";
    FilterInvalid = "filter_invalid", 400, "A filter cannot be used";
    IllegalArgument = "illegal_argument", 422, "A part of the request cannot be used";
    BulkInvalid = "bulk_invalid", 400, "One of several cannot be acted on";
    CursorInvalid = "cursor_invalid", 400, "The cursor is not one of this list";
    PathNotFound = "path_not_found", 404, "There is nothing at this path";
    MethodNotAllowed = "method_not_allowed", 405, "The path does not take this method";

    // Who asks.
    TokenMissing = "token_missing", 401, "A token is needed";
    TokenInvalid = "token_invalid", 401, "The token is not valid";
    TokenExpired = "token_expired", 401, "The token has expired";
    Forbidden = "forbidden", 403, "The token's role does not allow this";
    CrossOrigin = "cross_origin", 403, "The request comes from another web page";
    HostRefused = "host_refused", 403, "The request names a foreign host";
    WorkspaceUnknown = "workspace_unknown", 404, "There is no such workspace";
    TokenUnknown = "token_unknown", 404, "There is no such token";

    // Keys.
    KeyEmpty = "key_empty", 400, "The idempotency key is empty";
    KeyTooLong = "key_too_long", 400, "The idempotency key is too long";
    KeyOuterBlanks = "key_outer_blanks", 400, "The idempotency key begins or ends with blanks";
    KeyControlCharacter = "key_control_character", 400, "The idempotency key holds a control character";
    KeyNotUtf8 = "key_not_utf8", 400, "The idempotency key is not UTF-8";
    KeyRepeated = "key_repeated", 400, "The request names two different idempotency keys";
    KeyMissing = "key_missing", 400, "This flow requires an idempotency key";
    KeyConflict = "key_conflict", 422, "The request's key contradicts the flow's";
    KeyUnresolved = "key_unresolved", 422, "The flow's key expression did not resolve";
    KeyUnknown = "key_unknown", 404, "No claim is known for this key";
    DecisionUnknown = "decision_unknown", 404, "There is no such decision";

    // Before the decision.
    FlowUnknown = "flow_unknown", 404, "There is no such flow";
    DefinitionUnknown = "definition_unknown", 404, "There is no such definition";
    FlowAmbiguous = "flow_ambiguous", 409, "Several flows have this id";
    FlowDisabled = "flow_disabled", 409, "The flow is disabled";
    ChecksFailed = "checks_failed", 422, "The flow's checks do not hold";
    FlowInvalid = "flow_invalid", 422, "The flow has errors";
    InputInvalid = "input_invalid", 422, "The inputs cannot be used";
    ExpressionFailed = "expression_failed", 422, "An expression of the flow did not resolve";
    TooManyPending = "too_many_pending", 429, "Too many events wait to be stored";

    // Decided against.
    PayloadMismatch = "payload_mismatch", 422, "The key was used with another payload";
    InProgress = "in_progress", 409, "The run of this key is still in progress";
    AlreadyDone = "already_done", 409, "The event was already handled";
    AlreadyFailed = "already_failed", 409, "The event was already handled and failed";
    AlreadyCancelled = "already_cancelled", 409, "The event was already handled and cancelled";
    LateRejected = "late_rejected", 409, "The duplicate arrived after its window";
    Held = "held", 409, "The run of this key waits for a verdict";
    HeldNoReplace = "held_no_replace", 409, "The run that holds the lane waits for a verdict";
    NotResumable = "not_resumable", 409, "The failed run cannot go on";
    LaneBusy = "lane_busy", 409, "The lane is busy";
    QueueFull = "queue_full", 429, "The lane's queue is full";
    Erased = "erased", 410, "The run of this key was erased";

    // Runs and keys, managed.
    RunUnknown = "run_unknown", 404, "There is no such run";
    TaskUnknown = "task_unknown", 404, "There is no such task";
    NotPossible = "not_possible", 409, "The run's state does not allow this";
    IllegalState = "illegal_state", 409, "The workflow is not in a state for this";
    StillRunning = "still_running", 404, "The workflow has not ended";
    NotRestartable = "not_restartable", 404, "The workflow cannot be restarted";
    RunLive = "run_live", 409, "The run has not ended";
    DoubtOpen = "doubt_open", 409, "The run has an effect in doubt";
    Exists = "exists", 409, "It exists already";
    TooManyStreams = "too_many_streams", 429, "Too many event streams are open";

    // Webhooks.
    WebhookUnknown = "webhook_unknown", 404, "There is no such webhook";
    SignatureMissing = "signature_missing", 401, "The signature is missing";
    SignatureMalformed = "signature_malformed", 401, "The signature cannot be read";
    SignatureMismatch = "signature_mismatch", 401, "The signature does not match";
    SignatureExpired = "signature_expired", 401, "The signature is too old or too new";
    SignatureNotConfigured = "signature_not_configured", 503, "The webhook's secret is not configured";

    // Key-value store, files and secrets.
    KvUnknown = "kv_unknown", 404, "There is no such key in this namespace";
    Expired = "expired", 410, "The value has expired";
    FileUnknown = "file_unknown", 404, "There is no such file";
    SecretUnknown = "secret_unknown", 404, "There is no such secret";
    SecretNameInvalid = "secret_name_invalid", 400, "This cannot be the name of a secret";
    SecretsUnavailable = "secrets_unavailable", 503, "No encryption key is configured";
    SecretUndecryptable = "secret_undecryptable", 503, "The secret cannot be decrypted";

    // The server itself.
    NotReady = "not_ready", 503, "The server is not ready";
    TooManyConnections = "too_many_connections", 503, "Too many connections are open";
    StoreFull = "store_full", 507, "The disk is full";
    StoreBusy = "store_busy", 503, "The store is busy";
    StorePoisoned = "store_poisoned", 503, "The store has stopped";
    StoreClosed = "store_closed", 503, "The server is shutting down";
    Conflict = "conflict", 409, "Something changed in between";
    StoreBug = "store_bug", 500, "Internal error in the store";
    Internal = "internal", 500, "Internal error";
}

impl Code {
    pub fn status(self) -> StatusCode {
        // The test `words_are_unique_and_statuses_real` makes the fallback unreachable.
        StatusCode::from_u16(self.status_number()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub fn parse(word: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn words_are_unique_and_statuses_real() {
        let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(code.status().as_u16(), code.status_number());
            assert!(code.status().is_client_error() || code.status().is_server_error(), "{code:?}");
            assert!(code.word().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
            assert_eq!(Code::parse(code.word()), Some(*code));
        }
    }

    #[test]
    fn each_code_has_its_section_and_each_section_its_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/errors.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        let sections: BTreeSet<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("### `"))
            .filter_map(|rest| rest.strip_suffix('`'))
            .collect();
        let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        let missing: Vec<_> = codes.difference(&sections).collect();
        let dead: Vec<_> = sections.difference(&codes).collect();
        assert!(missing.is_empty() && dead.is_empty(), "without a section: {missing:?}; without a code: {dead:?}");
        for code in Code::ALL {
            let expected = format!("### `{}`\n\n{} {}.", code.word(), code.status_number(), code.title());
            assert!(page.contains(&expected), "the section of {} must begin with its status and title", code.word());
        }
    }
}
