//! What is read from the store: a damaged row is an error, never a panic and never another run's history.

use crate::fuzz::{Target, behaviour};
use semel_core::run::{DecodeError, Event, RunState, decode_events, encode_events};
use semel_expr::Value;

pub const JOURNAL: Target =
    Target { name: "journal", words: &["\"event\":", "\"created\"", "\"step\":", "[[", "null", "{}"], run: journal };
pub const SNAPSHOT: Target =
    Target { name: "snapshot", words: &["\"steps\":", "\"phase\":", "{}", "[]"], run: snapshot };
pub const VALUES: Target = Target {
    name: "stored_value",
    words: &["{\"$semel\":", "\"text\":", "\"secret\":", "\"sealed\":", "\"template\":", "\"object\":", "\"fields\":"],
    run: values,
};

fn same(a: &[Event], b: &[Event]) -> bool {
    encode_events(a) == encode_events(b)
}

/// Structure, and values if there are any.
fn journal(input: &[u8]) -> u64 {
    let cut = input.windows(5).position(|window| window == b"\n===\n");
    let (structure, values) = match cut {
        Some(at) => (&input[..at], Some(&input[at + 5..])),
        None => (input, None),
    };
    match decode_events(structure, values) {
        Ok(events) => {
            let (printed, kept) = encode_events(&events);
            let again = decode_events(&printed, kept.as_deref()).unwrap_or_else(|error| panic!("{error}: own print"));
            assert!(same(&again, &events), "printed and read back");
            let kinds: Vec<_> = events.iter().map(std::mem::discriminant).take(4).collect();
            behaviour((kinds, values.is_some()))
        }
        Err(DecodeError::Digest) => 1,
        Err(DecodeError::Malformed(why)) => behaviour(why.split(" at line").next().map(str::len)),
    }
}

fn snapshot(input: &[u8]) -> u64 {
    match serde_json::from_slice::<RunState>(input) {
        Ok(state) => {
            let printed = serde_json::to_vec(&state).expect("a state prints");
            let again: RunState = serde_json::from_slice(&printed).unwrap_or_else(|error| panic!("{error}: own print"));
            assert_eq!(serde_json::to_vec(&again).expect("a state prints"), printed, "printed and read back");
            // Whatever it says, asking it must not fail.
            let asked = (
                state.status(),
                state.is_active(),
                state.open_doubts(),
                state.open_intents(),
                state.next_due().is_some(),
            );
            behaviour(format!("{asked:?}"))
        }
        Err(error) => behaviour(error.to_string().split(" at line").next().map(str::len)),
    }
}

/// A stored value: reading and writing it again changes nothing, and showing it reveals no hole.
fn values(input: &[u8]) -> u64 {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(input) else { return 0 };
    let value = Value::from_stored(&json);
    let stored = value.to_stored();
    assert_eq!(Value::from_stored(&stored).to_stored(), stored, "stored and read back");
    let shown = semel_engine::public_json(&json);
    // A caller's own data comes back as it is, whatever it looks like.
    let plain = Value::from_json(&json);
    assert_eq!(Value::from_stored(&plain.to_stored()).to_masked_json(), json, "a caller's value is changed");
    behaviour((value.is_tainted(), std::mem::discriminant(&shown), stored.to_string().len().checked_ilog2()))
}
