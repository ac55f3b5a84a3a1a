//! The key that seals secrets: 32 bytes, base64, from a file, a command, or made at the first start.

use super::data_dir::{read_private, write_private};
use crate::config::SecretKey;
use crate::failure::Failure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::process::{Command, Stdio};

const KEY_BYTES: usize = 32;

pub fn load(source: &SecretKey) -> Result<[u8; KEY_BYTES], Failure> {
    match source {
        SecretKey::File(path) => decode(&read_private(path)?, &path.display().to_string()),
        SecretKey::Command(command) => decode(&output_of(command)?, "secrets.key_command"),
        SecretKey::Made(path) => {
            if !path.exists() {
                let mut bytes = [0u8; KEY_BYTES];
                rand::fill(&mut bytes);
                write_private(path, &format!("{}\n", STANDARD.encode(bytes)))?;
            }
            decode(&read_private(path)?, &path.display().to_string())
        }
    }
}

/// The text is a secret, so no message quotes it.
fn decode(text: &str, from: &str) -> Result<[u8; KEY_BYTES], Failure> {
    let bytes = STANDARD.decode(text.trim()).ok();
    bytes.and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok()).ok_or_else(|| {
        Failure::refused("key_invalid", format!("{from} does not give a key of 32 bytes in base64"))
            .hint("make one with: head -c 32 /dev/urandom | base64")
    })
}

fn output_of(command: &str) -> Result<String, Failure> {
    let ran = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output =
        ran.map_err(|error| Failure::refused("key_command", format!("secrets.key_command cannot run: {error}")))?;
    if !output.status.success() {
        return Err(Failure::refused("key_command", format!("secrets.key_command failed ({})", output.status)));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| Failure::refused("key_invalid", "secrets.key_command did not print text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret.key");
        let made = load(&SecretKey::Made(path.clone())).unwrap();
        assert_eq!(load(&SecretKey::Made(path.clone())).unwrap(), made);
        assert_eq!(load(&SecretKey::File(path)).unwrap(), made);
        assert_ne!(made, [0u8; KEY_BYTES]);
    }

    #[test]
    fn a_command_may_give_the_key() {
        let key = STANDARD.encode([7u8; KEY_BYTES]);
        assert_eq!(load(&SecretKey::Command(format!("echo {key}"))).unwrap(), [7u8; KEY_BYTES]);
        for bad in ["exit 3", "echo short", "true"] {
            assert!(load(&SecretKey::Command(bad.to_owned())).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wrong_key_is_not_quoted() {
        let failure = decode("hunter2", "f").unwrap_err();
        assert!(!failure.message().contains("hunter2"));
        assert!(decode(&STANDARD.encode([1u8; 16]), "f").is_err());
    }
}
