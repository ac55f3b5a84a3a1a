//! Who sent this webhook?
//!
//! | scheme | header | what is signed | secret |
//! |---|---|---|---|
//! | HMAC-SHA256 | configured, else `X-Signature` | body | text as it is |
//! | GitHub | `X-Hub-Signature-256` | body | text as it is |
//! | Standard Webhooks | `webhook-signature` | `id.timestamp.body` | base64 after `whsec_` |
//! | Stripe | `Stripe-Signature` | `t.body` | text as it is, `whsec_` included |
//!
//! The body is the raw bytes that arrived. Any of several secrets may match, so that they can be
//! rotated. Whether a timestamp is too old is told only to who signed it rightly. An empty secret
//! never matches: anyone can sign with it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use semel_core::ir::SignatureScheme;
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SignatureError {
    pub code: &'static str,
    pub message: String,
}

impl SignatureError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> SignatureError {
        SignatureError { code, message: message.into() }
    }

    pub(crate) fn missing(header: &str) -> SignatureError {
        SignatureError::new("signature_missing", format!("the header `{header}` is missing"))
    }

    pub(crate) fn malformed(header: &str) -> SignatureError {
        SignatureError::new("signature_malformed", format!("the header `{header}` cannot be read"))
    }

    pub(crate) fn mismatch() -> SignatureError {
        SignatureError::new("signature_mismatch", "the signature does not match the body and the secret")
    }
}

/// More candidates than any honest sender lists; each costs one comparison.
const SIGNATURES_MAX: usize = 16;

/// Checks a webhook's signature. `headers` finds a header by name, whatever its case.
pub fn verify(
    scheme: SignatureScheme,
    header_name: Option<&str>,
    secrets: &[String],
    headers: &dyn Fn(&str) -> Option<String>,
    raw_body: &[u8],
    now_ms: i64,
    tolerance_ms: i64,
) -> Result<(), SignatureError> {
    let claim = match scheme {
        SignatureScheme::HmacSha256 => over_body(header_name.unwrap_or("X-Signature"), headers)?,
        SignatureScheme::Github => over_body(header_name.unwrap_or("X-Hub-Signature-256"), headers)?,
        SignatureScheme::StandardWebhooks => standard_webhooks(header_name.unwrap_or("webhook-signature"), headers)?,
        SignatureScheme::Stripe => stripe(header_name.unwrap_or("Stripe-Signature"), headers)?,
    };
    let keys: Vec<Vec<u8>> = secrets.iter().filter_map(|secret| key(scheme, secret)).collect();
    if keys.is_empty() {
        return Err(SignatureError::new("signature_not_configured", "no usable secret is configured for this webhook"));
    }
    let matched = keys.iter().fold(Choice::from(0), |matched, key| matched | claim.matches(key, raw_body));
    if !bool::from(matched) {
        return Err(SignatureError::mismatch());
    }
    match claim.signed_at_s {
        Some(signed_at_s) => check_age(signed_at_s, now_ms, tolerance_ms),
        None => Ok(()),
    }
}

/// What the sender claims: these signatures are over this prefix and the body.
struct Claim {
    prefix: Vec<u8>,
    signatures: Vec<Vec<u8>>,
    signed_at_s: Option<i64>,
}

impl Claim {
    /// Compares all signatures, whatever the first ones say, in constant time.
    fn matches(&self, key: &[u8], body: &[u8]) -> Choice {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Choice::from(0) };
        mac.update(&self.prefix);
        mac.update(body);
        let expected = mac.finalize().into_bytes();
        // Slices of another length compare as unequal.
        self.signatures.iter().fold(Choice::from(0), |matched, given| matched | expected.as_slice().ct_eq(given))
    }
}

fn key(scheme: SignatureScheme, secret: &str) -> Option<Vec<u8>> {
    let key = match scheme {
        SignatureScheme::HmacSha256 | SignatureScheme::Github | SignatureScheme::Stripe => secret.as_bytes().to_vec(),
        SignatureScheme::StandardWebhooks => match secret.strip_prefix("whsec_") {
            Some(encoded) => base64(encoded)?,
            None => base64(secret).unwrap_or_else(|| secret.as_bytes().to_vec()),
        },
    };
    (!key.is_empty()).then_some(key)
}

/// One signature in hex or base64, with or without `sha256=`.
fn over_body(header: &str, headers: &dyn Fn(&str) -> Option<String>) -> Result<Claim, SignatureError> {
    let text = headers(header).ok_or_else(|| SignatureError::missing(header))?;
    let text = text.trim();
    let text = text.strip_prefix("sha256=").unwrap_or(text);
    let signature = hex(text).or_else(|| base64(text)).filter(|bytes| !bytes.is_empty());
    let signature = signature.ok_or_else(|| SignatureError::malformed(header))?;
    Ok(Claim { prefix: Vec::new(), signatures: vec![signature], signed_at_s: None })
}

/// `webhook-signature: v1,<base64> v1,<base64> v1a,…`; versions other than v1 are not ours to check.
fn standard_webhooks(header: &str, headers: &dyn Fn(&str) -> Option<String>) -> Result<Claim, SignatureError> {
    let take = |name: &str| headers(name).ok_or_else(|| SignatureError::missing(name));
    let (id, timestamp, listed) = (take("webhook-id")?, take("webhook-timestamp")?, take(header)?);
    let signed_at_s = seconds(&timestamp).ok_or_else(|| SignatureError::malformed("webhook-timestamp"))?;
    let signatures = listed.split_whitespace().filter_map(|item| item.strip_prefix("v1,")).filter_map(base64);
    let signatures: Vec<_> = signatures.take(SIGNATURES_MAX).collect();
    if signatures.is_empty() {
        return Err(SignatureError::malformed(header));
    }
    let prefix = format!("{id}.{timestamp}.").into_bytes();
    Ok(Claim { prefix, signatures, signed_at_s: Some(signed_at_s) })
}

/// `Stripe-Signature: t=1492774577,v1=<hex>,v1=<hex>,v0=…`.
fn stripe(header: &str, headers: &dyn Fn(&str) -> Option<String>) -> Result<Claim, SignatureError> {
    let text = headers(header).ok_or_else(|| SignatureError::missing(header))?;
    let parts = || text.split(',').filter_map(|part| part.trim().split_once('='));
    let mut stamps = parts().filter(|(name, _)| *name == "t").map(|(_, value)| value);
    // Two timestamps would leave open which one is signed and which one is checked.
    let (Some(stamp), None) = (stamps.next(), stamps.next()) else { return Err(SignatureError::malformed(header)) };
    let signed_at_s = seconds(stamp).ok_or_else(|| SignatureError::malformed(header))?;
    let signatures: Vec<_> =
        parts().filter(|(name, _)| *name == "v1").filter_map(|(_, value)| hex(value)).take(SIGNATURES_MAX).collect();
    if signatures.is_empty() {
        return Err(SignatureError::malformed(header));
    }
    Ok(Claim { prefix: format!("{stamp}.").into_bytes(), signatures, signed_at_s: Some(signed_at_s) })
}

pub(crate) fn check_age(signed_at_s: i64, now_ms: i64, tolerance_ms: i64) -> Result<(), SignatureError> {
    let distance_ms = (i128::from(now_ms) - i128::from(signed_at_s) * 1000).abs();
    if distance_ms <= i128::from(tolerance_ms) {
        return Ok(());
    }
    Err(SignatureError::new("signature_expired", "the signature's timestamp is too far from the present"))
}

/// Plain digits only: what is signed is the text, so only one text per instant is accepted.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].iter().find_map(|engine| engine.decode(text).ok())
}
