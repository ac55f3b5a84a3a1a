//! Small texts with a meaning: cron, durations, times, ids, keys.

use crate::fuzz::{Target, behaviour};
use semel_core::admission::check_key;
use semel_core::{Hash16, Millis, RunId, WorkspaceId, duration};

pub const CRON: Target = Target {
    name: "cron",
    words: &[
        "@daily",
        "@hourly",
        "*/5",
        "0-10",
        "1,2",
        "L",
        "W",
        "#",
        "?",
        "MON-FRI",
        "JAN",
        "Europe/Berlin",
        "UTC",
        "America/New_York",
        "Asia/Kathmandu",
    ],
    run: cron,
};
pub const LITERALS: Target = Target {
    name: "literals",
    words: &[
        "PT1S",
        "P1D",
        "P1DT2H",
        "PT0.5S",
        "PT1,5S",
        "2026-01-01T00:00:00Z",
        "+05:45",
        "P1W",
        "P1M",
        "PT1H1M1S",
        "[UTC]",
    ],
    run: literals,
};

/// The expression, the zone, the instant; one per line.
fn cron(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let (expression, zone) = (lines.next().unwrap_or(""), lines.next().unwrap_or("UTC"));
    let after = lines.next().and_then(|line| line.trim().parse::<i64>().ok()).unwrap_or(1_767_225_600_000);
    let mut seen = 0;
    for with_seconds in [false, true] {
        let Ok(parsed) = semel_flow::parse_cron(expression, with_seconds) else {
            seen = behaviour((seen, "refused"));
            continue;
        };
        drop(parsed);
        // What a flow may say is what the clock can follow.
        match semel_tasks::schedule::next_after(expression, zone, with_seconds, after) {
            Ok(Some(next)) => {
                assert!(next > after, "{next} is not after {after}");
                let before = semel_tasks::schedule::next_after(expression, zone, with_seconds, next - 1_000);
                assert_eq!(before, Ok(Some(next)), "the fire before {next} is found from a second earlier");
                if let Ok(Some(later)) = semel_tasks::schedule::next_after(expression, zone, with_seconds, next) {
                    assert!(later > next, "time stands still at {next}");
                }
                seen = behaviour((seen, (next - after).checked_ilog2()));
            }
            Ok(None) => seen = behaviour((seen, "never")),
            Err(message) => {
                assert!(!message.is_empty());
                seen = behaviour((seen, message.split('`').count()));
            }
        }
    }
    seen
}

fn literals(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let span = duration::parse_ms(&text);
    if let Ok(ms) = span {
        assert!((0..=duration::MAX_MS).contains(&ms), "{ms} ms is out of bounds");
        assert_eq!(duration::parse_ms(&duration::print_ms(ms)), Ok(ms), "{} for {ms}", duration::print_ms(ms));
    }
    let instant = Millis::parse_rfc3339(&text);
    if let Some(at) = instant {
        assert_eq!(Millis::parse_rfc3339(&at.to_rfc3339()), Some(at), "{} for {at:?}", at.to_rfc3339());
    }
    let run = text.parse::<RunId>().ok();
    if let Some(id) = run {
        assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
    }
    let hash = Hash16::from_hex(&text);
    if let Some(hash) = hash {
        assert_eq!(Hash16::from_hex(&hash.hex()), Some(hash));
    }
    let workspace = WorkspaceId::parse(&text);
    if let Some(id) = &workspace {
        assert_eq!(id.0, text, "a workspace is named as it was written");
    }
    let key = check_key(&text).map_err(|error| error.code());
    behaviour((span.is_ok(), instant.is_some(), run.is_some(), hash.is_some(), workspace.is_some(), key))
}
