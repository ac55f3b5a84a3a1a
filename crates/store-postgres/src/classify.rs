//! One table from PostgreSQL's errors to the store's: who must act.

use semel_store::StoreError;
use semel_store::codec::Damaged;
use tokio_postgres::error::Severity;

/// What went wrong while talking to the database.
#[derive(Debug)]
pub enum Error {
    /// The server said so: the transaction is rolled back.
    Server { code: String, text: String },
    /// The connection is gone; what was sent last may or may not have been done.
    Lost(String),
    /// A row whose contents cannot be right.
    Damaged(Damaged),
}

impl From<Damaged> for Error {
    fn from(damaged: Damaged) -> Error {
        Error::Damaged(damaged)
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        match error.as_db_error() {
            // The session ends with it, and a COMMIT that was on its way may have been carried out.
            Some(told) if matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) => {
                Error::Lost(said(told))
            }
            Some(told) => Error::Server { code: told.code().code().to_owned(), text: said(told) },
            // A value that cannot be sent is not the connection's fault: nothing left this side.
            None if UNSENT.iter().any(|start| error.to_string().starts_with(start)) => {
                Error::Server { code: "22000".into(), text: described(&error) }
            }
            None => Error::Lost(described(&error)),
        }
    }
}

/// How the library words errors of encoding; it has no other way to tell them.
const UNSENT: [&str; 2] = ["error serializing parameter", "error encoding message"];

fn said(told: &tokio_postgres::error::DbError) -> String {
    let detail = told.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{} [{}]{detail}", told.message(), told.code().code())
}

/// The text of the library is short; the server or the cause says more.
pub fn described(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(told), _) => said(told),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// A guard inside the statements: somebody else was faster. The numbers are our own.
pub const LOST_RACE: &str = "SM001";
/// The row of this writer does not say what it said last.
pub const LOST_PLACE: &str = "SM002";
/// The names of prepared statements mean nothing on the connection that a pooler has given this transaction.
pub const LOST_MARK: &str = "SM003";
/// What that means, for whoever has to act.
const FORGOTTEN: &str = "the database is behind what it has acknowledged: it has failed over to a standby that lacked \
                         commits, or is a copy from an earlier time";

impl Error {
    /// True when the same work may go well a moment later: nothing was done, and nothing is wrong.
    pub fn is_race(&self) -> bool {
        match self {
            Error::Server { code, .. } => RACES.contains(&code.as_str()),
            Error::Lost(_) | Error::Damaged(_) => false,
        }
    }

    pub fn has_code(&self, wanted: &str) -> bool {
        matches!(self, Error::Server { code, .. } if code == wanted)
    }
}

/// Unique violation, serialization, deadlock, lock not available.
const RACES: [&str; 6] = ["23505", "40001", "40P01", "55P03", LOST_RACE, LOST_MARK];

/// | PostgreSQL says | the store says |
/// |---|---|
/// | 53100 (disk full) | `Full`: the transaction was rolled back |
/// | 53…, 57…, 08…, 55…, 40…, 28…, 3D…, 25006 (a standby), SM001, SM003, no connection | `Busy`: nothing happened, try again |
/// | 58… (system, I/O), XX… (internal, corruption), a value that does not decode, SM002 | `Poisoned` |
/// | anything else the server says (data, constraints, syntax) | `Bug`: this work was rolled back |
///
/// A connection that is lost while COMMIT is under way has no row here: the writer finds out what became of it.
pub fn classify(error: &Error) -> StoreError {
    match error {
        Error::Damaged(damaged) => StoreError::Poisoned(damaged.0.clone()),
        Error::Lost(text) => StoreError::Busy(text.clone()),
        Error::Server { code, text } => by_code(code, text.clone()),
    }
}

fn by_code(code: &str, text: String) -> StoreError {
    match (code, code.get(..2).unwrap_or_default()) {
        ("53100", _) => StoreError::Full(text),
        (LOST_PLACE, _) => StoreError::Poisoned(FORGOTTEN.into()),
        ("25006", _) | (LOST_RACE | LOST_MARK, _) => StoreError::Busy(text),
        (_, "53" | "57" | "08" | "55" | "40" | "28" | "3D") => StoreError::Busy(text),
        (_, "58" | "XX") => StoreError::Poisoned(text),
        (_, _) => StoreError::Bug(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(code: &str) -> &'static str {
        classify(&Error::Server { code: code.into(), text: String::new() }).code()
    }

    #[test]
    fn every_row_of_the_table() {
        for (code, expected) in [
            ("53100", "store_full"),
            ("53200", "store_busy"),
            ("53300", "store_busy"),
            ("57014", "store_busy"),
            ("57P01", "store_busy"),
            ("57P03", "store_busy"),
            ("08006", "store_busy"),
            ("55P03", "store_busy"),
            ("40001", "store_busy"),
            ("40P01", "store_busy"),
            ("28P01", "store_busy"),
            ("3D000", "store_busy"),
            ("25006", "store_busy"),
            ("SM001", "store_busy"),
            ("SM003", "store_busy"),
            ("SM002", "store_poisoned"),
            ("58030", "store_poisoned"),
            ("XX000", "store_poisoned"),
            ("XX001", "store_poisoned"),
            ("XX002", "store_poisoned"),
            ("22021", "store_bug"),
            ("23505", "store_bug"),
            ("42P01", "store_bug"),
            ("0A000", "store_bug"),
        ] {
            assert_eq!(code_of(code), expected, "{code}");
        }
        let forgotten = classify(&Error::Server { code: LOST_PLACE.into(), text: "a guard failed".into() });
        assert!(forgotten.to_string().contains("the database is behind what it has acknowledged"), "{forgotten}");
        assert_eq!(classify(&Error::Lost(String::new())).code(), "store_busy");
        assert_eq!(classify(&Damaged("x".into()).into()).code(), "store_poisoned");
    }

    #[test]
    fn what_is_worth_another_try() {
        for code in RACES {
            assert!(Error::Server { code: code.into(), text: String::new() }.is_race(), "{code}");
        }
        assert!(!Error::Server { code: "53100".into(), text: String::new() }.is_race());
        assert!(!Error::Lost(String::new()).is_race());
    }
}
