//! The count at the end, and whether it holds.

use crate::output::Paint;
use serde_json::{Value as Json, json};

/// Taken from three sides: the provider's answers, the server's API, the bank's books.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    // the provider
    pub deliveries: u32,
    pub answered: u32,
    pub replays: u32,
    pub run_ids_named: u32,
    pub sends: u32,
    pub answered_before_kill: u32,
    pub resent: u32,
    // the server
    pub run_id: String,
    pub run_status: String,
    pub runs: u32,
    pub decisions: u32,
    pub starts: u32,
    // the bank
    pub bank_calls: u32,
    pub bank_charges: u32,
    pub bank_keys: Vec<String>,
    pub recovered_ms: i64,
}

impl Tally {
    /// What does not hold, in words; empty if all does.
    pub fn faults(&self) -> Vec<String> {
        let rules = [
            (self.answered == self.deliveries, "not every delivery was answered"),
            (self.run_ids_named == 1, "the answers named more than one run"),
            (self.replays == self.deliveries - 1, "not exactly one delivery was told that it started the run"),
            (self.runs == 1, "the server has not exactly one run"),
            (self.run_status == "completed", "the run did not complete"),
            (self.starts == 1, "the decision log has not exactly one start"),
            // A row of a replay rides the next commit, so a kill may lose the last ones from before it, and no
            // others; and an arrival whose answer was cut off has a row and is sent again.
            (self.decisions >= self.decisions_min(), "decisions are missing from the log"),
            (self.decisions <= self.sends, "the log has more decisions than arrivals"),
            (self.bank_charges == 1, "the bank has not charged exactly once"),
            (self.bank_keys.len() == 1, "the bank saw more than one Idempotency-Key"),
        ];
        rules.iter().filter(|(holds, _)| !holds).map(|(_, fault)| (*fault).to_owned()).collect()
    }

    /// The start and every arrival that was answered after the kill are in the log for certain.
    pub fn decisions_min(&self) -> u32 {
        (self.answered - self.answered_before_kill + 1).min(self.deliveries)
    }

    pub fn json(&self) -> Json {
        json!({
            "deliveries": self.deliveries,
            "answered": self.answered,
            "answered_before_kill": self.answered_before_kill,
            "sends": self.sends,
            "resent": self.resent,
            "replays": self.replays,
            "runs": self.runs,
            "run_id": self.run_id,
            "run_status": self.run_status,
            "decisions": self.decisions,
            "starts": self.starts,
            "charges": self.bank_charges,
            "bank_calls": self.bank_calls,
            "idempotency_keys": self.bank_keys,
            "recovered_ms": self.recovered_ms,
            "holds": self.faults().is_empty(),
            "faults": self.faults(),
        })
    }

    pub fn text(&self, paint: Paint) -> String {
        let key = self.bank_keys.first().map(|key| shortened(key)).unwrap_or_default();
        let calls = match self.bank_calls {
            0 | 1 => format!("with Idempotency-Key {key}"),
            _ => format!("all with Idempotency-Key {key}: the bank knew it and did not charge again"),
        };
        let answered = match self.resent {
            0 => "all answered, and all before the crash".to_owned(),
            resent => format!("all answered, {resent} of them only when they came again after the crash"),
        };
        let rows = [
            ("deliveries", self.deliveries, answered),
            ("run", self.runs, format!("{} {}", self.run_id, self.run_status)),
            ("charge", self.bank_charges, "42.00 EUR, in the bank's books once".to_owned()),
            (
                if self.replays == 1 { "replay" } else { "replays" },
                self.replays,
                "were told the same run id, and that it was not new".to_owned(),
            ),
            ("bank calls", self.bank_calls, calls),
        ];
        let line = |(name, count, words): &(&str, u32, String)| {
            format!("  {} {}  {}", paint.bold(&format!("{count:>4}")), format_args!("{name:<10}"), paint.dim(words))
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Enough of a key to recognise it.
pub fn shortened(key: &str) -> String {
    let chars: Vec<char> = key.chars().collect();
    if chars.len() <= 16 {
        return key.to_owned();
    }
    let (head, tail) = (&chars[..8], &chars[chars.len() - 4..]);
    format!("{}…{}", head.iter().collect::<String>(), tail.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Tally {
        Tally {
            deliveries: 50,
            answered: 50,
            replays: 49,
            run_ids_named: 1,
            sends: 90,
            answered_before_kill: 12,
            resent: 38,
            run_id: "r".into(),
            run_status: "completed".into(),
            runs: 1,
            decisions: 50,
            starts: 1,
            bank_calls: 2,
            bank_charges: 1,
            bank_keys: vec!["k".into()],
            recovered_ms: 1,
        }
    }

    #[test]
    fn a_good_tally_holds_also_when_the_kill_took_rows_of_replays() {
        assert_eq!(good().faults(), Vec::<String>::new());
        assert_eq!(Tally { decisions: 39, ..good() }.faults(), Vec::<String>::new());
    }

    #[test]
    fn every_fault_is_found() {
        let bad = [
            Tally { answered: 49, ..good() },
            Tally { run_ids_named: 2, ..good() },
            Tally { replays: 48, ..good() },
            Tally { runs: 2, ..good() },
            Tally { run_status: "held".into(), ..good() },
            Tally { starts: 2, ..good() },
            Tally { decisions: 38, ..good() },
            Tally { decisions: 91, ..good() },
            Tally { bank_charges: 2, ..good() },
            Tally { bank_keys: vec!["a".into(), "b".into()], ..good() },
        ];
        for tally in bad {
            assert_eq!(tally.faults().len(), 1, "{tally:?}");
        }
    }

    #[test]
    fn keys_are_shortened_for_reading() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened("0123456789abcdef0123456789abcdef"), "01234567…cdef");
    }
}
