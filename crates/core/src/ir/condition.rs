//! Conditions: what must hold for a trigger to fire. How they are judged is the engine's business.

use super::Template;
use crate::Millis;
use crate::date;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Kestra's words for the state of a run, as conditions compare them.
pub const STATES: &[&str] = &[
    "CREATED",
    "SUBMITTED",
    "RUNNING",
    "PAUSED",
    "RESTARTED",
    "KILLING",
    "SUCCESS",
    "WARNING",
    "FAILED",
    "KILLED",
    "CANCELLED",
    "QUEUED",
    "RETRYING",
    "RETRIED",
    "SKIPPED",
    "BREAKPOINT",
];
/// The states that a flow trigger hears of unless it says otherwise: those in which nothing happens any more, and the
/// one in which somebody must do something.
pub const HEARD_STATES: &[&str] =
    &["SUCCESS", "WARNING", "FAILED", "KILLED", "CANCELLED", "RETRIED", "SKIPPED", "PAUSED"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "condition", rename_all = "snake_case")]
pub enum Condition {
    /// Strictly between two dates; one of them may be absent.
    DateTimeBetween {
        date: Template,
        after: Option<Template>,
        before: Option<Template>,
    },
    /// Strictly between two times of the day, each with its offset.
    TimeBetween {
        date: Template,
        after: Option<Template>,
        before: Option<Template>,
    },
    DayWeek {
        date: Template,
        day: DayOfWeek,
    },
    DayWeekInMonth {
        date: Template,
        day: DayOfWeek,
        place: DayInMonth,
    },
    Weekend {
        date: Template,
    },
    /// In the whole of the country.
    PublicHoliday {
        date: Template,
        country: Template,
    },
    /// True unless it renders to `false` or to blanks.
    Expression {
        expression: Template,
    },
    /// True unless it renders to `false`, `0`, `-0` or nothing: the rule of `runIf`.
    When {
        expression: Template,
    },
    /// The upstream run is one of this flow.
    ExecutionFlow {
        namespace: String,
        flow_id: String,
    },
    ExecutionNamespace {
        namespace: String,
        comparison: Comparison,
    },
    ExecutionStatus {
        among: Option<Vec<String>>,
        not_among: Option<Vec<String>>,
    },
    /// The upstream run has all of these.
    ExecutionLabels {
        labels: IndexMap<String, String>,
    },
    /// As `Expression`; false for an upstream run without outputs.
    ExecutionOutputs {
        expression: Template,
    },
    /// Of a task of the upstream run that took more than one attempt, one ended so.
    HasRetryAttempt {
        among: Option<Vec<String>>,
        not_among: Option<Vec<String>>,
    },
    /// The flow that the trigger belongs to.
    OwnFlow {
        namespace: String,
        flow_id: String,
    },
    OwnNamespace {
        namespace: String,
        prefix: bool,
    },
    /// None of them holds.
    Not {
        conditions: Vec<Condition>,
    },
    /// One of them holds.
    Or {
        conditions: Vec<Condition>,
    },
    /// One entry of `preconditions.flows`.
    Upstream {
        namespace: Option<String>,
        flow_id: Option<String>,
        states: Option<Vec<String>>,
        labels: IndexMap<String, String>,
    },
    /// One entry of `preconditions.where`.
    Filter {
        any: bool,
        filters: Vec<Filter>,
    },
    /// Several upstream runs within a window of time.
    Multiple(Preconditions),
}

impl Condition {
    /// It looks at an upstream run.
    pub fn needs_upstream(&self) -> bool {
        match self {
            Condition::ExecutionFlow { .. }
            | Condition::ExecutionNamespace { .. }
            | Condition::ExecutionStatus { .. }
            | Condition::ExecutionLabels { .. }
            | Condition::ExecutionOutputs { .. }
            | Condition::HasRetryAttempt { .. }
            | Condition::Upstream { .. }
            | Condition::Filter { .. }
            | Condition::Multiple(_) => true,
            Condition::Not { conditions } | Condition::Or { conditions } => {
                conditions.iter().any(Condition::needs_upstream)
            }
            Condition::DateTimeBetween { .. }
            | Condition::TimeBetween { .. }
            | Condition::DayWeek { .. }
            | Condition::DayWeekInMonth { .. }
            | Condition::Weekend { .. }
            | Condition::PublicHoliday { .. }
            | Condition::Expression { .. }
            | Condition::When { .. }
            | Condition::OwnFlow { .. }
            | Condition::OwnNamespace { .. } => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DayOfWeek {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DayInMonth {
    First,
    Second,
    Third,
    Fourth,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Comparison {
    Equals,
    Prefix,
    Suffix,
}

/// One filter of a precondition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    pub field: FilterField,
    #[serde(rename = "type")]
    pub test: FilterTest,
    #[serde(default)]
    pub value: Option<Template>,
    #[serde(default)]
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FilterField {
    FlowId,
    Namespace,
    State,
    Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FilterTest {
    EqualTo,
    NotEqualTo,
    In,
    NotIn,
    IsTrue,
    IsFalse,
    IsNull,
    IsNotNull,
    StartsWith,
    EndsWith,
    Regex,
    Contains,
}

/// Conditions that different runs may meet, each for itself, while a window is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preconditions {
    pub id: String,
    pub window: TimeWindow,
    /// Once all are met, all must be met anew.
    pub reset_on_success: bool,
    pub conditions: IndexMap<String, Condition>,
    /// So many of them are enough; without it, it takes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u32>,
    /// Where the times of the window are those of the clock; without it, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

impl Preconditions {
    /// As [`TimeWindow::around`], in the zone of the window.
    pub fn around(&self, now: Millis) -> (Millis, Millis) {
        match (&self.timezone, self.window) {
            (Some(zone), window) if !matches!(window, TimeWindow::SlidingWindow { .. }) => {
                let (start, end) = window.around(date::clock_time(now, zone));
                (date::at_clock_time(start, zone), date::at_clock_time(end, zone))
            }
            (_, window) => window.around(now),
        }
    }

    /// Whether enough of them have been met.
    pub fn is_enough(&self, is_met: impl Fn(&str) -> bool) -> bool {
        let met = self.conditions.keys().filter(|name| is_met(name)).count();
        met >= self.at_least.map_or(self.conditions.len(), |least| least as usize)
    }
}

/// How long a condition that was met counts as met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TimeWindow {
    /// Windows that follow each other, from midnight on, shifted by `advance_ms`.
    DurationWindow {
        window_ms: i64,
        advance_ms: i64,
    },
    /// From the first condition that is met.
    SlidingWindow {
        window_ms: i64,
    },
    /// From midnight to a time of the day, in milliseconds.
    DailyTimeDeadline {
        deadline_ms: i64,
    },
    DailyTimeWindow {
        start_ms: i64,
        end_ms: i64,
    },
}

const DAY_MS: i64 = 86_400_000;

impl TimeWindow {
    /// The window that is open now, or opens next today, with its last millisecond.
    pub fn around(self, now: Millis) -> (Millis, Millis) {
        let midnight = now.0.div_euclid(DAY_MS) * DAY_MS;
        let (start, end) = match self {
            TimeWindow::DurationWindow { window_ms, advance_ms } => {
                // The first window of the day begins at midnight, or as long after it as the author says.
                let today = midnight + advance_ms.rem_euclid(DAY_MS);
                let first = if today > now.0 { today - DAY_MS } else { today };
                let start = first + (now.0 - first) / window_ms * window_ms;
                (start, start + window_ms - 1)
            }
            TimeWindow::SlidingWindow { window_ms } => (now.0, now.0 + window_ms),
            TimeWindow::DailyTimeDeadline { deadline_ms } => (midnight, midnight + deadline_ms),
            TimeWindow::DailyTimeWindow { start_ms, end_ms } => (midnight + start_ms, midnight + end_ms),
        };
        (Millis(start), Millis(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(window: TimeWindow, now: &str) -> (String, String) {
        let (start, end) = window.around(Millis::parse_rfc3339(now).expect("an instant"));
        let time = |at: Millis| at.to_rfc3339()[..19].to_owned();
        (time(start), time(end))
    }

    #[test]
    fn windows_follow_each_other_from_midnight() {
        let hours = |window: i64, advance: i64| TimeWindow::DurationWindow {
            window_ms: window * 3_600_000,
            advance_ms: advance * 3_600_000,
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let now = "2026-01-02T13:30:00Z";
        assert_eq!(around(hours(24, 0), now), pair("2026-01-02T00:00:00", "2026-01-02T23:59:59"));
        assert_eq!(around(hours(6, 0), now), pair("2026-01-02T12:00:00", "2026-01-02T17:59:59"));
        assert_eq!(around(hours(6, 3), now), pair("2026-01-02T09:00:00", "2026-01-02T14:59:59"));
        assert_eq!(around(hours(24, 14), now), pair("2026-01-01T14:00:00", "2026-01-02T13:59:59"));
        assert_eq!(around(hours(7, 0), now), pair("2026-01-02T07:00:00", "2026-01-02T13:59:59"));
        assert_eq!(around(hours(48, 0), now), pair("2026-01-02T00:00:00", "2026-01-03T23:59:59"));
        let day = TimeWindow::DailyTimeDeadline { deadline_ms: 9 * 3_600_000 };
        assert_eq!(around(day, now), pair("2026-01-02T00:00:00", "2026-01-02T09:00:00"));
        let part = TimeWindow::DailyTimeWindow { start_ms: 3_600_000, end_ms: 7_200_000 };
        assert_eq!(around(part, now), pair("2026-01-02T01:00:00", "2026-01-02T02:00:00"));
        let slide = TimeWindow::SlidingWindow { window_ms: 3_600_000 };
        assert_eq!(around(slide, now), pair("2026-01-02T13:30:00", "2026-01-02T14:30:00"));
    }

    #[test]
    fn the_times_of_a_window_are_those_of_its_zone() {
        let of = |window: TimeWindow, zone: Option<&str>| Preconditions {
            id: "p".into(),
            window,
            reset_on_success: true,
            conditions: IndexMap::new(),
            at_least: None,
            timezone: zone.map(str::to_owned),
        };
        let around = |window: TimeWindow, zone: Option<&str>, now: &str| {
            let (start, end) = of(window, zone).around(Millis::parse_rfc3339(now).expect("an instant"));
            [start, end].map(|at| at.to_rfc3339()[..19].to_owned())
        };
        let hour = 3_600_000;
        let part = TimeWindow::DailyTimeWindow { start_ms: 9 * hour, end_ms: 17 * hour };
        let (winter, summer) = ("2026-01-02T23:30:00Z", "2026-07-02T23:30:00Z");
        assert_eq!(around(part, None, winter), ["2026-01-02T09:00:00", "2026-01-02T17:00:00"]);
        // There it is the next day already.
        let berlin = Some("Europe/Berlin");
        assert_eq!(around(part, berlin, winter), ["2026-01-03T08:00:00", "2026-01-03T16:00:00"]);
        assert_eq!(around(part, berlin, summer), ["2026-07-03T07:00:00", "2026-07-03T15:00:00"]);
        let day = TimeWindow::DurationWindow { window_ms: 24 * hour, advance_ms: 0 };
        assert_eq!(around(day, berlin, "2026-03-29T12:00:00Z"), ["2026-03-28T23:00:00", "2026-03-29T21:59:59"]);
        let slide = TimeWindow::SlidingWindow { window_ms: hour };
        assert_eq!(around(slide, berlin, winter), ["2026-01-02T23:30:00", "2026-01-03T00:30:00"]);
    }
}
