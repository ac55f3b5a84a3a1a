//! One table from SQLite's errors to the store's: who must act.

use rusqlite::{Error, ErrorCode, ffi};
use semel_store::StoreError;
use semel_store::codec::Damaged;

/// An error for a row whose contents cannot be right.
pub fn damaged(what: impl Into<String>) -> Error {
    Error::FromSqlConversionFailure(0, rusqlite::types::Type::Null, Box::new(Damaged(what.into())))
}

/// | SQLite says | the store says |
/// |---|---|
/// | FULL, IOERR_SHMSIZE | `Full`: the statement or commit was rolled back; no room for the index of the log |
/// | BUSY, LOCKED, PROTOCOL, NOMEM, INTERRUPT, ABORT, SCHEMA, CANTOPEN | `Busy`: nothing happened, try again |
/// | IOERR, CORRUPT, NOTADB, READONLY, PERM, INTERNAL, NOLFS, a value that does not decode | `Poisoned` |
/// | CONSTRAINT, MISMATCH, MISUSE, TOOBIG, RANGE, NOTFOUND, AUTH, a row that must exist | `Bug` |
pub fn classify(error: &Error) -> StoreError {
    let text = error.to_string();
    match error {
        Error::SqliteFailure(failure, _) if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            StoreError::Full(text)
        }
        Error::SqliteFailure(failure, _) => by_code(failure.code, text),
        Error::SqlInputError { error, .. } => by_code(error.code, text),
        Error::FromSqlConversionFailure(..)
        | Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..) => StoreError::Poisoned(text),
        // All other variants mean that this crate called SQLite wrongly or missed a row.
        _ => StoreError::Bug(text),
    }
}

fn by_code(code: ErrorCode, text: String) -> StoreError {
    match code {
        ErrorCode::DiskFull => StoreError::Full(text),
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationInterrupted
        | ErrorCode::OperationAborted
        | ErrorCode::SchemaChanged
        | ErrorCode::CannotOpen => StoreError::Busy(text),
        ErrorCode::ConstraintViolation
        | ErrorCode::TypeMismatch
        | ErrorCode::ApiMisuse
        | ErrorCode::TooBig
        | ErrorCode::ParameterOutOfRange
        | ErrorCode::NotFound
        | ErrorCode::AuthorizationForStatementDenied => StoreError::Bug(text),
        ErrorCode::SystemIoFailure
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::InternalMalfunction
        | ErrorCode::NoLargeFileSupport => StoreError::Poisoned(text),
        // SQLITE_ERROR: a statement that does not fit the schema.
        ErrorCode::Unknown => StoreError::Bug(text),
        // The enum is open; what is not known cannot be called harmless.
        _ => StoreError::Poisoned(text),
    }
}

/// What a failed COMMIT means. Only two failures leave no doubt that nothing was committed: the
/// log could not grow (the commit record was never written), or the lock was not had. When the index
/// of the log could not grow, the record was written before, and the next process would find it.
pub fn classify_commit(error: &Error) -> StoreError {
    let is_written = error.sqlite_error().is_some_and(|failure| failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE);
    match classify(error) {
        other if is_written => StoreError::Poisoned(format!("the commit failed in an unknown state: {other}")),
        known @ (StoreError::Full(_) | StoreError::Busy(_)) => known,
        other => StoreError::Poisoned(format!("the commit failed in an unknown state: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(raw: std::ffi::c_int) -> &'static str {
        classify(&Error::SqliteFailure(ffi::Error::new(raw), None)).code()
    }

    #[test]
    fn every_row_of_the_table() {
        let table = [
            (ffi::SQLITE_FULL, "store_full"),
            (ffi::SQLITE_IOERR_SHMSIZE, "store_full"),
            (ffi::SQLITE_BUSY, "store_busy"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "store_busy"),
            (ffi::SQLITE_LOCKED, "store_busy"),
            (ffi::SQLITE_PROTOCOL, "store_busy"),
            (ffi::SQLITE_NOMEM, "store_busy"),
            (ffi::SQLITE_INTERRUPT, "store_busy"),
            (ffi::SQLITE_ABORT, "store_busy"),
            (ffi::SQLITE_SCHEMA, "store_busy"),
            (ffi::SQLITE_CANTOPEN, "store_busy"),
            (ffi::SQLITE_IOERR, "store_poisoned"),
            (ffi::SQLITE_IOERR_FSYNC, "store_poisoned"),
            (ffi::SQLITE_IOERR_WRITE, "store_poisoned"),
            (ffi::SQLITE_CORRUPT, "store_poisoned"),
            (ffi::SQLITE_NOTADB, "store_poisoned"),
            (ffi::SQLITE_READONLY, "store_poisoned"),
            (ffi::SQLITE_PERM, "store_poisoned"),
            (ffi::SQLITE_INTERNAL, "store_poisoned"),
            (ffi::SQLITE_NOLFS, "store_poisoned"),
            (ffi::SQLITE_CONSTRAINT, "store_bug"),
            (ffi::SQLITE_CONSTRAINT_UNIQUE, "store_bug"),
            (ffi::SQLITE_MISMATCH, "store_bug"),
            (ffi::SQLITE_MISUSE, "store_bug"),
            (ffi::SQLITE_TOOBIG, "store_bug"),
            (ffi::SQLITE_RANGE, "store_bug"),
            (ffi::SQLITE_NOTFOUND, "store_bug"),
            (ffi::SQLITE_AUTH, "store_bug"),
            (ffi::SQLITE_ERROR, "store_bug"),
        ];
        for (raw, expected) in table {
            assert_eq!(code_of(raw), expected, "SQLite code {raw}");
        }
    }

    #[test]
    fn errors_of_this_side() {
        assert_eq!(classify(&damaged("x")).code(), "store_poisoned");
        assert_eq!(classify(&Error::QueryReturnedNoRows).code(), "store_bug");
        assert_eq!(classify(&Error::IntegralValueOutOfRange(0, 1)).code(), "store_poisoned");
        assert_eq!(classify(&Error::InvalidQuery).code(), "store_bug");
    }

    #[test]
    fn a_failed_commit_is_known_only_when_full_or_busy() {
        let commit = |raw| classify_commit(&Error::SqliteFailure(ffi::Error::new(raw), None)).code();
        assert_eq!(commit(ffi::SQLITE_FULL), "store_full");
        assert_eq!(commit(ffi::SQLITE_BUSY), "store_busy");
        assert_eq!(commit(ffi::SQLITE_IOERR_SHMSIZE), "store_poisoned");
        assert_eq!(commit(ffi::SQLITE_IOERR_FSYNC), "store_poisoned");
        assert_eq!(commit(ffi::SQLITE_CONSTRAINT), "store_poisoned");
        assert_eq!(commit(ffi::SQLITE_CORRUPT), "store_poisoned");
    }
}
