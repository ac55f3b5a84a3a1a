//! What can go wrong in a store, by who must act.

/// Degrade or poison: the table below is tested row by row in the stores.
///
/// | variant | state of the transaction | what the server does |
/// |---|---|---|
/// | `Full`, `Busy` | provably rolled back | refuses writes (507, 503), keeps reads, tries again |
/// | `Poisoned` | unknown or damaged | stops admitting, says why, exits non-zero |
/// | `Closed` | never begun | the server is shutting down (503) |
/// | `Conflict` | this batch rolled back, neighbours kept | the caller reloads and decides again |
/// | `Bug` | this batch rolled back | 500 with a code; the node goes on |
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full: {0}")]
    Full(String),
    #[error("the store is busy: {0}")]
    Busy(String),
    #[error("the store is damaged or in an unknown state: {0}")]
    Poisoned(String),
    #[error("the store is closed")]
    Closed,
    #[error("the guard failed: {0}")]
    Conflict(String),
    #[error("internal error in the store: {0}")]
    Bug(String),
}

impl StoreError {
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::Full(_) => "store_full",
            StoreError::Busy(_) => "store_busy",
            StoreError::Poisoned(_) => "store_poisoned",
            StoreError::Closed => "store_closed",
            StoreError::Conflict(_) => "conflict",
            StoreError::Bug(_) => "store_bug",
        }
    }

    /// True when the node must stop.
    pub fn is_fatal(&self) -> bool {
        match self {
            StoreError::Poisoned(_) => true,
            StoreError::Full(_)
            | StoreError::Busy(_)
            | StoreError::Closed
            | StoreError::Conflict(_)
            | StoreError::Bug(_) => false,
        }
    }
}
