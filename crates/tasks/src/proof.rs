//! Who sent this webhook, in the ways of Conductor's verifiers?
//!
//! | verifier | header | what proves it |
//! |---|---|---|
//! | HEADER_BASED | all that are configured | their values |
//! | SIGNATURE_BASED | configured | `sha256=` and the HMAC of the body in hex; the secret as it is |
//! | HMAC_BASED | configured | the HMAC of the body in base64, `HMAC ` before it or not; the secret is base64 |
//! | TWITTER | configured, else `x-twitter-webhooks-signature` | `sha256=` and the HMAC of the body in base64 |
//! | SLACK_BASED | `X-Slack-Signature`, `X-Slack-Request-Timestamp` | `v0=` and the HMAC of `v0:timestamp:body` in hex |
//! | STRIPE | `Stripe-Signature` | as everywhere |
//! | SENDGRID | `X-Twilio-Email-Event-Webhook-Signature`, `…-Timestamp` | ECDSA over timestamp and body; the secret is the public key |
//!
//! The body is the raw bytes that arrived, and comparisons take as long whatever they come to. Nothing that is empty proves
//! anything: anyone can sign with it.

use crate::signature::{self, SignatureError, base64, check_age, hex, seconds};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use semel_core::ir::SignatureScheme;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// How old or early a timestamp may be.
const TOLERANCE_MS: i64 = 300_000;
/// What stands before the point of a public key on P-256, in the form that is handed out.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const TWITTER: &str = "x-twitter-webhooks-signature";
const SENDGRID: &str = "X-Twilio-Email-Event-Webhook-Signature";
const SENDGRID_TIME: &str = "X-Twilio-Email-Event-Webhook-Timestamp";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verifier {
    HeaderBased,
    SignatureBased,
    HmacBased,
    SlackBased,
    Stripe,
    Twitter,
    SendGrid,
}

impl Verifier {
    pub const ALL: [Verifier; 7] = [
        Verifier::HeaderBased,
        Verifier::SignatureBased,
        Verifier::HmacBased,
        Verifier::SlackBased,
        Verifier::Stripe,
        Verifier::Twitter,
        Verifier::SendGrid,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Verifier::HeaderBased => "HEADER_BASED",
            Verifier::SignatureBased => "SIGNATURE_BASED",
            Verifier::HmacBased => "HMAC_BASED",
            Verifier::SlackBased => "SLACK_BASED",
            Verifier::Stripe => "STRIPE",
            Verifier::Twitter => "TWITTER",
            Verifier::SendGrid => "SENDGRID",
        }
    }

    pub fn parse(word: &str) -> Option<Verifier> {
        Verifier::ALL.into_iter().find(|verifier| verifier.word() == word)
    }
}

/// What a sender must show. Has no `Debug`: it holds secrets.
pub struct Expected {
    pub verifier: Verifier,
    /// The header that has the signature, where that is configured.
    pub header: Option<String>,
    pub secret: String,
    /// Of [`Verifier::HeaderBased`].
    pub headers: Vec<(String, String)>,
}

type Headers<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Expected {
    /// Checks a delivery. `headers` finds a header that is there once, whatever its case.
    pub fn check(&self, headers: Headers<'_>, body: &[u8], now_ms: i64) -> Result<(), SignatureError> {
        let nothing = match self.verifier {
            Verifier::HeaderBased => self.headers.is_empty() || self.headers.iter().any(|(_, value)| value.is_empty()),
            _ => self.secret.is_empty(),
        };
        if nothing {
            return Err(unconfigured());
        }
        match self.verifier {
            Verifier::HeaderBased => self.values(headers),
            Verifier::SignatureBased => self.body_mac(headers, body, self.secret.as_bytes(), hex, Some("sha256=")),
            Verifier::Twitter => self.body_mac(headers, body, self.secret.as_bytes(), base64, Some("sha256=")),
            Verifier::HmacBased => {
                let key = base64(self.secret.trim()).filter(|key| !key.is_empty()).ok_or_else(unconfigured)?;
                self.body_mac(headers, body, &key, base64, None)
            }
            Verifier::SlackBased => self.slack(headers, body, now_ms),
            Verifier::Stripe => {
                let secrets = [self.secret.clone()];
                signature::verify(SignatureScheme::Stripe, None, &secrets, headers, body, now_ms, TOLERANCE_MS)
            }
            Verifier::SendGrid => self.sendgrid(headers, body),
        }
    }

    /// All of them are compared, whatever the first ones say.
    fn values(&self, headers: Headers<'_>) -> Result<(), SignatureError> {
        let mut matched = subtle::Choice::from(1);
        for (name, expected) in &self.headers {
            let given = headers(name).ok_or_else(|| SignatureError::missing(name))?;
            matched &= given.as_bytes().ct_eq(expected.as_bytes());
        }
        if bool::from(matched) { Ok(()) } else { Err(SignatureError::mismatch()) }
    }

    fn body_mac(
        &self,
        headers: Headers<'_>,
        body: &[u8],
        key: &[u8],
        read: fn(&str) -> Option<Vec<u8>>,
        prefix: Option<&str>,
    ) -> Result<(), SignatureError> {
        let header = match (self.header.as_deref(), self.verifier) {
            (Some(header), _) => header,
            (None, Verifier::Twitter) => TWITTER,
            (None, _) => return Err(unconfigured()),
        };
        let given = headers(header).ok_or_else(|| SignatureError::missing(header))?;
        let given = given.trim();
        let text = match prefix {
            Some(prefix) => given.strip_prefix(prefix),
            None => Some(given.strip_prefix("HMAC").unwrap_or(given).trim_start()),
        };
        let given = text.and_then(read).filter(|bytes| !bytes.is_empty());
        let given = given.ok_or_else(|| SignatureError::malformed(header))?;
        same(&mac(key, &[body]), &given)
    }

    fn slack(&self, headers: Headers<'_>, body: &[u8], now_ms: i64) -> Result<(), SignatureError> {
        let (name, time) = ("X-Slack-Signature", "X-Slack-Request-Timestamp");
        let take = |header: &str| headers(header).ok_or_else(|| SignatureError::missing(header));
        let (given, stamp) = (take(name)?, take(time)?);
        let signed_at_s = seconds(&stamp).ok_or_else(|| SignatureError::malformed(time))?;
        let given = given.trim().strip_prefix("v0=").and_then(hex).ok_or_else(|| SignatureError::malformed(name))?;
        same(&mac(self.secret.as_bytes(), &[b"v0:", stamp.as_bytes(), b":", body]), &given)?;
        check_age(signed_at_s, now_ms, TOLERANCE_MS)
    }

    fn sendgrid(&self, headers: Headers<'_>, body: &[u8]) -> Result<(), SignatureError> {
        let take = |header: &str| headers(header).ok_or_else(|| SignatureError::missing(header));
        let (given, stamp) = (take(SENDGRID)?, take(SENDGRID_TIME)?);
        let given = base64(given.trim()).ok_or_else(|| SignatureError::malformed(SENDGRID))?;
        let point = public_point(&self.secret).ok_or_else(unconfigured)?;
        let signed = [stamp.as_bytes(), body].concat();
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
        key.verify(&signed, &given).map_err(|_| SignatureError::mismatch())
    }

    /// The answer to Twitter's question whether this address knows the secret. Only what no delivery can be is answered:
    /// whoever asks would else learn the signature of a body of their choice.
    pub fn crc_answer(&self, token: &str) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '/' | '=' | '.');
        let asked = self.verifier == Verifier::Twitter && !self.secret.is_empty();
        let fits =
            (1..=255).contains(&token.len()) && token.chars().all(plain) && !token.chars().all(|c| c.is_ascii_digit());
        (asked && fits).then(|| format!("sha256={}", STANDARD.encode(mac(self.secret.as_bytes(), &[token.as_bytes()]))))
    }
}

fn unconfigured() -> SignatureError {
    SignatureError::new("signature_not_configured", "no usable secret is configured for this webhook")
}

/// The point of a public key in base64, with or without the lines of a PEM file around it.
pub fn public_point(text: &str) -> Option<Vec<u8>> {
    let packed: String =
        text.lines().filter(|line| !line.starts_with("-----")).flat_map(str::split_whitespace).collect();
    let der = base64(&packed)?;
    let point = der.strip_prefix(&P256_PREFIX)?;
    (point.len() == 65 && point[0] == 4).then(|| point.to_vec())
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // A key of any length is taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn same(expected: &[u8], given: &[u8]) -> Result<(), SignatureError> {
    match !expected.is_empty() && bool::from(expected.ct_eq(given)) {
        true => Ok(()),
        false => Err(SignatureError::mismatch()),
    }
}
