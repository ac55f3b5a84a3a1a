//! Conditions that several upstream runs meet together.

use super::Context;
use super::fields::{Fields, Names};
use super::ids::TASK_ID;
use super::values::short;
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use indexmap::IndexMap;
use semel_core::ir::{Condition, Preconditions, TimeWindow};

/// Fields of the condition MultipleCondition.
pub(super) const MULTIPLE: &[&str] = &["conditions", "timeWindow", "sla", "resetOnSuccess", "window", "windowAdvance"];
const WINDOW: Names = Names {
    what: "`timeWindow`",
    allowed: &[&["type", "window", "windowAdvance", "deadline", "startTime", "endTime"]],
    not_built: &[],
};
const WINDOWS: &[&str] = &["DURATION_WINDOW", "SLIDING_WINDOW", "DAILY_TIME_DEADLINE", "DAILY_TIME_WINDOW"];
const DAY_MS: i64 = 86_400_000;

impl<'a> Context<'a> {
    /// The older form: a map of conditions by name.
    pub fn multiple(&mut self, fields: &Fields<'a>, depth: usize) -> Option<Condition> {
        let id = self.required(fields, "MultipleCondition", "id").and_then(|node| self.id(node, TASK_ID));
        let inner = self.required(fields, "MultipleCondition", "conditions")?;
        let map = self.map(inner, "`conditions`")?;
        let mut conditions = IndexMap::new();
        for entry in map.entries() {
            let Some(condition) = self.condition(&entry.value, depth + 1) else { continue };
            if matches!(condition, Condition::Multiple(_)) {
                let message = "MultipleCondition stands by itself, not inside another";
                self.error(codes::CONFLICT, &entry.key_at, message);
            }
            conditions.insert(entry.key.clone(), condition);
        }
        let window = match fields.get("timeWindow").or(fields.get("sla")) {
            Some(node) => self.time_window(node)?,
            None => {
                let window_ms = fields.get("window").map(|node| self.positive_duration(node, "window"));
                let advance_ms = fields.get("windowAdvance").map(|node| self.duration(node, "windowAdvance"));
                TimeWindow::DurationWindow {
                    window_ms: window_ms.unwrap_or(Some(DAY_MS))?,
                    advance_ms: advance_ms.unwrap_or(Some(0))?,
                }
            }
        };
        let reset_on_success = self.flag(fields, "resetOnSuccess", true);
        Some(Condition::Multiple(Preconditions { id: id?, window, reset_on_success, conditions }))
    }

    fn time_window(&mut self, node: &'a Node) -> Option<TimeWindow> {
        let fields = self.fields(node, WINDOW)?;
        let kind = match fields.get("type") {
            Some(node) => self.word(node, "type", WINDOWS)?,
            None => "DURATION_WINDOW",
        };
        let window_ms = fields.get("window").map(|node| self.positive_duration(node, "window"));
        let window_ms = window_ms.unwrap_or(Some(DAY_MS))?;
        Some(match kind {
            "SLIDING_WINDOW" => TimeWindow::SlidingWindow { window_ms },
            "DAILY_TIME_DEADLINE" => {
                TimeWindow::DailyTimeDeadline { deadline_ms: self.time_of_day(&fields, "deadline")? }
            }
            "DAILY_TIME_WINDOW" => {
                let (start, end) = (self.time_of_day(&fields, "startTime"), self.time_of_day(&fields, "endTime"));
                let (start_ms, end_ms) = (start?, end?);
                if end_ms <= start_ms {
                    let message = "`endTime` is not after `startTime`, so this window never opens";
                    self.error(codes::BAD_VALUE, &fields.key_at("endTime"), message);
                }
                TimeWindow::DailyTimeWindow { start_ms, end_ms }
            }
            _ => {
                let advance_ms = fields.get("windowAdvance").map(|node| self.duration(node, "windowAdvance"));
                TimeWindow::DurationWindow { window_ms, advance_ms: advance_ms.unwrap_or(Some(0))? }
            }
        })
    }

    /// Milliseconds since midnight.
    fn time_of_day(&mut self, fields: &Fields<'a>, name: &str) -> Option<i64> {
        let node = self.required(fields, "`timeWindow`", name)?;
        let text = self.literal(node, name)?;
        let read = text.parse::<jiff::civil::Time>().ok();
        if read.is_none() {
            let message = format!("`{}` is not a time of the day", short(text));
            self.report(Finding::error(codes::BAD_VALUE, node.at.clone(), message).expected("such as 09:00:00"));
        }
        let since = read?.duration_since(jiff::civil::Time::midnight());
        i64::try_from(since.as_millis()).ok()
    }
}
