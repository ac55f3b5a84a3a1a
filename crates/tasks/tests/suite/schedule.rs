//! Cron fires across the days on which clocks jump.

use semel_tasks::schedule::next_after;

fn ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("a timestamp").as_millisecond()
}

/// The fires of a cron from one instant to another.
fn fires(cron: &str, zone: &str, from: &str, until: &str) -> Vec<String> {
    let (mut at, end, mut found) = (ms(from), ms(until), Vec::new());
    while let Some(next) = next_after(cron, zone, false, at).expect("a valid cron").filter(|next| *next <= end) {
        assert!(next > at, "time went back");
        found.push(jiff::Timestamp::from_millisecond(next).expect("in range").to_string());
        at = next;
    }
    found
}

#[test]
fn spring_forward_fires_a_skipped_time_once() {
    // New York skips 02:00 to 03:00 on 8 March 2026.
    let found = fires("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z");
    assert_eq!(found, ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
}

#[test]
fn fall_back_fires_a_repeated_time_once() {
    // New York repeats 01:00 to 02:00 on 1 November 2026, Berlin 02:00 to 03:00 on 25 October.
    let found = fires("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z");
    assert_eq!(found, ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
    let found = fires("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
    assert_eq!(found, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
}

#[test]
fn a_restart_inside_the_repeated_hour_does_not_fire_again() {
    let next = |after: &str| next_after("30 1 * * *", "America/New_York", false, ms(after)).expect("a valid cron");
    assert_eq!(next("2026-11-01T05:30:00Z"), Some(ms("2026-11-02T06:30:00Z")));
    assert_eq!(next("2026-11-01T06:10:00Z"), Some(ms("2026-11-02T06:30:00Z")));
}

#[test]
fn intervals_run_through_both_jumps() {
    let found = fires("*/30 * * * *", "America/New_York", "2026-11-01T04:59:00Z", "2026-11-01T07:30:00Z");
    assert_eq!(found.len(), 6, "{found:?}");
    let found = fires("0 * * * *", "America/New_York", "2026-03-08T05:30:00Z", "2026-03-08T08:30:00Z");
    assert_eq!(found, ["2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"]);
}

#[test]
fn the_next_fire_is_strictly_later_to_the_millisecond() {
    let next = |after: i64| next_after("0 12 * * *", "UTC", false, after).expect("a valid cron");
    let noon = ms("2026-11-15T12:00:00Z");
    assert_eq!(next(noon - 1), Some(noon));
    assert_eq!(next(noon), Some(noon + 86_400_000));
    assert_eq!(next(noon + 1), Some(noon + 86_400_000));
    assert_eq!(next(-1), Some(43_200_000));
}

#[test]
fn seconds_are_there_only_when_asked_for() {
    let at = ms("2026-11-15T12:00:00Z");
    assert_eq!(next_after("*/10 * * * * *", "UTC", true, at), Ok(Some(at + 10_000)));
    assert!(next_after("*/10 * * * * *", "UTC", false, at).is_err());
    assert!(next_after("* * * * *", "UTC", true, at).is_err());
    assert_eq!(next_after("@daily", "UTC", false, at), Ok(Some(ms("2026-11-16T00:00:00Z"))));
    assert_eq!(next_after("@hourly", "UTC", true, at), Ok(Some(ms("2026-11-15T13:00:00Z"))));
}

#[test]
fn nicknames_of_days_and_odd_offsets() {
    assert_eq!(
        fires("0 9 * * MON-FRI", "Europe/London", "2026-11-13T12:00:00Z", "2026-11-16T12:00:00Z"),
        ["2026-11-16T09:00:00Z"]
    );
    assert_eq!(
        fires("0 0 * * *", "Asia/Kathmandu", "2026-11-15T00:00:00Z", "2026-11-15T23:00:00Z"),
        ["2026-11-15T18:15:00Z"]
    );
    assert_eq!(fires("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2029-01-01T00:00:00Z"), ["2028-02-29T00:00:00Z"]);
}

#[test]
fn what_never_fires_says_so_and_nonsense_is_refused() {
    assert_eq!(next_after("0 0 31 2 *", "UTC", false, 0), Ok(None));
    for (cron, zone) in [
        ("", "UTC"),
        ("61 * * * *", "UTC"),
        ("* * * *", "UTC"),
        ("a b c d e", "UTC"),
        ("* * * * *", "Mars/Olympus"),
        ("* * * * *", ""),
    ] {
        assert!(next_after(cron, zone, false, 0).is_err(), "{cron} {zone}");
    }
    assert!(next_after("* * * * *", "UTC", false, i64::MAX).is_err());
    assert!(next_after("* * * * *", "UTC", false, i64::MIN).is_err());
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(cron in "[0-9*/,#LW?@a-zA-Z -]{0,24}", zone in "[A-Za-z/_]{0,16}", seconds: bool, after: i64) {
        let _ = next_after(&cron, &zone, seconds, after);
        let _ = next_after(&cron, "UTC", seconds, after % 4_000_000_000_000);
    }
}
