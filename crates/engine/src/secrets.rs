//! Secrets: looked up by name, revealed only to performers, sealed where a value was computed
//! through one.
//!
//! At rest a secret is AES-256-GCM under a key made from the master key and the workspace; name
//! and version are bound in as associated data, so a row copied elsewhere does not open. The
//! master key comes from a file or a command, never from the database. Kestra's `SECRET_`
//! environment (base64) is read once at start, version 0; it is the operator's, and so the workspace `main`'s alone.

use crate::api::SecretError;
use crate::away;
use crate::ports::Entropy;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use semel_core::WorkspaceId;
use semel_expr::{Part, SecretRef};
use semel_store::{SecretRow, Store, StoreError};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The key everything is wrapped with. Has no `Debug`: it must not reach a log.
pub struct MasterKey {
    id: String,
    bytes: Zeroizing<[u8; 32]>,
}

impl MasterKey {
    pub fn new(bytes: [u8; 32]) -> MasterKey {
        let digest = Sha256::digest(bytes);
        let id = digest[..4].iter().map(|b| format!("{b:02x}")).collect();
        MasterKey { id, bytes: Zeroizing::new(bytes) }
    }

    fn cipher(&self, workspace: &WorkspaceId) -> Option<Aes256Gcm> {
        let mut hasher = Sha256::new();
        hasher.update(b"semel workspace key v1");
        hasher.update(self.bytes.as_slice());
        hasher.update(workspace.0.as_bytes());
        Aes256Gcm::new_from_slice(&hasher.finalize()).ok()
    }
}

/// Where secrets come from.
pub struct Secrets {
    store: Arc<dyn Store>,
    master: Option<MasterKey>,
    environment: BTreeMap<String, String>,
    entropy: Arc<dyn Entropy>,
}

impl Secrets {
    /// `environment` is the process's: `SECRET_X` holding base64 becomes secret `X`.
    pub fn new(
        store: Arc<dyn Store>,
        master: Option<MasterKey>,
        environment: impl IntoIterator<Item = (String, String)>,
        entropy: Arc<dyn Entropy>,
    ) -> Secrets {
        let mut known = BTreeMap::new();
        for (name, value) in environment {
            let Some(name) = name.strip_prefix("SECRET_") else { continue };
            let packed: String = value.split_whitespace().collect();
            match BASE64.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                Some(text) => {
                    known.insert(name.to_uppercase(), text);
                }
                None => tracing::warn!(secret = name, "SECRET_ variable is not base64 of a text; ignored"),
            }
        }
        Secrets { store, master, environment: known, entropy }
    }

    /// The newest version of a name.
    pub fn find(&self, workspace: &WorkspaceId, name: &str) -> Result<SecretRef, String> {
        match self.store.secret(workspace, name, None) {
            Ok(Some(row)) => Ok(SecretRef { name: row.name, version: row.version }),
            Ok(None) if self.in_environment(workspace, &name.to_uppercase()).is_some() => {
                Ok(SecretRef { name: name.to_uppercase(), version: 0 })
            }
            Ok(None) => Err(format!("Cannot find secret for key '{name}'; store it with `semel secret set {name}`")),
            Err(error) => {
                away::note(&error);
                Err(error.to_string())
            }
        }
    }

    /// All names that a flow of the workspace can ask for, in order.
    pub fn names(&self, workspace: &WorkspaceId) -> Result<Vec<String>, StoreError> {
        let stored = self.store.secrets(workspace)?.into_iter().map(|row| row.name);
        let given = self.environment.keys().filter(|name| self.in_environment(workspace, name).is_some()).cloned();
        Ok(stored.chain(given).collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// Whoever may write flows in another workspace must not read what the operator gave to the process.
    fn in_environment(&self, workspace: &WorkspaceId, name: &str) -> Option<&String> {
        self.environment.get(name).filter(|_| workspace.0 == WorkspaceId::DEFAULT)
    }

    /// The text behind a hole.
    pub fn reveal(&self, workspace: &WorkspaceId, part: &Part) -> Result<String, String> {
        match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Secret(SecretRef { name, version: 0 }) => self
                .in_environment(workspace, name)
                .cloned()
                .ok_or_else(|| format!("secret `{name}` is no longer in the environment")),
            Part::Secret(SecretRef { name, version }) => {
                let row = self.store.secret(workspace, name, Some(*version)).map_err(|error| {
                    away::note(&error);
                    error.to_string()
                })?;
                let row = row.ok_or_else(|| format!("secret `{name}` has no version {version}"))?;
                self.decrypt(&row).map_err(|e| e.to_string())
            }
            Part::Sealed(text) => self.unseal(workspace, text),
        }
    }

    /// Stores a new version of a secret.
    pub fn encrypt(&self, workspace: &WorkspaceId, name: &str, value: &str) -> Result<SecretRow, SecretError> {
        let good = (1..=100).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !good {
            return Err(SecretError::BadName(name.to_owned()));
        }
        let master = self.master.as_ref().ok_or(SecretError::NoKey)?;
        let version = self.latest(workspace, name)? + 1;
        let nonce = self.nonce();
        let aad = aad(workspace, name, version);
        let cipher = master.cipher(workspace).ok_or(SecretError::NoKey)?;
        let ciphertext = cipher
            .encrypt(&Nonce::from(nonce), Payload { msg: value.as_bytes(), aad: aad.as_bytes() })
            .map_err(|_| SecretError::Undecryptable)?;
        Ok(SecretRow {
            workspace: workspace.clone(),
            name: name.to_owned(),
            version,
            key_id: master.id.clone(),
            nonce: nonce.to_vec(),
            ciphertext,
            created_at: self.store.now(),
            retired: false,
        })
    }

    /// The highest version ever used, retired ones included.
    fn latest(&self, workspace: &WorkspaceId, name: &str) -> Result<u64, SecretError> {
        let mut version = 0;
        while self.store.secret(workspace, name, Some(version + 1))?.is_some() {
            version += 1;
        }
        Ok(version)
    }

    fn decrypt(&self, row: &SecretRow) -> Result<String, SecretError> {
        let master = self.master.as_ref().ok_or(SecretError::NoKey)?;
        let nonce: [u8; 12] = row.nonce.as_slice().try_into().map_err(|_| SecretError::Undecryptable)?;
        let aad = aad(&row.workspace, &row.name, row.version);
        let cipher = master.cipher(&row.workspace).ok_or(SecretError::NoKey)?;
        let plain = cipher
            .decrypt(&Nonce::from(nonce), Payload { msg: &row.ciphertext, aad: aad.as_bytes() })
            .map_err(|_| SecretError::Undecryptable)?;
        String::from_utf8(plain).map_err(|_| SecretError::Undecryptable)
    }

    /// Encrypts a value that was computed through a secret.
    pub fn seal(&self, workspace: &WorkspaceId, plain: &str) -> Result<String, String> {
        let no_key = || SecretError::NoKey.to_string();
        let master = self.master.as_ref().ok_or_else(no_key)?;
        let nonce = self.nonce();
        let cipher = master.cipher(workspace).ok_or_else(no_key)?;
        let sealed = cipher
            .encrypt(&Nonce::from(nonce), Payload { msg: plain.as_bytes(), aad: b"sealed" })
            .map_err(|_| "the value could not be sealed".to_owned())?;
        Ok(BASE64.encode([nonce.as_slice(), &sealed].concat()))
    }

    fn unseal(&self, workspace: &WorkspaceId, text: &str) -> Result<String, String> {
        let broken = || SecretError::Undecryptable.to_string();
        let master = self.master.as_ref().ok_or_else(|| SecretError::NoKey.to_string())?;
        let bytes = BASE64.decode(text).map_err(|_| broken())?;
        let (nonce, sealed) = bytes.split_at_checked(12).ok_or_else(broken)?;
        let nonce: [u8; 12] = nonce.try_into().map_err(|_| broken())?;
        let cipher = master.cipher(workspace).ok_or_else(broken)?;
        let plain =
            cipher.decrypt(&Nonce::from(nonce), Payload { msg: sealed, aad: b"sealed" }).map_err(|_| broken())?;
        String::from_utf8(plain).map_err(|_| broken())
    }

    fn nonce(&self) -> [u8; 12] {
        let (a, b) = (self.entropy.random(), self.entropy.random());
        let mut nonce = [0u8; 12];
        nonce[..8].copy_from_slice(&a.to_be_bytes());
        nonce[8..].copy_from_slice(&b.to_be_bytes()[..4]);
        nonce
    }
}

fn aad(workspace: &WorkspaceId, name: &str, version: u64) -> String {
    format!("{workspace}\u{0}{name}\u{0}{version}")
}
