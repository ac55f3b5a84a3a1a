//! `conditions:` and `when:` of triggers.
//!
//! Kestra has renamed its conditions twice; every name it ever had is read.

use super::Context;
use super::fields::{Fields, Names};
use super::values::short;
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::Node;
use indexmap::IndexMap;
use semel_core::holidays;
use semel_core::ir::{Comparison, Condition, STATES};

/// What dates are compared with unless the author says otherwise.
const TRIGGER_DATE: &str = "{{ trigger.date }}";
const PREFIXES: &[&str] =
    &["io.kestra.plugin.core.condition.", "io.kestra.core.models.conditions.types.", "condition.", "conditions."];
/// Names that end in `Condition` for good.
const WHOLE_NAMES: &[&str] = &["FlowCondition", "FlowNamespaceCondition", "MultipleCondition"];
const DAYS: &[&str] = &["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"];
const PLACES: &[&str] = &["FIRST", "SECOND", "THIRD", "FOURTH", "LAST"];
/// Conditions inside conditions.
const DEPTH_MAX: usize = 16;

/// Every condition type with its own fields.
const TYPES: &[(&str, &[&str])] = &[
    ("DateTimeBetween", &["date", "after", "before"]),
    ("TimeBetween", &["date", "after", "before"]),
    ("DayWeek", &["date", "dayOfWeek"]),
    ("DayWeekInMonth", &["date", "dayOfWeek", "dayInMonth"]),
    ("Weekend", &["date"]),
    ("PublicHoliday", &["date", "country"]),
    ("Expression", &["expression"]),
    ("ExecutionFlow", &["namespace", "flowId"]),
    ("ExecutionNamespace", &["namespace", "comparison", "prefix"]),
    ("ExecutionStatus", &["in", "notIn"]),
    ("ExecutionLabels", &["labels"]),
    ("ExecutionOutputs", &["expression"]),
    ("HasRetryAttempt", &["in", "notIn"]),
    ("FlowCondition", &["namespace", "flowId"]),
    ("FlowNamespaceCondition", &["namespace", "prefix"]),
    ("MultipleCondition", super::preconditions::MULTIPLE),
    ("Not", &["conditions"]),
    ("Or", &["conditions"]),
];

impl<'a> Context<'a> {
    /// What must hold for the trigger to fire. A trigger that no run stands behind has nothing that conditions on
    /// runs could look at: they are left out, as Kestra does, and the author is told.
    pub fn trigger_conditions(&mut self, fields: &Fields<'a>, has_upstream: bool) -> Vec<Condition> {
        let mut found = Vec::new();
        for name in ["conditions", "scheduleConditions"] {
            let Some(node) = fields.get(name) else { continue };
            let Some(items) = self.list(node, name) else { continue };
            for item in items {
                let Some(condition) = self.condition(item, 1) else { continue };
                if condition.needs_upstream() && !has_upstream {
                    let message = "this looks at an upstream run, and here is none; it is left out";
                    self.report(Finding::warning(codes::NO_EFFECT, item.at.clone(), message));
                } else {
                    found.push(condition);
                }
            }
        }
        if let Some(expression) = fields.get("when").and_then(|node| self.template(node, "when")) {
            found.push(Condition::When { expression });
        }
        found
    }

    pub fn condition(&mut self, node: &'a Node, depth: usize) -> Option<Condition> {
        if depth > DEPTH_MAX {
            self.error(codes::LIMIT, &node.at, format!("conditions are nested more than {DEPTH_MAX} deep"));
            return None;
        }
        let raw = self.map(node, "a condition")?;
        let type_node = self.required(&raw, "a condition", "type")?;
        let (name, own) = self.condition_type(type_node)?;
        let not_built: &[&str] = if name == "PublicHoliday" { &["subDivision"] } else { &[] };
        let names = Names { what: name, allowed: &[&["type", "id", "description"], own], not_built };
        let fields = self.fields(node, names)?;
        match name {
            "DateTimeBetween" | "TimeBetween" => self.between(&fields, name),
            "DayWeek" => {
                let day = self.required(&fields, name, "dayOfWeek")?;
                Some(Condition::DayWeek { day: self.choice(day, "dayOfWeek", DAYS)?, date: self.date(&fields)? })
            }
            "DayWeekInMonth" => {
                let (day, place) =
                    (self.required(&fields, name, "dayOfWeek"), self.required(&fields, name, "dayInMonth"));
                let day = day.and_then(|node| self.choice(node, "dayOfWeek", DAYS));
                let place = place.and_then(|node| self.choice(node, "dayInMonth", PLACES));
                Some(Condition::DayWeekInMonth { date: self.date(&fields)?, day: day?, place: place? })
            }
            "Weekend" => Some(Condition::Weekend { date: self.date(&fields)? }),
            "PublicHoliday" => {
                let country = self.required(&fields, name, "country").and_then(|node| self.country(node));
                Some(Condition::PublicHoliday { date: self.date(&fields)?, country: country? })
            }
            "Expression" => Some(Condition::Expression { expression: self.condition_expression(&fields, name)? }),
            "ExecutionOutputs" => {
                Some(Condition::ExecutionOutputs { expression: self.condition_expression(&fields, name)? })
            }
            "ExecutionFlow" | "FlowCondition" => {
                let namespace = self.condition_text(&fields, name, "namespace");
                let flow_id = self.condition_text(&fields, name, "flowId");
                let (namespace, flow_id) = (namespace?, flow_id?);
                Some(match name {
                    "ExecutionFlow" => Condition::ExecutionFlow { namespace, flow_id },
                    _ => Condition::OwnFlow { namespace, flow_id },
                })
            }
            "ExecutionNamespace" => {
                let namespace = self.condition_text(&fields, name, "namespace")?;
                let unsaid = if self.flag(&fields, "prefix", false) { Comparison::Prefix } else { Comparison::Equals };
                let comparison = match fields.get("comparison") {
                    Some(node) => self.choice(node, "comparison", &["EQUALS", "PREFIX", "SUFFIX"])?,
                    None => unsaid,
                };
                Some(Condition::ExecutionNamespace { namespace, comparison })
            }
            "FlowNamespaceCondition" => {
                let namespace = self.condition_text(&fields, name, "namespace")?;
                Some(Condition::OwnNamespace { namespace, prefix: self.flag(&fields, "prefix", false) })
            }
            "ExecutionStatus" | "HasRetryAttempt" => {
                let among = fields.get("in").map(|node| self.states(node, "in"));
                let not_among = fields.get("notIn").map(|node| self.states(node, "notIn"));
                Some(match name {
                    "ExecutionStatus" => Condition::ExecutionStatus { among, not_among },
                    _ => Condition::HasRetryAttempt { among, not_among },
                })
            }
            "ExecutionLabels" => {
                let labels = self.required(&fields, name, "labels")?;
                Some(Condition::ExecutionLabels { labels: self.wanted_labels(labels) })
            }
            "MultipleCondition" => self.multiple(&fields, depth),
            _ => {
                let inner = self.required(&fields, name, "conditions")?;
                let items = self.list(inner, "conditions")?;
                let conditions: Vec<Condition> =
                    items.iter().filter_map(|item| self.condition(item, depth + 1)).collect();
                if conditions.iter().any(|one| matches!(one, Condition::Multiple(_))) {
                    self.error(codes::CONFLICT, &inner.at, "MultipleCondition stands by itself, not inside another");
                }
                if items.is_empty() {
                    self.error(codes::MISSING_FIELD, &inner.at, format!("{name} needs a condition"));
                }
                Some(if name == "Not" { Condition::Not { conditions } } else { Condition::Or { conditions } })
            }
        }
    }

    fn condition_type(&mut self, node: &'a Node) -> Option<(&'static str, &'static [&'static str])> {
        let text = self.literal(node, "type")?;
        let name = canonical(text);
        if let Some(found) = TYPES.iter().find(|(known, _)| *known == name) {
            return Some(*found);
        }
        let known = || TYPES.iter().map(|(name, _)| *name);
        let message = format!("no condition type `{}`", short(text));
        let finding = Finding::error(codes::UNKNOWN_TYPE, node.at.clone(), message);
        self.report(match suggest::nearest(name, known()) {
            Some(near) => finding.suggest(format!("did you mean `condition.{near}`?")),
            None => finding.expected(format!("one of: {}", known().collect::<Vec<_>>().join(", "))),
        });
        None
    }

    fn between(&mut self, fields: &Fields<'a>, name: &str) -> Option<Condition> {
        let date = self.date(fields)?;
        let after = fields.get("after").and_then(|node| self.limit(node, "after", name));
        let before = fields.get("before").and_then(|node| self.limit(node, "before", name));
        if fields.get("after").is_none() && fields.get("before").is_none() {
            self.error(codes::MISSING_FIELD, &fields.place(), format!("{name} needs `after` or `before`"));
            return None;
        }
        Some(match name {
            "DateTimeBetween" => Condition::DateTimeBetween { date, after, before },
            _ => Condition::TimeBetween { date, after, before },
        })
    }

    /// One end of a range; what is not an expression is read now, so that a mistake is not met at night.
    fn limit(&mut self, node: &'a Node, field: &str, name: &str) -> Option<String> {
        let text = self.template(node, field)?;
        if node.scalar().is_some_and(|scalar| scalar.is_template()) {
            return Some(text);
        }
        let (read, expected) = match name {
            "DateTimeBetween" => (text.parse::<jiff::Timestamp>().is_ok(), "a date such as 2026-01-31T08:00:00Z"),
            _ => (semel_core::date::time_of_day(&text).is_some(), "a time such as 08:00:00+02:00"),
        };
        if !read {
            let message = format!("`{}` is not a value of `{field}`", short(&text));
            self.report(Finding::error(codes::BAD_VALUE, node.at.clone(), message).expected(expected));
            return None;
        }
        Some(text)
    }

    fn date(&mut self, fields: &Fields<'a>) -> Option<String> {
        match fields.get("date") {
            Some(node) => self.template(node, "date"),
            None => Some(TRIGGER_DATE.to_owned()),
        }
    }

    /// What is not an expression is looked up now.
    fn country(&mut self, node: &'a Node) -> Option<String> {
        let text = self.template(node, "country")?;
        if node.scalar().is_some_and(|scalar| scalar.is_template()) {
            return Some(text);
        }
        match holidays::country(&text) {
            Ok(code) => Some(code.to_owned()),
            Err(error) => {
                let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), error.to_string());
                self.report(finding.expected("a country by its ISO 3166-1 code"));
                None
            }
        }
    }

    fn condition_expression(&mut self, fields: &Fields<'a>, what: &str) -> Option<String> {
        let node = self.required(fields, what, "expression")?;
        self.template(node, "expression")
    }

    pub fn condition_text(&mut self, fields: &Fields<'a>, what: &str, name: &str) -> Option<String> {
        let node = self.required(fields, what, name)?;
        self.literal(node, name).map(str::to_owned)
    }

    /// A list of Kestra's states, or one of them.
    pub fn states(&mut self, node: &'a Node, name: &str) -> Vec<String> {
        let one = std::slice::from_ref(node);
        let items = node.items().unwrap_or(one);
        items.iter().filter_map(|item| self.word(item, name, STATES)).map(str::to_owned).collect()
    }

    /// Labels to look for: any key, also one of Semel's own.
    pub fn wanted_labels(&mut self, node: &'a Node) -> IndexMap<String, String> {
        let mut wanted = IndexMap::new();
        if let Some(items) = node.items() {
            for item in items {
                let names = Names { what: "a label", allowed: &[&["key", "value"]], not_built: &[] };
                let Some(fields) = self.fields(item, names) else { continue };
                let key = self.condition_text(&fields, "a label", "key");
                let value = self.required(&fields, "a label", "value").and_then(|node| self.literal(node, "value"));
                if let (Some(key), Some(value)) = (key, value) {
                    wanted.insert(key, value.to_owned());
                }
            }
        } else if let Some(map) = self.map(node, "`labels`") {
            for entry in map.entries() {
                if let Some(value) = self.literal(&entry.value, "labels") {
                    wanted.insert(entry.key.clone(), value.to_owned());
                }
            }
        }
        wanted
    }
}

/// The newest name of a condition type.
fn canonical(text: &str) -> &str {
    let name = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    if WHOLE_NAMES.contains(&name) {
        return name;
    }
    match name.strip_suffix("Condition").unwrap_or(name) {
        "Variable" => "Expression",
        "Multiple" => "MultipleCondition",
        "FlowNamespace" => "FlowNamespaceCondition",
        "Flow" => "FlowCondition",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_a_condition_ever_had_is_read() {
        for (text, name) in [
            ("io.kestra.plugin.core.condition.Weekend", "Weekend"),
            ("io.kestra.plugin.core.condition.WeekendCondition", "Weekend"),
            ("io.kestra.core.models.conditions.types.WeekendCondition", "Weekend"),
            ("io.kestra.core.models.conditions.types.VariableCondition", "Expression"),
            ("io.kestra.plugin.core.condition.ExpressionCondition", "Expression"),
            ("io.kestra.core.models.conditions.types.FlowCondition", "FlowCondition"),
            ("io.kestra.plugin.core.condition.FlowNamespaceCondition", "FlowNamespaceCondition"),
            ("io.kestra.core.models.conditions.types.MultipleCondition", "MultipleCondition"),
            ("condition.Not", "Not"),
        ] {
            assert_eq!(canonical(text), name, "{text}");
        }
    }
}
