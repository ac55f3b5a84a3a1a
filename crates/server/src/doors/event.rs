//! What the doors read from an arrival alike: the caller's key, how long it will wait, and the
//! headers a flow may see.

use crate::codes::Code;
use crate::problem::Problem;
use crate::spelling::Spelling;
use axum::http::{HeaderMap, HeaderName};
use semel_core::admission::check_key;
use serde_json::{Map, Value as Json};
use std::time::Duration;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The key of the `Idempotency-Key` header. The same key twice is one key; two keys are none.
pub fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(first) = given.next() else { return Ok(None) };
    if given.any(|other| other != first) {
        return Err(Problem::new(
            Code::KeyRepeated,
            "the header Idempotency-Key is there twice with different values; send one",
        ));
    }
    let key = std::str::from_utf8(first.as_bytes()).map_err(|_| {
        Problem::new(Code::KeyNotUtf8, "the idempotency key is not UTF-8; send UTF-8, or a hash of the value")
    })?;
    check_key(key)?;
    Ok(Some(key.to_owned()))
}

/// How long the caller will wait (`Prefer: wait=N`, in seconds), clamped. As for all preferences,
/// one that cannot be read is ignored.
pub fn prefer_wait(headers: &HeaderMap, ms_max: u64) -> Option<Duration> {
    let preferences =
        headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    let seconds = preferences.filter_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let value = value.trim().trim_matches('"');
        let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        // More digits than fit means longer than any limit.
        (name.trim().eq_ignore_ascii_case("wait") && digits).then(|| value.parse::<u64>().unwrap_or(u64::MAX))
    });
    let seconds = seconds.into_iter().next()?;
    Some(Duration::from_millis(seconds.saturating_mul(1_000).min(ms_max)))
}

/// Credentials and proofs: a flow has no use for them, and they must not end up in a journal.
const WITHHELD: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-authorization",
    "cookie",
    "x-signature",
    "x-hub-signature",
    "x-hub-signature-256",
    "stripe-signature",
    "webhook-signature",
];

/// The headers as flows see them: name to list of texts, in the order they came.
pub fn visible_headers(headers: &HeaderMap, spelling: &Spelling, signature_header: Option<&str>) -> Json {
    let mut out = Map::new();
    for name in headers.keys() {
        let word = name.as_str();
        if WITHHELD.contains(&word) || signature_header.is_some_and(|header| header.eq_ignore_ascii_case(word)) {
            continue;
        }
        let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into());
        out.insert(spelling.of(word).to_owned(), Json::Array(values.collect()));
    }
    Json::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use serde_json::json;

    fn with(name: &'static str, values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn the_key_header_is_read_as_the_contract_says() {
        let key = |values: &[&[u8]]| header_key(&with("idempotency-key", values)).map_err(|problem| problem.code);
        assert_eq!(header_key(&HeaderMap::new()), Ok(None));
        assert_eq!(key(&[b"evt_1"]), Ok(Some("evt_1".into())));
        assert_eq!(key(&[b"Evt_1", b"Evt_1"]), Ok(Some("Evt_1".into())));
        assert_eq!(key(&[b"a", b"A"]), Err(Code::KeyRepeated));
        assert_eq!(key(&[b"a", b"b", b"a"]), Err(Code::KeyRepeated));
        assert_eq!(key(&[b""]), Err(Code::KeyEmpty));
        assert_eq!(key(&[b"  "]), Err(Code::KeyEmpty));
        assert_eq!(key(&["\u{a0}k".as_bytes()]), Err(Code::KeyOuterBlanks));
        assert_eq!(key(&["ключ".as_bytes()]), Ok(Some("ключ".into())));
        assert_eq!(key(&[b"\xff\xfe"]), Err(Code::KeyNotUtf8));
        assert_eq!(key(&[b"a\tb"]), Err(Code::KeyControlCharacter));
        assert_eq!(key(&["k".repeat(255).as_bytes()]), Ok(Some("k".repeat(255))));
        assert_eq!(key(&["k".repeat(256).as_bytes()]), Err(Code::KeyTooLong));
        assert_eq!(key(&["é".repeat(255).as_bytes()]), Ok(Some("é".repeat(255))));
    }

    #[test]
    fn waiting_is_read_and_clamped() {
        let wait = |values: &[&[u8]]| prefer_wait(&with("prefer", values), 300_000).map(|d| d.as_millis());
        assert_eq!(prefer_wait(&HeaderMap::new(), 1), None);
        assert_eq!(wait(&[b"wait=10"]), Some(10_000));
        assert_eq!(wait(&[b"respond-async, Wait = \"5\"; x=y"]), Some(5_000));
        assert_eq!(wait(&[b"return=minimal", b"wait=0"]), Some(0));
        assert_eq!(wait(&[b"wait=301"]), Some(300_000));
        assert_eq!(wait(&[b"wait=99999999999999999999999"]), Some(300_000));
        for ignored in ["wait", "wait=", "wait=-1", "wait=1.5", "waits=3"] {
            assert_eq!(wait(&[ignored.as_bytes()]), None, "{ignored}");
        }
    }

    #[test]
    fn credentials_and_proofs_are_withheld() {
        let mut headers = with("x-event", &[b"a", b"b"]);
        for name in ["authorization", "cookie", "proxy-authorization", "stripe-signature", "x-my-proof"] {
            headers.insert(name, HeaderValue::from_static("secret"));
        }
        headers.insert("traceparent", HeaderValue::from_static("00-1-2-01"));
        let seen = visible_headers(&headers, &Spelling::default(), Some("X-My-Proof"));
        assert_eq!(seen, json!({"x-event": ["a", "b"], "traceparent": ["00-1-2-01"]}));
    }
}
