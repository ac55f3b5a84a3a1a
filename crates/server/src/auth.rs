//! Who asks, and what that role may do.
//!
//! A token is `sml_<id>_<secret>`: the id finds the row, the secret is compared in constant time
//! with the stored SHA-256. Every failure up to a proven secret gives the same answer, so a
//! stranger learns nothing about which ids exist. What a role may do is [`Access::allows`], the
//! only place where a role is looked at before a handler runs.

use crate::codes::Code;
use crate::problem::Problem;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use semel_core::{Millis, WorkspaceId};
use semel_store::{StoreError, TokenRow};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

const PREFIX: &str = "sml_";
const ID_CHARS: usize = 16;
const SECRET_CHARS: usize = 43;
const SECRET_BYTES: usize = 32;

/// What a token may do. The first four include each other upwards; the last two stand apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Viewer,
    Operator,
    Author,
    Admin,
    /// Only the trigger route.
    Trigger,
    /// Only `/metrics`.
    Metrics,
}

impl Role {
    pub const ALL: [Role; 6] = [Role::Viewer, Role::Operator, Role::Author, Role::Admin, Role::Trigger, Role::Metrics];

    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Author => "author",
            Role::Admin => "admin",
            Role::Trigger => "trigger",
            Role::Metrics => "metrics",
        }
    }

    pub fn parse(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }

    /// Place on the ladder viewer < operator < author < admin; the narrow roles are not on it.
    fn rung(self) -> Option<u8> {
        match self {
            Role::Viewer => Some(1),
            Role::Operator => Some(2),
            Role::Author => Some(3),
            Role::Admin => Some(4),
            Role::Trigger | Role::Metrics => None,
        }
    }

    fn at_least(self, other: Role) -> bool {
        matches!((self.rung(), other.rung()), (Some(mine), Some(needed)) if mine >= needed)
    }
}

/// Who may use a route. Every row of the route table has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone: says nothing about any workspace.
    Open,
    /// Anyone who knows the URL's key; the handler verifies key and signature.
    Webhook,
    /// Operators and above, and `trigger` tokens.
    Trigger,
    /// Viewers and above, and `metrics` tokens.
    Metrics,
    Viewer,
    Operator,
    Author,
    Admin,
    /// Admins of the workspace `main`, who run the server.
    MainAdmin,
}

impl Access {
    /// True when the route is served without a token.
    pub fn is_open(self) -> bool {
        match self {
            Access::Open | Access::Webhook => true,
            Access::Trigger
            | Access::Metrics
            | Access::Viewer
            | Access::Operator
            | Access::Author
            | Access::Admin
            | Access::MainAdmin => false,
        }
    }

    pub fn allows(self, principal: &Principal) -> bool {
        let role = principal.role;
        match self {
            Access::Open | Access::Webhook => true,
            Access::Trigger => role == Role::Trigger || role.at_least(Role::Operator),
            Access::Metrics => role == Role::Metrics || role.at_least(Role::Viewer),
            Access::Viewer => role.at_least(Role::Viewer),
            Access::Operator => role.at_least(Role::Operator),
            Access::Author => role.at_least(Role::Author),
            Access::Admin => role.at_least(Role::Admin),
            Access::MainAdmin => principal.is_main_admin(),
        }
    }

    /// The words of the documentation.
    pub fn text(self) -> &'static str {
        match self {
            Access::Open => "open",
            Access::Webhook => "open (URL key, signature)",
            Access::Trigger => "trigger, operator",
            Access::Metrics => "metrics, viewer",
            Access::Viewer => "viewer",
            Access::Operator => "operator",
            Access::Author => "author",
            Access::Admin => "admin",
            Access::MainAdmin => "admin of main",
        }
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub workspace: WorkspaceId,
    pub token_id: String,
    pub name: String,
    pub role: Role,
}

impl Principal {
    /// The one who asks a server without authentication.
    pub fn dev(workspace: WorkspaceId) -> Principal {
        Principal { workspace, token_id: "dev".to_owned(), name: "dev".to_owned(), role: Role::Admin }
    }

    /// Viewers see that runs happen, not what is in them.
    pub fn sees_payloads(&self) -> bool {
        self.role.at_least(Role::Operator)
    }

    pub fn is_main_admin(&self) -> bool {
        self.role.at_least(Role::Admin) && self.workspace.0 == WorkspaceId::DEFAULT
    }
}

/// Fills a buffer with random bytes of cryptographic quality.
pub type RandomFn = fn(&mut [u8]);

/// The operating system's generator, by way of the thread's own which it seeds.
pub fn os_random(bytes: &mut [u8]) {
    rand::fill(bytes);
}

/// What a new token is to be.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub workspace: WorkspaceId,
    pub name: String,
    pub role: Role,
    pub now: Millis,
    pub expires_at: Option<Millis>,
}

/// Makes a token: the row to store and the text to show once.
pub fn make_token(new: NewToken, random: RandomFn) -> (TokenRow, String) {
    let mut id = [0u8; ID_CHARS / 2];
    let mut secret = [0u8; SECRET_BYTES];
    random(&mut id);
    random(&mut secret);
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let secret = URL_SAFE_NO_PAD.encode(secret);
    let row = TokenRow {
        secret_hash: hash(&secret),
        workspace: new.workspace,
        name: new.name,
        role: new.role.word().to_owned(),
        created_at: new.now,
        expires_at: new.expires_at,
        revoked_at: None,
        id: id.clone(),
    };
    (row, format!("{PREFIX}{id}_{secret}"))
}

fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// The two parts of a token's text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Presented<'a> {
    pub id: &'a str,
    secret: &'a str,
}

/// Reads a token's text; `None` when it cannot be one.
pub fn parse_token(text: &str) -> Option<Presented<'_>> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(ID_CHARS)?;
    let secret = secret.strip_prefix('_')?;
    let id_ok = id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let secret_ok =
        secret.len() == SECRET_CHARS && secret.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    (id_ok && secret_ok).then_some(Presented { id, secret })
}

/// The token of a request. Two Authorization headers would leave open which one counts.
pub fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let (scheme, token) = authorization(headers)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token) } else { Err(invalid()) }
}

/// As [`bearer`]; also the password of Basic credentials, whoever they name. Clients of Kestra send those.
pub fn bearer_or_password(headers: &HeaderMap) -> Result<String, Problem> {
    let (scheme, token) = authorization(headers)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(token.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(invalid());
    }
    let decoded = STANDARD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(invalid)?;
    let (_, password) = decoded.split_once(':').ok_or_else(invalid)?;
    Ok(password.to_owned())
}

const X_AUTHORIZATION: HeaderName = HeaderName::from_static("x-authorization");

/// As [`bearer`]; also the bare token of `X-Authorization`, where clients of Conductor send it.
pub fn bearer_or_own(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut given = headers.get_all(X_AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (Some(only), None) => only.to_str().map(str::trim).map_err(|_| invalid()),
        (Some(_), Some(_)) => Err(invalid()),
        (None, _) => bearer(headers),
    }
}

/// The token of these two parts. What is a whole token already is one.
pub fn joined(id: &str, secret: &str) -> String {
    if secret.starts_with(PREFIX) { secret.to_owned() } else { format!("{PREFIX}{id}_{secret}") }
}

/// Scheme and credentials.
fn authorization(headers: &HeaderMap) -> Result<(&str, &str), Problem> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let Some(first) = given.next() else {
        return Err(Problem::new(Code::TokenMissing, "send a token: Authorization: Bearer sml_…"));
    };
    if given.next().is_some() {
        return Err(invalid());
    }
    let text = first.to_str().map_err(|_| invalid())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(invalid)?;
    Ok((scheme, token.trim()))
}

fn invalid() -> Problem {
    Problem::new(
        Code::TokenInvalid,
        "the token is not valid here; make one with `semel token create` and send Authorization: Bearer sml_…",
    )
}

/// Checks a presented token against its row, if there is one.
pub fn verify(presented: Presented<'_>, row: Option<&TokenRow>, now: Millis) -> Result<Principal, Problem> {
    // Without a row the same work is done, so that time does not tell whether the id exists.
    let stored = row.map_or(&[0u8; 32][..], |row| &row.secret_hash);
    let matches = bool::from(hash(presented.secret).as_slice().ct_eq(stored));
    let row = row.filter(|_| matches).ok_or_else(invalid)?;
    if row.revoked_at.is_some() {
        return Err(invalid());
    }
    if row.expires_at.is_some_and(|end| now >= end) {
        return Err(Problem::new(
            Code::TokenExpired,
            "the token has expired; make a new one with `semel token create`",
        ));
    }
    // A role this version does not know has no rights.
    let role = Role::parse(&row.role).ok_or_else(invalid)?;
    Ok(Principal { workspace: row.workspace.clone(), token_id: row.id.clone(), name: row.name.clone(), role })
}

/// How long a row may be used without asking the store again, for tokens revoked elsewhere.
const CACHE_TTL: Duration = Duration::from_secs(1);
const CACHE_ROWS_MAX: usize = 1_024;

/// Token rows read lately. A revocation through this process empties it, so it holds from the
/// next request on; the generation keeps a read that began before from putting the row back.
#[derive(Default)]
pub struct TokenCache {
    inner: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    generation: u64,
    rows: HashMap<String, (TokenRow, Instant)>,
}

impl TokenCache {
    /// A row read within the last second, without asking the store.
    pub fn fresh(&self, id: &str) -> Option<TokenRow> {
        let cached = self.inner.lock();
        cached.rows.get(id).filter(|(_, at)| at.elapsed() < CACHE_TTL).map(|(row, _)| row.clone())
    }

    /// Reads a row and keeps it.
    pub fn read(
        &self,
        id: &str,
        read: impl FnOnce() -> Result<Option<TokenRow>, StoreError>,
    ) -> Result<Option<TokenRow>, StoreError> {
        let generation = self.inner.lock().generation;
        // Only rows that exist are kept: a stranger must not be able to fill the cache.
        let Some(row) = read()? else { return Ok(None) };
        let mut cached = self.inner.lock();
        if cached.generation == generation {
            if cached.rows.len() >= CACHE_ROWS_MAX {
                cached.rows.clear();
            }
            cached.rows.insert(id.to_owned(), (row.clone(), Instant::now()));
        }
        Ok(Some(row))
    }

    /// Call after a revocation is durable.
    pub fn forget_all(&self) {
        let mut cached = self.inner.lock();
        cached.generation += 1;
        cached.rows.clear();
    }
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
