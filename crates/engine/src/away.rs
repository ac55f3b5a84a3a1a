//! Reads of the store that were refused for now, inside expressions.
//!
//! An expression reads keys and secrets, and its error is a text for the author of the flow. That the database is away is
//! nobody's mistake: the step must not fail of it, it must be tried again. So whoever reads makes a note here, and whoever
//! has an expression evaluated looks for one. Evaluation never leaves its thread.

use semel_store::StoreError;
use std::cell::RefCell;

thread_local! {
    static REFUSED: RefCell<Option<StoreError>> = const { RefCell::new(None) };
}

/// Makes a note of an error, if it may be gone a moment later.
pub fn note(error: &StoreError) {
    if matches!(error, StoreError::Busy(_) | StoreError::Full(_)) {
        REFUSED.with_borrow_mut(|refused| *refused = Some(error.clone()));
    }
}

/// What `act` came to; `Err` when a read was refused meanwhile, whatever was made of that.
pub fn noticed<T>(act: impl FnOnce() -> T) -> Result<T, StoreError> {
    REFUSED.with_borrow_mut(Option::take);
    let out = act();
    match REFUSED.with_borrow_mut(Option::take) {
        Some(error) => Err(error),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_gone_a_moment_later_is_noticed_once() {
        let busy = StoreError::Busy("away".into());
        assert_eq!(noticed(|| 1), Ok(1));
        assert_eq!(noticed(|| note(&busy)), Err(busy.clone()));
        assert_eq!(noticed(|| note(&StoreError::Bug("wrong".into()))), Ok(()));
        note(&busy);
        assert_eq!(noticed(|| 2), Ok(2));
        // Whoever notices inside may pass it on.
        assert_eq!(noticed(|| noticed(|| note(&busy)).is_err()), Ok(true));
    }
}
