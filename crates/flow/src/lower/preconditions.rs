//! Conditions that several upstream runs meet together: `preconditions:` and the older MultipleCondition.

use super::Context;
use super::fields::{Fields, Names};
use super::ids::TASK_ID;
use super::values::short;
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use indexmap::IndexMap;
use semel_core::ir::{Condition, Filter, FilterField, FilterTest, Preconditions, TimeWindow};

/// Fields of the condition MultipleCondition.
pub(super) const MULTIPLE: &[&str] = &["conditions", "timeWindow", "sla", "resetOnSuccess", "window", "windowAdvance"];
const PRECONDITIONS: Names = Names {
    what: "`preconditions`",
    allowed: &[&["id", "flows", "where", "timeWindow", "resetOnSuccess"]],
    not_built: &[],
};
const FLOW: Names = Names { what: "a flow", allowed: &[&["namespace", "flowId", "states", "labels"]], not_built: &[] };
/// One entry of `dependsOn`, the newer form of `flows`.
const DEPENDENCY: Names =
    Names { what: "`dependsOn`", allowed: &[&["namespace", "flowId", "states", "labels", "when"]], not_built: &[] };
/// The newer form of `timeWindow`: which fields it has says what it is.
const OPEN: Names = Names {
    what: "`window`",
    allowed: &[&["deadline", "from", "to", "every", "offset", "lookback", "timezone", "fireOnce"]],
    not_built: &[],
};
/// Fields of trigger.Flow that belong to `dependsOn`.
pub(crate) const DEPENDS: &[&str] = &["dependsOn", "window", "mode", "minSatisfied"];
const WHERE: Names = Names { what: "`where`", allowed: &[&["id", "operand", "filters"]], not_built: &[] };
const FILTER: Names = Names { what: "a filter", allowed: &[&["field", "type", "value", "values"]], not_built: &[] };
const WINDOW: Names = Names {
    what: "`timeWindow`",
    allowed: &[&["type", "window", "windowAdvance", "deadline", "startTime", "endTime"]],
    not_built: &[],
};
const FIELDS: &[&str] = &["FLOW_ID", "NAMESPACE", "STATE", "EXPRESSION"];
const TESTS: &[&str] = &[
    "EQUAL_TO",
    "NOT_EQUAL_TO",
    "IN",
    "NOT_IN",
    "IS_TRUE",
    "IS_FALSE",
    "IS_NULL",
    "IS_NOT_NULL",
    "STARTS_WITH",
    "ENDS_WITH",
    "REGEX",
    "CONTAINS",
];
const WINDOWS: &[&str] = &["DURATION_WINDOW", "SLIDING_WINDOW", "DAILY_TIME_DEADLINE", "DAILY_TIME_WINDOW"];
const DAY_MS: i64 = 86_400_000;

/// What a flow trigger depends on.
pub(crate) enum Depends {
    /// All of it, within a window.
    All(Preconditions),
    /// Each by itself.
    Any(Condition),
}

impl<'a> Context<'a> {
    pub fn preconditions(&mut self, node: &'a Node) -> Option<Preconditions> {
        let fields = self.fields(node, PRECONDITIONS)?;
        let id = self.required(&fields, "`preconditions`", "id").and_then(|node| self.id(node, TASK_ID));
        let mut conditions = IndexMap::new();
        for item in fields.get("flows").and_then(|node| self.list(node, "flows")).unwrap_or_default() {
            if let Some(condition) = self.upstream_flow(item) {
                conditions.insert(format!("condition_{}", conditions.len() + 1), condition);
            }
        }
        for item in fields.get("where").and_then(|node| self.list(node, "where")).unwrap_or_default() {
            if let Some((name, condition)) = self.filter_condition(item) {
                conditions.insert(format!("condition_{}_{name}", conditions.len() + 1), condition);
            }
        }
        if fields.get("flows").is_none() && fields.get("where").is_none() {
            let message = "`preconditions` needs `flows` or `where`";
            self.error(codes::MISSING_FIELD, &fields.place(), message);
        }
        let window = match fields.get("timeWindow") {
            Some(node) => self.time_window(node)?,
            None => TimeWindow::DurationWindow { window_ms: DAY_MS, advance_ms: 0 },
        };
        let reset_on_success = self.flag(&fields, "resetOnSuccess", true);
        let (at_least, timezone) = (None, None);
        Some(Preconditions { id: id?, window, reset_on_success, conditions, at_least, timezone })
    }

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
        let (at_least, timezone) = (None, None);
        let all = Preconditions { id: id?, window, reset_on_success, conditions, at_least, timezone };
        Some(Condition::Multiple(all))
    }

    /// `dependsOn` with its `window` and `mode`: what must come together, or what alone is enough.
    pub fn upstream_dependencies(&mut self, fields: &Fields<'a>, trigger: &str) -> Option<Depends> {
        let Some(node) = fields.get("dependsOn") else {
            for name in DEPENDS.iter().filter(|name| fields.get(name).is_some()) {
                self.error(codes::CONFLICT, &fields.key_at(name), format!("`{name}` belongs to `dependsOn`"));
            }
            return None;
        };
        if fields.get("preconditions").is_some() {
            let message = "`dependsOn` is the newer form of `preconditions`; give one of them";
            self.error(codes::CONFLICT, &fields.key_at("dependsOn"), message);
        }
        let items = self.list(node, "dependsOn")?;
        if items.is_empty() {
            self.error(codes::MISSING_FIELD, &node.at, "`dependsOn` names no flow");
        }
        let found: Vec<Condition> = items.iter().filter_map(|item| self.dependency(item)).collect();
        let (window, once, timezone) = self.open_window(fields)?;
        let counted = self.at_least(fields, items.len());
        let mode = match fields
            .get("mode")
            .map_or(Some("ALL"), |node| self.word(node, "mode", &["ALL", "ANY", "AT_LEAST"]))?
        {
            "ANY" => return Some(Depends::Any(Condition::Or { conditions: found })),
            "AT_LEAST" if fields.get("minSatisfied").is_none() => {
                let message = "`mode: AT_LEAST` needs `minSatisfied`: how many are enough";
                self.error(codes::MISSING_FIELD, &fields.key_at("mode"), message);
                return None;
            }
            mode => mode,
        };
        let at_least = if mode == "AT_LEAST" { Some(counted?) } else { None };
        let conditions = (1..).map(|place| format!("condition_{place}")).zip(found).collect();
        let id = format!("depends_on_{trigger}");
        Some(Depends::All(Preconditions { id, window, reset_on_success: once, conditions, at_least, timezone }))
    }

    /// How many of so many are enough, which only one mode asks.
    fn at_least(&mut self, fields: &Fields<'a>, count: usize) -> Option<u32> {
        let node = fields.get("minSatisfied")?;
        let mode = fields.get("mode").and_then(|node| node.scalar()).map(|scalar| scalar.text.as_str());
        if !mode.is_some_and(|mode| mode.eq_ignore_ascii_case("AT_LEAST")) {
            let message = "`minSatisfied` changes nothing without `mode: AT_LEAST`";
            self.report(Finding::warning(codes::NO_EFFECT, fields.key_at("minSatisfied"), message));
        }
        self.count(node, "minSatisfied", 1, u32::try_from(count.max(1)).unwrap_or(u32::MAX))
    }

    fn dependency(&mut self, node: &'a Node) -> Option<Condition> {
        let fields = self.fields(node, DEPENDENCY)?;
        let mut text = |name: &str| fields.get(name).and_then(|node| self.literal(node, name)).map(str::to_owned);
        let upstream = Condition::Upstream {
            namespace: text("namespace"),
            flow_id: text("flowId"),
            states: fields.get("states").map(|node| self.states(node, "states")),
            labels: fields.get("labels").map(|node| self.wanted_labels(node)).unwrap_or_default(),
        };
        let Some(expression) = fields.get("when").and_then(|node| self.template(node, "when")) else {
            return Some(upstream);
        };
        // Both of two hold when none of them does not.
        let fails = |condition| Condition::Not { conditions: vec![condition] };
        Some(Condition::Not { conditions: vec![fails(upstream), fails(Condition::When { expression })] })
    }

    /// The window, whether it fires once only, and in which zone its times are.
    fn open_window(&mut self, fields: &Fields<'a>) -> Option<(TimeWindow, bool, Option<String>)> {
        let Some(node) = fields.get("window") else {
            return Some((TimeWindow::DurationWindow { window_ms: DAY_MS, advance_ms: 0 }, true, None));
        };
        let window = self.fields(node, OPEN)?;
        let once = self.flag(&window, "fireOnce", false);
        let kinds: [&[&str]; 4] = [&["deadline"], &["from", "to"], &["lookback"], &["every", "offset"]];
        let given: Vec<&str> =
            kinds.iter().filter_map(|names| names.iter().copied().find(|name| window.get(name).is_some())).collect();
        if let [first, second, ..] = given[..] {
            let message = format!("`{first}` and `{second}` are two kinds of window; give one of them");
            self.error(codes::CONFLICT, &window.key_at(second), message);
        }
        let timezone = match window.get("timezone") {
            Some(node) if node.scalar().is_some_and(|scalar| scalar.text == "Z") => None,
            Some(node) => Some(self.timezone(node)?),
            None => None,
        };
        let length = |context: &mut Self, name: &str| match window.get(name) {
            Some(node) => context.positive_duration(node, name),
            None => Some(DAY_MS),
        };
        let window = match given.first().copied() {
            Some("deadline") => TimeWindow::DailyTimeDeadline { deadline_ms: self.time_of_day(&window, "deadline")? },
            Some("from" | "to") => self.part_of_day(&window, "from", "to")?,
            Some("lookback") => TimeWindow::SlidingWindow { window_ms: length(self, "lookback")? },
            _ => {
                let advance_ms = window.get("offset").map_or(Some(0), |node| self.duration(node, "offset"))?;
                TimeWindow::DurationWindow { window_ms: length(self, "every")?, advance_ms }
            }
        };
        Some((window, once, timezone))
    }

    fn part_of_day(&mut self, fields: &Fields<'a>, from: &str, to: &str) -> Option<TimeWindow> {
        let (start, end) = (self.time_of_day(fields, from), self.time_of_day(fields, to));
        let (start_ms, end_ms) = (start?, end?);
        if end_ms <= start_ms {
            let message = format!("`{to}` is not after `{from}`, so this window never opens");
            self.error(codes::BAD_VALUE, &fields.key_at(to), message);
        }
        Some(TimeWindow::DailyTimeWindow { start_ms, end_ms })
    }

    fn upstream_flow(&mut self, node: &'a Node) -> Option<Condition> {
        let fields = self.fields(node, FLOW)?;
        let namespace = self.condition_text(&fields, "a flow", "namespace")?;
        let flow_id = fields.get("flowId").map(|node| self.literal(node, "flowId").map(str::to_owned));
        Some(Condition::Upstream {
            namespace: Some(namespace),
            flow_id: flow_id.unwrap_or(None),
            states: fields.get("states").map(|node| self.states(node, "states")),
            labels: fields.get("labels").map(|node| self.wanted_labels(node)).unwrap_or_default(),
        })
    }

    fn filter_condition(&mut self, node: &'a Node) -> Option<(String, Condition)> {
        let fields = self.fields(node, WHERE)?;
        let id = self.condition_text(&fields, "`where`", "id");
        let operand = fields.get("operand").map(|node| self.word(node, "operand", &["AND", "OR"]));
        let filters = self.required(&fields, "`where`", "filters")?;
        let items = self.list(filters, "filters")?;
        if items.is_empty() {
            self.error(codes::MISSING_FIELD, &filters.at, "`where` needs a filter");
        }
        let filters = items.iter().filter_map(|item| self.filter(item)).collect();
        Some((id?, Condition::Filter { any: operand.unwrap_or(Some("AND"))? == "OR", filters }))
    }

    fn filter(&mut self, node: &'a Node) -> Option<Filter> {
        let fields = self.fields(node, FILTER)?;
        let field = self.required(&fields, "a filter", "field");
        let field: Option<FilterField> = field.and_then(|node| self.choice(node, "field", FIELDS));
        let test = self.required(&fields, "a filter", "type");
        let test: Option<FilterTest> = test.and_then(|node| self.choice(node, "type", TESTS));
        let (field, test) = (field?, test?);
        let value = fields.get("value").and_then(|node| match field {
            FilterField::Expression => self.template(node, "value"),
            _ => self.literal(node, "value").map(str::to_owned),
        });
        let values = match fields.get("values") {
            Some(node) => {
                let items = self.list(node, "values")?;
                items.iter().filter_map(|item| self.literal(item, "values")).map(str::to_owned).collect()
            }
            None => Vec::new(),
        };
        let needs_values = matches!(test, FilterTest::In | FilterTest::NotIn);
        let needs_nothing =
            matches!(test, FilterTest::IsTrue | FilterTest::IsFalse | FilterTest::IsNull | FilterTest::IsNotNull)
                && field != FilterField::Expression;
        if needs_values && values.is_empty() {
            self.missing(&fields, "this filter", "values");
        } else if !needs_values && !needs_nothing && fields.get("value").is_none() {
            self.missing(&fields, "this filter", "value");
        }
        if let (FilterTest::Regex, Some(pattern), Some(node)) = (test, &value, fields.get("value"))
            && field != FilterField::Expression
            && let Err(error) = regex::Regex::new(pattern)
        {
            let why = error.to_string();
            let message = format!("not a regular expression: {}", why.lines().last().unwrap_or_default());
            self.error(codes::BAD_REGEX, &node.at, message);
        }
        Some(Filter { field, test, value, values })
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
            "DAILY_TIME_WINDOW" => self.part_of_day(&fields, "startTime", "endTime")?,
            _ => {
                let advance_ms = fields.get("windowAdvance").map(|node| self.duration(node, "windowAdvance"));
                TimeWindow::DurationWindow { window_ms, advance_ms: advance_ms.unwrap_or(Some(0))? }
            }
        })
    }

    /// Milliseconds since midnight.
    fn time_of_day(&mut self, fields: &Fields<'a>, name: &str) -> Option<i64> {
        let node = self.required(fields, "the window", name)?;
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
