//! Statements whose plans a connection keeps.
//!
//! A statement that is sent with its text is read, analysed and planned anew each time, which costs the database more
//! than most of them take to run. Prepared by name it is planned once. But behind a pooler each transaction may get
//! another connection to the database, where a name means nothing, or something that another process has prepared. So a
//! connection is *marked* as soon as it is there, by a prepared statement whose name nobody else can have, and each
//! transaction that wants to use names asks for that one first:
//!
//! | the connection to the database is | the mark | then |
//! |---|---|---|
//! | the one that was marked | is there | every name means what this session has prepared |
//! | another one, or it was wiped | is not there: the transaction fails before it has done anything | names are given up, for the life of this process |
//! | the one that was marked, and somebody has used a name of ours | is there | preparing fails, and likewise |
//!
//! Nothing is done by a transaction that fails so, and whoever sent it begins again.
//!
//! A statement is prepared when it is met for the second time, beside its own execution: that costs no round trip. It has
//! one plan for all values: the database would make one for each, since it takes an array that it does not know for ten
//! rows. The plans of tables that are nearly empty are bad ones for tables that are not, so plans are thrown away after
//! twice as many transactions each time, and made anew.

use crate::classify::{Error, LOST_MARK};
use crate::session::{COMMIT_BATCH, Call};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Statement;
use uuid::Uuid;

/// Texts that a session remembers. What is asked most is met first.
const TEXTS_MAX: usize = 256;
/// After so many transactions plans are made anew for the first time, and then after twice as many, up to the last.
const RENEW_FIRST: u64 = 8;
const RENEW_LAST: u64 = 4_096;
/// No such name, a name that is taken, a result of another shape than it was prepared for.
const STRANGE: [&str; 3] = ["26000", "42P05", "0A000"];

/// Whether names mean anything here; one for all sessions of an address.
#[derive(Clone, Default)]
pub struct Names(Arc<AtomicBool>);

impl Names {
    fn are_given_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn give_up(&self, why: &str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::info!("statements are sent with their text from now on, as behind a pooler: {why}");
        }
    }
}

/// What is to be done about the text of a statement.
pub enum Plan {
    /// Send it as it is.
    Text,
    /// Send it as it is, and prepare it beside.
    Make,
    Made(Statement),
}

pub struct Plans {
    names: Names,
    mark: String,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// `None` for those that were met once.
    texts: HashMap<Arc<str>, Option<Statement>>,
    /// A transaction is under way that has found the mark.
    is_open: bool,
    transactions: u64,
    renewed_at: u64,
}

impl Plans {
    pub fn new(names: Names) -> Plans {
        Plans { names, mark: format!("semel_{}", Uuid::now_v7().simple()), kept: Mutex::default() }
    }

    /// Marks a connection that has just been made.
    pub fn marking(&self) -> Option<String> {
        (!self.names.are_given_up()).then(|| format!("PREPARE {} AS SELECT 1", self.mark))
    }

    /// For a connection that could not be marked.
    pub fn give_up(&self, why: &str) {
        self.names.give_up(why);
    }

    /// The beginning of a transaction, with what makes it safe to use names in it.
    pub fn begun(&self, begin: String) -> String {
        if self.names.are_given_up() {
            return begin;
        }
        let mut kept = self.kept.lock();
        kept.is_open = true;
        kept.transactions += 1;
        let since = kept.transactions - kept.renewed_at;
        let is_due = since >= RENEW_FIRST.max(kept.renewed_at).min(RENEW_LAST);
        if is_due {
            kept.renewed_at = kept.transactions;
        }
        let renew = if is_due { "DISCARD PLANS; " } else { "" };
        format!("{begin}; SET LOCAL plan_cache_mode = 'force_generic_plan'; {renew}EXECUTE {}", self.mark)
    }

    pub fn of(&self, text: &Arc<str>) -> Plan {
        let mut kept = self.kept.lock();
        if !kept.is_open {
            return Plan::Text;
        }
        match kept.texts.get(text) {
            Some(Some(made)) => Plan::Made(made.clone()),
            Some(None) => Plan::Make,
            None => {
                if kept.texts.len() < TEXTS_MAX {
                    kept.texts.insert(text.clone(), None);
                }
                Plan::Text
            }
        }
    }

    pub fn keep(&self, text: Arc<str>, made: Statement) {
        self.kept.lock().texts.insert(text, Some(made));
    }

    /// Looks at how a flight went. An error that comes of names is told as one: whoever meets it begins again.
    pub fn landed<T>(&self, ends: bool, results: &mut [Result<T, Error>]) {
        let mut kept = self.kept.lock();
        let was_open = kept.is_open;
        kept.is_open &= !ends && results.iter().all(Result::is_ok);
        drop(kept);
        let first = results.iter_mut().find_map(|result| result.as_mut().err());
        if let Some(Error::Server { code, text }) = first.filter(|_| was_open)
            && STRANGE.contains(&code.as_str())
        {
            self.names.give_up(text);
            *code = LOST_MARK.to_owned();
        }
    }
}

/// Whether a transaction ends with this.
pub fn is_end(call: &Call) -> bool {
    matches!(call, Call::Text(text) if ["COMMIT", "ROLLBACK", COMMIT_BATCH].contains(&text.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: &str) -> Error {
        Error::Server { code: code.into(), text: "no such name".into() }
    }

    #[test]
    fn a_text_is_prepared_when_it_is_met_again_and_only_in_a_transaction_that_has_looked() {
        let plans = Plans::new(Names::default());
        let text: Arc<str> = "SELECT 1".into();
        assert!(matches!(plans.of(&text), Plan::Text) && matches!(plans.of(&text), Plan::Text), "nobody has looked");
        let begun = plans.begun("BEGIN".into());
        assert!(begun.starts_with("BEGIN; SET LOCAL") && begun.contains("; EXECUTE semel_"), "{begun}");
        assert!(matches!(plans.of(&text), Plan::Text), "once");
        assert!(matches!(plans.of(&text), Plan::Make), "twice");
        plans.landed::<()>(true, &mut []);
        assert!(matches!(plans.of(&text), Plan::Text), "the transaction is over");
    }

    #[test]
    fn texts_have_a_bound() {
        let plans = Plans::new(Names::default());
        plans.begun("BEGIN".into());
        (0..=TEXTS_MAX).for_each(|number| _ = plans.of(&format!("{number}").into()));
        assert!(matches!(plans.of(&"0".into()), Plan::Make));
        assert!(matches!(plans.of(&format!("{TEXTS_MAX}").into()), Plan::Text));
    }

    #[test]
    fn plans_are_made_anew_after_twice_as_many_transactions_each_time() {
        let plans = Plans::new(Names::default());
        let renewed = (1..=20_000_u32).filter(|_| plans.begun("BEGIN".into()).contains("; DISCARD PLANS; "));
        let renewed: Vec<u32> = renewed.collect();
        assert_eq!(renewed[..11], [8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192]);
        assert_eq!(renewed[11..], [12_288, 16_384]);
    }

    #[test]
    fn names_that_mean_nothing_are_given_up_for_all_sessions() {
        for code in STRANGE {
            let names = Names::default();
            let (plans, other) = (Plans::new(names.clone()), Plans::new(names));
            plans.begun("BEGIN".into());
            let mut results = [Ok(()), Err(server(code)), Err(server("25P02"))];
            plans.landed(false, &mut results);
            assert!(matches!(&results[1], Err(error) if error.has_code(LOST_MARK) && error.is_race()), "{code}");
            assert_eq!(other.begun("BEGIN".into()), "BEGIN");
            assert_eq!(other.marking(), None);
        }
    }

    #[test]
    fn other_errors_are_what_they_are() {
        let plans = Plans::new(Names::default());
        plans.begun("BEGIN".into());
        let mut results = [Err::<(), _>(server("23505"))];
        plans.landed(false, &mut results);
        assert!(matches!(&results[0], Err(error) if error.has_code("23505")));
        assert!(plans.begun("BEGIN".into()).contains("EXECUTE"));
        // One that is met where no name is used is none of ours.
        plans.landed::<()>(true, &mut []);
        let mut results = [Err::<(), _>(server("0A000"))];
        plans.landed(false, &mut results);
        assert!(matches!(&results[0], Err(error) if error.has_code("0A000")));
    }
}
