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
        "md5" => hex(&md5::Md5::digest(text)),
        "sha1" => hex(&sha1(text.as_bytes())),
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

/// SHA-1, for comparing with what others computed: it protects nothing any more.
fn sha1(data: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - data.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        sha1_block(&mut state, block);
    }
    let mut out = [0; 20];
    for (place, word) in out.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn sha1_block(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..80 {
        words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (round, word) in words.into_iter().enumerate() {
        let (mix, constant) = match round / 20 {
            0 => ((b & c) | (!b & d), 0x5A82_7999),
            1 => (b ^ c ^ d, 0x6ED9_EBA1),
            2 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
            _ => (b ^ c ^ d, 0xCA62_C1D6u32),
        };
        let next = a.rotate_left(5).wrapping_add(mix).wrapping_add(e).wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (total, part) in state.iter_mut().zip([a, b, c, d, e]) {
        *total = total.wrapping_add(part);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
