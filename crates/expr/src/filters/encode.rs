//! Encodings and digests.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use sha2::Digest as _;

use crate::EvalError;
use crate::value::Value;

pub(super) fn apply(name: &str, input: &Value) -> Result<Value, EvalError> {
    let text = input.to_text();
    Ok(Value::str(match name {
        "base64encode" => STANDARD.encode(text),
        "base64decode" => base64_decode(&text)?,
        "urlencode" => url_encode(&text),
        "urldecode" => url_decode(&text)?,
        "sha512" => hex(&sha2::Sha512::digest(text)),
        _ => hex(&sha2::Sha256::digest(text)),
    }))
}

fn base64_decode(text: &str) -> Result<String, EvalError> {
    let bytes = STANDARD.decode(text.trim()).or_else(|_| URL_SAFE.decode(text.trim()));
    let bytes = bytes.map_err(|_| EvalError::new("filter", "the text is not base64"))?;
    String::from_utf8(bytes).map_err(|_| EvalError::new("filter", "the decoded bytes are not UTF-8 text"))
}

/// Form encoding as Java's `URLEncoder` does it: a space is `+`.
fn url_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn url_decode(text: &str) -> Result<String, EvalError> {
    let wrong = || EvalError::new("filter", "the text is not URL-encoded");
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(wrong);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                out.push((high * 16 + low) as u8);
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).map_err(|_| wrong())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
