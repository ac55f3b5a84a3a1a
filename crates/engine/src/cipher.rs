//! `encrypt()` and `decrypt()` of expressions, in the form that Kestra writes: base64 of a nonce of 12 bytes, the
//! AES-GCM text and its tag, under a key given in base64.

use crate::scope::Services;
use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use semel_core::WorkspaceId;
use semel_expr::{Part, Tainted, Value};

const NONCE_BYTES: usize = 12;

/// A key is usually a secret, and so is what was encrypted: both are looked at here and nowhere else.
struct Given {
    key: Vec<u8>,
    text: String,
}

fn given(
    services: &Services,
    workspace: &WorkspaceId,
    name: &str,
    args: &[Value],
    named: &[(String, Value)],
) -> Result<Given, String> {
    let text_name = if name == "encrypt" { "plaintext" } else { "encrypted" };
    let argument =
        |at: usize, name: &str| args.get(at).or_else(|| named.iter().find(|(n, _)| n == name).map(|(_, v)| v));
    let text = |at: usize, argument_name: &str| {
        let value = argument(at, argument_name).ok_or_else(|| format!("{name}() needs `{argument_name}`"))?;
        match value.fill(&|part: &Part| services.secrets.reveal(workspace, part))? {
            serde_json::Value::String(text) => Ok(text),
            _ => Err(format!("`{argument_name}` of {name}() must be a text")),
        }
    };
    let key = BASE64.decode(text(0, "key")?.trim()).map_err(|_| format!("the key of {name}() must be base64"))?;
    Ok(Given { key, text: text(1, text_name)? })
}

fn sealed(key: &[u8], nonce: [u8; NONCE_BYTES], text: &[u8]) -> Option<Vec<u8>> {
    let nonce = Nonce::from(nonce);
    match key.len() {
        16 => Aes128Gcm::new_from_slice(key).ok()?.encrypt(&nonce, text).ok(),
        32 => Aes256Gcm::new_from_slice(key).ok()?.encrypt(&nonce, text).ok(),
        _ => None,
    }
}

fn opened(key: &[u8], nonce: [u8; NONCE_BYTES], text: &[u8]) -> Option<Vec<u8>> {
    let nonce = Nonce::from(nonce);
    match key.len() {
        16 => Aes128Gcm::new_from_slice(key).ok()?.decrypt(&nonce, text).ok(),
        32 => Aes256Gcm::new_from_slice(key).ok()?.decrypt(&nonce, text).ok(),
        _ => None,
    }
}

const BAD_KEY: &str = "the key must be base64 of 16 or 32 bytes";

/// The answer to one of the two functions. What was decrypted is sealed again: it is as secret as a secret.
pub fn answer(
    services: &Services,
    workspace: &WorkspaceId,
    name: &str,
    args: &[Value],
    named: &[(String, Value)],
) -> Result<Value, String> {
    let Given { key, text } = given(services, workspace, name, args, named)?;
    if !matches!(key.len(), 16 | 32) {
        return Err(BAD_KEY.to_owned());
    }
    if name == "encrypt" {
        let (a, b) = (services.entropy.random().to_be_bytes(), services.entropy.random().to_be_bytes());
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&a);
        nonce[8..].copy_from_slice(&b[..4]);
        let sealed = sealed(&key, nonce, text.as_bytes()).ok_or(BAD_KEY)?;
        return Ok(Value::str(BASE64.encode([nonce.as_slice(), &sealed].concat()).as_str()));
    }
    let broken = "the text cannot be decrypted with this key";
    let bytes = BASE64.decode(text.trim()).map_err(|_| broken)?;
    let (nonce, rest) = bytes.split_at_checked(NONCE_BYTES).ok_or(broken)?;
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().map_err(|_| broken)?;
    let plain = opened(&key, nonce, rest).and_then(|plain| String::from_utf8(plain).ok()).ok_or(broken)?;
    let part = Part::Sealed(services.secrets.seal(workspace, &plain)?);
    Ok(Value::Tainted(Tainted { parts: vec![part] }.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_opened_with_the_same_key_only() {
        for bytes in [16, 32] {
            let (key, nonce) = (vec![7; bytes], [1; NONCE_BYTES]);
            let text = sealed(&key, nonce, b"hello").unwrap();
            assert_eq!(opened(&key, nonce, &text).unwrap(), b"hello");
            assert_eq!(opened(&vec![8; bytes], nonce, &text), None);
        }
        assert_eq!(sealed(&[7; 5], [1; NONCE_BYTES], b"hello"), None);
    }
}
