//! `filters[field][OPERATION]=value` and `filters[field][OPERATION][key]=value`: the grammar that all searches of this
//! door share. What a field means is the business of whoever searches.

use crate::call::Query;
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::Millis;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($variant,)+
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }

            pub fn parse(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|one| one.word() == word)
            }
        }
    };
}

words! {
    /// How a value is compared.
    Op {
        Equals = "EQUALS",
        NotEquals = "NOT_EQUALS",
        GreaterThan = "GREATER_THAN",
        LessThan = "LESS_THAN",
        GreaterThanOrEqualTo = "GREATER_THAN_OR_EQUAL_TO",
        LessThanOrEqualTo = "LESS_THAN_OR_EQUAL_TO",
        In = "IN",
        NotIn = "NOT_IN",
        StartsWith = "STARTS_WITH",
        EndsWith = "ENDS_WITH",
        Contains = "CONTAINS",
        Regex = "REGEX",
        Prefix = "PREFIX",
    }
}

words! {
    /// What is compared.
    Field {
        Query = "q",
        Scope = "scope",
        Namespace = "namespace",
        Labels = "labels",
        FlowId = "flowId",
        StartDate = "startDate",
        EndDate = "endDate",
        Updated = "updated",
        State = "state",
        TimeRange = "timeRange",
        TriggerExecutionId = "triggerExecutionId",
        TriggerId = "triggerId",
        TriggerState = "triggerState",
        ExecutionId = "executionId",
        ChildFilter = "childFilter",
        WorkerId = "workerId",
        Level = "level",
        Kind = "kind",
        Id = "id",
    }
}

impl Field {
    /// The operations that the field has.
    pub fn ops(self) -> &'static [Op] {
        use Op::*;
        match self {
            Field::Query | Field::Scope | Field::ChildFilter | Field::Level | Field::TriggerState => {
                &[Equals, NotEquals]
            }
            Field::Namespace | Field::FlowId => {
                &[Equals, NotEquals, Contains, StartsWith, EndsWith, Regex, In, NotIn, Prefix]
            }
            Field::Labels => &[Equals, NotEquals, In, NotIn, Contains],
            Field::State | Field::Kind => &[Equals, NotEquals, In, NotIn],
            Field::StartDate | Field::EndDate | Field::Updated => {
                &[GreaterThan, GreaterThanOrEqualTo, LessThan, LessThanOrEqualTo, Equals, NotEquals]
            }
            Field::TimeRange => &[Equals],
            Field::TriggerExecutionId | Field::TriggerId | Field::ExecutionId | Field::WorkerId | Field::Id => {
                &[Equals, NotEquals, Contains, StartsWith, EndsWith, In, NotIn]
            }
        }
    }
}

/// One filter as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub field: Field,
    pub op: Op,
    pub key: Option<String>,
    pub value: String,
}

impl Filter {
    pub fn new(field: Field, op: Op, value: &str) -> Filter {
        Filter { field, op, key: None, value: value.to_owned() }
    }

    /// The values of an operation that takes several: separated by commas, in brackets or not.
    pub fn values(&self) -> Vec<String> {
        let text = self.value.trim();
        let text = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text);
        text.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
    }
}

pub fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(Code::FilterInvalid, detail)
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// All filters of a query, each of a field that the resource has and of an operation that the field has.
pub fn read(query: &Query, fields: &[Field]) -> Result<Vec<Filter>, Problem> {
    let named = query.0.iter().filter(|(name, _)| name.starts_with("filters"));
    named.map(|(name, value)| one(name, value, fields)).collect()
}

fn one(name: &str, value: &str, fields: &[Field]) -> Result<Filter, Problem> {
    let shown: String = name.chars().take(200).collect();
    let Some((field, op, key)) = parts(name) else {
        return Err(invalid(format!("`{shown}` is not filters[field][OPERATION] or filters[field][OPERATION][key]")));
    };
    let Some(field) = Field::parse(field).filter(|field| fields.contains(field)) else {
        return Err(invalid(format!(
            "`{}` is not a field to filter by; there are {}",
            field.chars().take(100).collect::<String>(),
            list(fields.iter().map(|field| field.word()))
        )));
    };
    let Some(op) = Op::parse(op).filter(|op| field.ops().contains(op)) else {
        return Err(invalid(format!(
            "`{}` is not an operation of `{}`, which has {}",
            op.chars().take(100).collect::<String>(),
            field.word(),
            list(field.ops().iter().map(|op| op.word()))
        )));
    };
    if key.is_some() && field != Field::Labels {
        return Err(invalid(format!("`{}` takes no key", field.word())));
    }
    Ok(Filter { field, op, key: key.map(str::to_owned), value: value.to_owned() })
}

/// Field, operation and key. The key is all up to the last bracket, so it may hold dots and brackets.
fn parts(name: &str) -> Option<(&str, &str, Option<&str>)> {
    let rest = name.strip_prefix("filters[")?;
    let (field, rest) = rest.split_once(']')?;
    let (op, rest) = rest.strip_prefix('[')?.split_once(']')?;
    if rest.is_empty() {
        return Some((field, op, None));
    }
    let key = rest.strip_prefix('[')?.strip_suffix(']')?;
    (!key.is_empty()).then_some((field, op, Some(key)))
}

/// What is asked for by parameters of their own, as older clients do: each that is given is a filter.
pub fn legacy(query: &Query, names: &[(&str, Field, Op)]) -> Vec<Filter> {
    let of = |(name, field, op): &(&str, Field, Op)| -> Vec<Filter> {
        query.all(name).filter(|text| !text.is_empty()).map(|text| Filter::new(*field, *op, text)).collect()
    };
    names.iter().flat_map(of).collect()
}

/// The instant that a date is compared with. A `+` that was not encoded has become a blank.
pub fn instant(filter: &Filter) -> Result<Millis, Problem> {
    let text = &filter.value;
    let found = Millis::parse_rfc3339(text).or_else(|| Millis::parse_rfc3339(&text.replace(' ', "+")));
    found.ok_or_else(|| invalid(format!("`{}` is an instant such as 2026-01-31T10:00:00Z", filter.field.word())))
}

/// Whether an instant stands so to another; false for operations that are not about instants.
pub fn compares(op: Op, at: Millis, wanted: Millis) -> bool {
    match op {
        Op::Equals => at == wanted,
        Op::NotEquals => at != wanted,
        Op::GreaterThan => at > wanted,
        Op::GreaterThanOrEqualTo => at >= wanted,
        Op::LessThan => at < wanted,
        Op::LessThanOrEqualTo => at <= wanted,
        Op::In | Op::NotIn | Op::StartsWith | Op::EndsWith | Op::Contains | Op::Regex | Op::Prefix => false,
    }
}

/// Whether flows of the system are asked for; `None` asks for all.
pub fn scope(filter: &Filter) -> Result<Option<bool>, Problem> {
    let values = filter.values();
    let has = |word: &str| values.iter().any(|value| value.eq_ignore_ascii_case(word));
    let known = |value: &String| value.eq_ignore_ascii_case("SYSTEM") || value.eq_ignore_ascii_case("USER");
    if values.is_empty() || !values.iter().all(known) {
        return Err(invalid("`scope` is USER or SYSTEM"));
    }
    if has("SYSTEM") && has("USER") {
        return if filter.op == Op::Equals { Ok(None) } else { Err(invalid("`scope` leaves nothing to look for")) };
    }
    Ok(Some(has("SYSTEM") == (filter.op == Op::Equals)))
}

/// `key:value`, as labels are written in queries.
pub fn label(text: &str) -> Result<(String, String), Problem> {
    match text.split_once(':') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(Problem::new(Code::IllegalArgument, "Invalid queryString parameter: a label is written key:value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[Field::Namespace, Field::Labels, Field::State, Field::Query];

    fn of(name: &str, value: &str) -> Result<Vec<Filter>, Problem> {
        read(&Query(vec![(name.to_owned(), value.to_owned()), ("size".into(), "1".into())]), FIELDS)
    }

    #[test]
    fn filters_are_read_by_their_brackets() {
        let found = of("filters[labels][EQUALS][system.correlationId]", "payment-1").unwrap();
        assert_eq!(
            found,
            [Filter {
                field: Field::Labels,
                op: Op::Equals,
                key: Some("system.correlationId".into()),
                value: "payment-1".into()
            }]
        );
        assert_eq!(of("filters[labels][EQUALS][a[b]]", "x").unwrap()[0].key.as_deref(), Some("a[b]"));
        assert_eq!(of("filters[namespace][PREFIX]", "a").unwrap()[0].op, Op::Prefix);
        let values = |text: &str| Filter::new(Field::State, Op::In, text).values();
        assert_eq!(values("SUCCESS"), ["SUCCESS"]);
        assert_eq!(values("[SUCCESS, FAILED]"), ["SUCCESS", "FAILED"]);
        assert_eq!(values("A,B,"), ["A", "B"]);
    }

    #[test]
    fn what_is_no_filter_is_refused_with_what_there_is() {
        for (name, said) in [
            ("filters[colour][EQUALS]", "namespace, labels, state, q"),
            ("filters[state][REGEX]", "EQUALS, NOT_EQUALS, IN, NOT_IN"),
            ("filters[startDate][EQUALS]", "not a field"),
            ("filters[state]", "filters[field][OPERATION]"),
            ("filters", "filters[field][OPERATION]"),
            ("filters[state][EQUALS]x", "filters[field][OPERATION]"),
            ("filters[labels][EQUALS][]", "filters[field][OPERATION]"),
            ("filters[state][EQUALS][x]", "takes no key"),
        ] {
            let problem = of(name, "x").unwrap_err();
            assert_eq!(problem.code, Code::FilterInvalid, "{name}");
            assert!(problem.detail.contains(said), "{name}: {}", problem.detail);
        }
    }

    #[test]
    fn labels_keep_the_colons_of_their_values() {
        assert_eq!(label("a: http://x:1 ").unwrap(), ("a".into(), "http://x:1".into()));
        for bad in ["a", ":x", " :x", ""] {
            assert_eq!(label(bad).unwrap_err().code, Code::IllegalArgument, "{bad}");
        }
    }
}
