//! Whether the conditions of a trigger hold. Nothing is read or written here: what an expression sees comes with the
//! subject, so the same subject is always judged alike.

use crate::scope::ExprScope;
use regex::Regex;
use semel_core::date::{self, Written};
use semel_core::ir::{Comparison, Condition, Filter, FilterField, FilterTest};
use semel_core::{FlowRef, RunId};
use semel_expr::{Budget, Template, Value, render};
use serde_json::Value as Json;

/// A run whose change of state a flow trigger hears of.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub run: RunId,
    pub flow: FlowRef,
    pub revision: u32,
    /// Kestra's word for the state.
    pub state: String,
    pub labels: Vec<(String, String)>,
    pub outputs: Json,
    /// How the attempts ended of tasks that took more than one.
    pub retried: Vec<String>,
}

/// What conditions are about.
pub struct Subject<'a> {
    /// The flow that the trigger belongs to.
    pub flow: &'a FlowRef,
    pub upstream: Option<&'a Upstream>,
    pub render: &'a dyn Fn(&str) -> Result<String, String>,
}

/// As [`hold`], with expressions that see this scope.
pub fn hold_in(conditions: &[Condition], scope: &ExprScope<'_>, upstream: Option<&Upstream>) -> Result<bool, String> {
    let text = |template: &str| {
        let parsed = Template::of(template).map_err(|error| error.message)?;
        match render(&parsed, scope, &mut Budget::default()).map_err(|error| error.message)? {
            Value::Str(text) => Ok(text.to_string()),
            _ => Err("it would hold a secret".to_owned()),
        }
    };
    hold(conditions, &Subject { flow: &scope.flow.flow_ref, upstream, render: &text })
}

/// All of them hold. One that cannot be judged is an error; whoever asked decides what that means.
pub fn hold(conditions: &[Condition], subject: &Subject<'_>) -> Result<bool, String> {
    for condition in conditions {
        if !holds(condition, subject)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn holds(condition: &Condition, subject: &Subject<'_>) -> Result<bool, String> {
    let upstream = || subject.upstream.ok_or_else(|| "there is no upstream run to look at".to_owned());
    let render = |template: &str| (subject.render)(template);
    Ok(match condition {
        Condition::DateTimeBetween { date, after, before } => {
            let instant = |text: &str| {
                let at = Written::parse(text).and_then(|written| written.at());
                at.map(|at| at.0).ok_or_else(|| format!("`{text}` is not a date"))
            };
            between(instant(&render(date)?)?, after, before, &render, &instant)?
        }
        Condition::TimeBetween { date, after, before } => {
            let time = |text: &str| date::time_of_day(text).ok_or_else(|| format!("`{text}` is not a time"));
            between(written(subject, date)?.time_of_day(), after, before, &render, &time)?
        }
        Condition::DayWeek { date, day } => written(subject, date)?.is_on(*day),
        Condition::DayWeekInMonth { date, day, place } => written(subject, date)?.is_nth(*place, *day),
        Condition::Weekend { date } => written(subject, date)?.is_weekend(),
        Condition::PublicHoliday { date, country } => {
            let day = written(subject, date)?;
            day.is_holiday(&render(country)?).map_err(|error| error.to_string())?
        }
        Condition::Expression { expression } => is_said(&render(expression)?),
        Condition::When { expression } => is_truthy(&render(expression)?),
        Condition::ExecutionFlow { namespace, flow_id } => is_flow(&upstream()?.flow, namespace, flow_id),
        Condition::ExecutionNamespace { namespace, comparison } => {
            let actual = &upstream()?.flow.namespace;
            match comparison {
                Comparison::Equals => actual == namespace,
                Comparison::Prefix => actual.starts_with(namespace),
                Comparison::Suffix => actual.ends_with(namespace),
            }
        }
        Condition::ExecutionStatus { among, not_among } => is_among(&upstream()?.state, among, not_among),
        Condition::ExecutionLabels { labels } => has_labels(upstream()?, labels),
        Condition::ExecutionOutputs { expression } => has_outputs(upstream()?) && is_said(&render(expression)?),
        Condition::HasRetryAttempt { among, not_among } => {
            upstream()?.retried.iter().any(|state| is_among(state, among, not_among))
        }
        Condition::OwnFlow { namespace, flow_id } => is_flow(subject.flow, namespace, flow_id),
        Condition::OwnNamespace { namespace, prefix } => match prefix {
            true => subject.flow.namespace.starts_with(namespace),
            false => subject.flow.namespace == *namespace,
        },
        Condition::Not { conditions } => !any(conditions, subject)?,
        Condition::Or { conditions } => any(conditions, subject)?,
        Condition::Upstream { namespace, flow_id, states, labels } => {
            let upstream = upstream()?;
            namespace.as_ref().is_none_or(|namespace| upstream.flow.namespace == *namespace)
                && flow_id.as_ref().is_none_or(|id| upstream.flow.id == *id)
                && is_among(&upstream.state, states, &None)
                && has_labels(upstream, labels)
        }
        Condition::Filter { any, filters } => {
            let upstream = upstream()?;
            let mut met = 0;
            for filter in filters {
                met += usize::from(passes(filter, upstream, &render)?);
            }
            if *any { met > 0 } else { met == filters.len() }
        }
        // Several runs meet it together: what is remembered of them is judged where it is kept.
        Condition::Multiple(_) => true,
    })
}

fn any(conditions: &[Condition], subject: &Subject<'_>) -> Result<bool, String> {
    for condition in conditions {
        if holds(condition, subject)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn written(subject: &Subject<'_>, date: &str) -> Result<Written, String> {
    let text = (subject.render)(date)?;
    Written::parse(&text).ok_or_else(|| format!("`{text}` is not a date"))
}

/// Both ends are outside.
fn between(
    at: i64,
    after: &Option<String>,
    before: &Option<String>,
    render: &dyn Fn(&str) -> Result<String, String>,
    read: &dyn Fn(&str) -> Result<i64, String>,
) -> Result<bool, String> {
    let end = |template: &Option<String>| match template {
        Some(template) => read(&render(template)?).map(Some),
        None => Ok(None),
    };
    let (after, before) = (end(after)?, end(before)?);
    Ok(after.is_none_or(|after| at > after) && before.is_none_or(|before| at < before))
}

/// Kestra's rule for expressions in conditions.
fn is_said(text: &str) -> bool {
    !matches!(text.trim(), "" | "false")
}

/// Kestra's rule everywhere else.
pub fn is_truthy(text: &str) -> bool {
    !matches!(text, "" | "false" | "0" | "-0")
}

fn is_flow(flow: &FlowRef, namespace: &str, id: &str) -> bool {
    flow.namespace == namespace && flow.id == id
}

fn is_among(state: &str, among: &Option<Vec<String>>, not_among: &Option<Vec<String>>) -> bool {
    let lists = |list: &Vec<String>| list.iter().any(|one| one == state);
    among.as_ref().is_none_or(lists) && !not_among.as_ref().is_some_and(lists)
}

fn has_labels(upstream: &Upstream, wanted: &indexmap::IndexMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| upstream.labels.iter().any(|(k, v)| k == key && v == value))
}

fn has_outputs(upstream: &Upstream) -> bool {
    upstream.outputs.as_object().is_some_and(|outputs| !outputs.is_empty())
}

fn passes(
    filter: &Filter,
    upstream: &Upstream,
    render: &dyn Fn(&str) -> Result<String, String>,
) -> Result<bool, String> {
    let value = filter.value.as_deref().unwrap_or_default();
    let field = match filter.field {
        FilterField::FlowId => upstream.flow.id.clone(),
        FilterField::Namespace => upstream.flow.namespace.clone(),
        FilterField::State => upstream.state.clone(),
        FilterField::Expression => render(value)?,
    };
    Ok(match filter.test {
        FilterTest::EqualTo => field == value,
        FilterTest::NotEqualTo => field != value,
        FilterTest::In => filter.values.contains(&field),
        FilterTest::NotIn => !filter.values.contains(&field),
        FilterTest::IsTrue => is_truthy(&field),
        FilterTest::IsFalse => !is_truthy(&field),
        // A run has all of these fields.
        FilterTest::IsNull => false,
        FilterTest::IsNotNull => true,
        FilterTest::StartsWith => field.starts_with(value),
        FilterTest::EndsWith => field.ends_with(value),
        FilterTest::Contains => field.contains(value),
        FilterTest::Regex => {
            // The whole text must match.
            let pattern = Regex::new(&format!("^(?:{value})$")).map_err(|error| error.to_string())?;
            pattern.is_match(&field)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `{{ x }}` renders to the text x; anything else is itself.
    fn plain(template: &str) -> Result<String, String> {
        match template.strip_prefix("{{ ").and_then(|rest| rest.strip_suffix(" }}")) {
            Some("broken") => Err("no such variable".to_owned()),
            Some(inner) => Ok(inner.to_owned()),
            None => Ok(template.to_owned()),
        }
    }

    fn upstream() -> Upstream {
        Upstream {
            run: RunId::from_bytes([1; 16]),
            flow: FlowRef::new("shop.orders", "intake"),
            revision: 3,
            state: "SUCCESS".into(),
            labels: vec![("team".into(), "a".into()), ("env".into(), "prod".into())],
            outputs: json!({"n": 1}),
            retried: vec!["FAILED".into(), "SUCCESS".into()],
        }
    }

    fn judge(condition: Json) -> Result<bool, String> {
        judge_for(condition, Some(&upstream()))
    }

    fn judge_for(condition: Json, upstream: Option<&Upstream>) -> Result<bool, String> {
        let condition: Condition = serde_json::from_value(condition).expect("a condition");
        let flow = FlowRef::new("shop.billing", "invoice");
        holds(&condition, &Subject { flow: &flow, upstream, render: &plain })
    }

    #[test]
    fn dates() {
        let between = |after: Json, before: Json| {
            let date = "2026-01-02T10:00:00Z";
            judge(json!({"condition": "date_time_between", "date": date, "after": after, "before": before}))
        };
        assert_eq!(between(json!("2026-01-01T00:00:00Z"), json!("2026-01-03T00:00:00Z")), Ok(true));
        assert_eq!(between(json!("2026-01-02T12:00:00+02:00"), Json::Null), Ok(false), "an end is outside");
        assert_eq!(between(Json::Null, json!("2026-01-02T12:00:01+02:00")), Ok(true));
        assert!(between(json!("soon"), Json::Null).is_err());
        let time = |date: &str| {
            let hours = json!({"condition": "time_between", "date": date, "after": "08:00:00Z", "before": "17:00:00Z"});
            judge(hours)
        };
        assert_eq!(time("2026-01-02T09:00:00+01:00"), Ok(false));
        assert_eq!(time("2026-01-02T09:00:01+01:00"), Ok(true));
        assert_eq!(judge(json!({"condition": "weekend", "date": "2026-01-03T00:30:00+01:00"})), Ok(true));
        assert_eq!(judge(json!({"condition": "day_week", "date": "2026-01-02", "day": "FRIDAY"})), Ok(true));
        let holiday = |country: &str| {
            judge(json!({"condition": "public_holiday", "date": "2026-07-14T08:00:00+02:00", "country": country}))
        };
        assert_eq!((holiday("FR"), holiday("DE")), (Ok(true), Ok(false)));
        assert!(holiday("{{ XX }}").is_err_and(|error| error.contains("`XX`") && error.contains("PL, PT")));
        let nth = json!({"condition": "day_week_in_month", "date": "2026-01-02", "day": "FRIDAY", "place": "LAST"});
        assert_eq!(judge(nth), Ok(false));
    }

    #[test]
    fn expressions_have_two_rules() {
        let said = |text: &str| judge(json!({"condition": "expression", "expression": text}));
        let when = |text: &str| judge(json!({"condition": "when", "expression": text}));
        for (text, as_said, as_when) in [
            ("", false, false),
            ("false", false, false),
            (" false ", false, true),
            ("0", true, false),
            ("x", true, true),
        ] {
            assert_eq!((said(text), when(text)), (Ok(as_said), Ok(as_when)), "`{text}`");
        }
        assert!(said("{{ broken }}").is_err());
    }

    #[test]
    fn the_upstream_run() {
        let flow = |id: &str| json!({"condition": "execution_flow", "namespace": "shop.orders", "flow_id": id});
        assert_eq!((judge(flow("intake")), judge(flow("other"))), (Ok(true), Ok(false)));
        assert!(judge_for(flow("intake"), None).is_err());
        let namespace = |text: &str, how: &str| {
            judge(json!({"condition": "execution_namespace", "namespace": text, "comparison": how}))
        };
        assert_eq!(namespace("shop", "EQUALS"), Ok(false));
        assert_eq!(namespace("shop", "PREFIX"), Ok(true));
        assert_eq!(namespace("orders", "SUFFIX"), Ok(true));
        let status =
            |among: Json, not: Json| judge(json!({"condition": "execution_status", "among": among, "not_among": not}));
        assert_eq!(status(json!(["FAILED", "SUCCESS"]), Json::Null), Ok(true));
        assert_eq!(status(json!(["FAILED"]), Json::Null), Ok(false));
        assert_eq!(status(Json::Null, json!(["SUCCESS"])), Ok(false));
        let labels = |labels: Json| judge(json!({"condition": "execution_labels", "labels": labels}));
        assert_eq!(labels(json!({"team": "a", "env": "prod"})), Ok(true));
        assert_eq!(labels(json!({"team": "b"})), Ok(false));
        let retry = json!({"condition": "has_retry_attempt", "among": ["FAILED"], "not_among": null});
        assert_eq!(judge(retry), Ok(true));
    }

    #[test]
    fn outputs_must_be_there() {
        let outputs = json!({"condition": "execution_outputs", "expression": "{{ true }}"});
        assert_eq!(judge(outputs.clone()), Ok(true));
        assert_eq!(judge_for(outputs, Some(&Upstream { outputs: json!({}), ..upstream() })), Ok(false));
    }

    #[test]
    fn not_means_none_and_or_means_one() {
        let yes = json!({"condition": "expression", "expression": "yes"});
        let no = json!({"condition": "expression", "expression": "false"});
        let not = |list: Json| judge(json!({"condition": "not", "conditions": list}));
        let or = |list: Json| judge(json!({"condition": "or", "conditions": list}));
        assert_eq!(not(json!([no, no])), Ok(true));
        assert_eq!(not(json!([no, yes])), Ok(false));
        assert_eq!(or(json!([no, yes])), Ok(true));
        assert_eq!(or(json!([no, no])), Ok(false));
    }

    #[test]
    fn own_flow_and_namespace() {
        assert_eq!(
            judge(json!({"condition": "own_flow", "namespace": "shop.billing", "flow_id": "invoice"})),
            Ok(true)
        );
        assert_eq!(judge(json!({"condition": "own_namespace", "namespace": "shop", "prefix": true})), Ok(true));
        assert_eq!(judge(json!({"condition": "own_namespace", "namespace": "shop", "prefix": false})), Ok(false));
    }

    #[test]
    fn filters_of_preconditions() {
        let filter = |field: &str, test: &str, value: &str| {
            let one = json!({"field": field, "type": test, "value": value, "values": [value, "x"]});
            judge(json!({"condition": "filter", "any": false, "filters": [one]}))
        };
        for (field, test, value, met) in [
            ("FLOW_ID", "EQUAL_TO", "intake", true),
            ("FLOW_ID", "NOT_EQUAL_TO", "intake", false),
            ("NAMESPACE", "STARTS_WITH", "shop", true),
            ("NAMESPACE", "ENDS_WITH", "shop", false),
            ("NAMESPACE", "CONTAINS", "p.o", true),
            ("NAMESPACE", "REGEX", "shop\\..*", true),
            ("NAMESPACE", "REGEX", "shop", false),
            ("STATE", "IN", "SUCCESS", true),
            ("STATE", "NOT_IN", "SUCCESS", false),
            ("EXPRESSION", "IS_TRUE", "{{ 1 }}", true),
            ("EXPRESSION", "IS_FALSE", "{{ 0 }}", true),
            ("STATE", "IS_NULL", "", false),
            ("STATE", "IS_NOT_NULL", "", true),
        ] {
            assert_eq!(filter(field, test, value), Ok(met), "{field} {test} {value}");
        }
        let two = json!([
            {"field": "STATE", "type": "EQUAL_TO", "value": "SUCCESS"},
            {"field": "FLOW_ID", "type": "EQUAL_TO", "value": "other"},
        ]);
        assert_eq!(judge(json!({"condition": "filter", "any": true, "filters": two})), Ok(true));
        assert_eq!(judge(json!({"condition": "filter", "any": false, "filters": two})), Ok(false));
    }
}
