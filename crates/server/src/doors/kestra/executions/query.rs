//! What a search of executions asks the store for: from filters, or from the older parameters where there are none.

use crate::call::{Call, Query};
use crate::codes::Code;
use crate::doors::kestra::filters::{self, Field, Filter, Op};
use crate::doors::kestra::flows::SYSTEM_NAMESPACE;
use crate::problem::Problem;
use semel_core::duration;
use semel_core::labels::{KIND, KINDS};
use semel_core::run::KestraState;
use semel_core::{FlowRef, Millis};
use semel_store::search::{
    Cmp, Field as Column, FieldTest, Interval, LabelTest, RunSearch, Sort, SortBy, TextTest, When,
};
use std::collections::BTreeSet;

const FIELDS: &[Field] = &[
    Field::Query,
    Field::Scope,
    Field::FlowId,
    Field::StartDate,
    Field::EndDate,
    Field::State,
    Field::TimeRange,
    Field::Labels,
    Field::TriggerExecutionId,
    Field::ChildFilter,
    Field::Namespace,
    Field::Kind,
    Field::Id,
];

fn illegal(detail: impl Into<String>) -> Problem {
    Problem::new(Code::IllegalArgument, detail)
}

/// The search of a request, without page and order.
pub async fn search(call: &Call) -> Result<RunSearch, Problem> {
    let mut filters = filters::read(&call.query, FIELDS)?;
    if filters.is_empty() {
        filters = older(&call.query)?;
    }
    let regexes = filters.iter().any(|filter| filter.op == Op::Regex);
    let flows = if regexes {
        let workspace = call.workspace()?;
        call.app.read(move |store| store.flows_with_runs(&workspace)).await?
    } else {
        Vec::new()
    };
    let whens = date_filter(call.query.one("dateFilter")?)?;
    read(&filters, &flows, whens.as_deref(), call.now())
}

/// Executions of the other kinds are left out where nobody asks for them.
pub fn usual() -> LabelTest {
    LabelTest::None(KINDS.map(of_kind).to_vec())
}

fn of_kind(word: &str) -> (String, String) {
    (KIND.to_owned(), word.to_owned())
}

/// The older parameters, as filters.
fn older(query: &Query) -> Result<Vec<Filter>, Problem> {
    let mut out = Vec::new();
    for (field, op) in [
        (Field::Query, Op::Equals),
        (Field::Scope, Op::Equals),
        (Field::Namespace, Op::Prefix),
        (Field::FlowId, Op::Equals),
        (Field::StartDate, Op::GreaterThanOrEqualTo),
        (Field::EndDate, Op::LessThanOrEqualTo),
        (Field::TimeRange, Op::Equals),
        (Field::TriggerExecutionId, Op::Equals),
        (Field::ChildFilter, Op::Equals),
    ] {
        if let Some(value) = query.one(field.word())?.filter(|value| !value.is_empty()) {
            out.push(Filter::new(field, op, value));
        }
    }
    let states: Vec<&str> = query.all("state").collect();
    if !states.is_empty() {
        out.push(Filter::new(Field::State, Op::In, &states.join(",")));
    }
    for text in query.all("labels") {
        let (key, value) = filters::label(text)?;
        out.push(Filter { field: Field::Labels, op: Op::Equals, key: Some(key), value });
    }
    Ok(out)
}

/// Which instants an interval is about, where the request says so.
fn date_filter(word: Option<&str>) -> Result<Option<Vec<When>>, Problem> {
    Ok(Some(match word {
        None => return Ok(None),
        Some("START_DATE") => vec![When::Start],
        Some("END_DATE") => vec![When::End],
        Some("START_OR_END_DATE") => vec![When::Start, When::End],
        Some(_) => return Err(illegal("dateFilter is one of START_DATE, END_DATE, START_OR_END_DATE")),
    }))
}

fn read(filters: &[Filter], flows: &[FlowRef], whens: Option<&[When]>, now: Millis) -> Result<RunSearch, Problem> {
    let has = |field: Field| filters.iter().any(|filter| filter.field == field);
    if has(Field::TimeRange) && has(Field::StartDate) {
        return Err(illegal("startDate and timeRange are mutually exclusive"));
    }
    let mut out = RunSearch { now, ..RunSearch::default() };
    let mut chosen: Vec<(Cmp, Millis)> = Vec::new();
    for filter in filters {
        match filter.field {
            Field::Namespace => out.fields.push(text_test(Column::Namespace, filter, flows)?),
            Field::FlowId => out.fields.push(text_test(Column::FlowId, filter, flows)?),
            Field::TriggerExecutionId => out.fields.push(text_test(Column::Parent, filter, flows)?),
            Field::Id => out.fields.push(text_test(Column::Id, filter, flows)?),
            Field::Scope => out.fields.extend(scope(filter)?),
            Field::Labels => label(&mut out.labels, filter)?,
            Field::State => states(&mut out, filter)?,
            Field::Kind => {}
            Field::ChildFilter => out.is_child = Some(child(filter)?),
            Field::Query => match filter.op {
                Op::Equals => out.text = Some(filter.value.clone()).filter(|text| !text.is_empty()),
                _ => return Err(filters::invalid("`q` is searched for with EQUALS")),
            },
            Field::StartDate | Field::EndDate => {
                let test = (cmp(filter.op)?, instant(&filter.value)?);
                let own = if filter.field == Field::StartDate { When::Start } else { When::End };
                match whens {
                    Some(_) => chosen.push(test),
                    None => out.intervals.push(Interval { of: vec![own], tests: vec![test] }),
                }
            }
            Field::TimeRange => {
                let ms = duration::parse_ms(&filter.value).map_err(|error| illegal(format!("timeRange: {error}")))?;
                chosen.push((Cmp::Ge, now.plus(-ms)));
            }
            Field::Updated
            | Field::TriggerId
            | Field::TriggerState
            | Field::ExecutionId
            | Field::WorkerId
            | Field::Level => return Err(filters::invalid(format!("`{}` is not of executions", filter.field.word()))),
        }
    }
    if !chosen.is_empty() {
        let of = whens.map_or(vec![When::Start], <[When]>::to_vec);
        out.intervals.push(Interval { of, tests: chosen });
    }
    // After the labels that are asked for, which are gathered by their operation.
    kinds(&mut out, filters)?;
    Ok(out)
}

fn text_test(field: Column, filter: &Filter, flows: &[FlowRef]) -> Result<FieldTest, Problem> {
    let value = || filter.value.clone();
    let (test, not) = match filter.op {
        Op::Equals => (TextTest::In(vec![value()]), false),
        Op::NotEquals => (TextTest::In(vec![value()]), true),
        Op::In => (TextTest::In(filter.values()), false),
        Op::NotIn => (TextTest::In(filter.values()), true),
        Op::Contains => (TextTest::Contains(value()), false),
        Op::StartsWith => (TextTest::StartsWith(value()), false),
        Op::EndsWith => (TextTest::EndsWith(value()), false),
        Op::Prefix => (TextTest::Prefix(value()), false),
        Op::Regex => (TextTest::In(matching(field, &filter.value, flows)?), false),
        Op::GreaterThan | Op::LessThan | Op::GreaterThanOrEqualTo | Op::LessThanOrEqualTo => {
            return Err(filters::invalid(format!("`{}` cannot be compared", filter.field.word())));
        }
    };
    Ok(FieldTest { field, test, not })
}

/// Largest program that a pattern of a caller may become.
const REGEX_BYTES_MAX: usize = 256 * 1024;

/// Names that a pattern finds something in. Databases have regular expressions of their own, each others; here all
/// stores have the same.
fn matching(field: Column, pattern: &str, flows: &[FlowRef]) -> Result<Vec<String>, Problem> {
    let built = regex::RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    let regex = built.map_err(|_| filters::invalid("the value of REGEX is not a regular expression"))?;
    let name = |flow: &FlowRef| match field {
        Column::Namespace => flow.namespace.clone(),
        Column::FlowId | Column::Id | Column::Parent | Column::Key | Column::Correlation => flow.id.clone(),
    };
    let names: BTreeSet<String> = flows.iter().map(name).filter(|name| regex.is_match(name)).collect();
    Ok(names.into_iter().collect())
}

fn scope(filter: &Filter) -> Result<Option<FieldTest>, Problem> {
    let system = filters::scope(filter)?;
    let test = || TextTest::In(vec![SYSTEM_NAMESPACE.to_owned()]);
    Ok(system.map(|system| FieldTest { field: Column::Namespace, test: test(), not: !system }))
}

/// Several keys under one operation are one test.
fn label(tests: &mut Vec<LabelTest>, filter: &Filter) -> Result<(), Problem> {
    if filter.op == Op::Contains {
        tests.push(LabelTest::Contains(filter.key.clone().unwrap_or_else(|| filter.value.clone())));
        return Ok(());
    }
    let pairs: Vec<(String, String)> = match &filter.key {
        Some(key) => vec![(key.clone(), filter.value.clone())],
        None => filter.values().iter().map(|text| filters::label(text)).collect::<Result<_, _>>()?,
    };
    let known = tests.iter_mut().find_map(|test| match (test, filter.op) {
        (LabelTest::All(known), Op::Equals)
        | (LabelTest::Any(known), Op::In)
        | (LabelTest::None(known), Op::NotEquals | Op::NotIn) => Some(known),
        _ => None,
    });
    match (known, filter.op) {
        (Some(known), _) => known.extend(pairs),
        (None, Op::Equals) => tests.push(LabelTest::All(pairs)),
        (None, Op::In) => tests.push(LabelTest::Any(pairs)),
        (None, _) => tests.push(LabelTest::None(pairs)),
    }
    Ok(())
}

fn states(out: &mut RunSearch, filter: &Filter) -> Result<(), Problem> {
    let parse = |word: &String| {
        KestraState::parse(word)
            .ok_or_else(|| illegal(format!("`{}` is not a state", word.chars().take(50).collect::<String>())))
    };
    let named: BTreeSet<KestraState> = filter.values().iter().map(parse).collect::<Result<_, _>>()?;
    let wanted = match filter.op {
        Op::Equals | Op::In => named,
        _ => KestraState::ALL.into_iter().filter(|state| !named.contains(state)).collect(),
    };
    out.states = Some(match out.states.take() {
        Some(before) => before.intersection(&wanted).copied().collect(),
        None => wanted,
    });
    Ok(())
}

/// The kind of most executions, which says nothing.
const NORMAL: &str = "NORMAL";

/// Which kinds are asked for; without a word about them, the usual one.
fn kinds(out: &mut RunSearch, filters: &[Filter]) -> Result<(), Problem> {
    let asked: Vec<&Filter> = filters.iter().filter(|filter| filter.field == Field::Kind).collect();
    if asked.is_empty() {
        out.labels.push(usual());
        return Ok(());
    }
    let mut wanted = vec![NORMAL, KINDS[0], KINDS[1]];
    for filter in asked {
        let values = filter.values();
        if let Some(word) = values.iter().find(|word| *word != NORMAL && !KINDS.contains(&word.as_str())) {
            return Err(illegal(format!("`{}` is not a kind", word.chars().take(50).collect::<String>())));
        }
        let chosen = matches!(filter.op, Op::Equals | Op::In);
        wanted.retain(|kind| values.iter().any(|word| word == kind) == chosen);
    }
    out.labels.push(if wanted.contains(&NORMAL) {
        LabelTest::None(KINDS.into_iter().filter(|kind| !wanted.contains(kind)).map(of_kind).collect())
    } else {
        LabelTest::Any(wanted.into_iter().map(of_kind).collect())
    });
    Ok(())
}

fn child(filter: &Filter) -> Result<bool, Problem> {
    let child = match filter.value.as_str() {
        "CHILD" => true,
        "MAIN" => false,
        _ => return Err(filters::invalid("`childFilter` is CHILD or MAIN")),
    };
    Ok(child == (filter.op == Op::Equals))
}

fn cmp(op: Op) -> Result<Cmp, Problem> {
    Ok(match op {
        Op::Equals => Cmp::Eq,
        Op::NotEquals => Cmp::Ne,
        Op::GreaterThan => Cmp::Gt,
        Op::GreaterThanOrEqualTo => Cmp::Ge,
        Op::LessThan => Cmp::Lt,
        Op::LessThanOrEqualTo => Cmp::Le,
        _ => return Err(filters::invalid("dates are compared with EQUALS, GREATER_THAN, LESS_THAN and their kin")),
    })
}

/// A date-time with its offset. A `+` that was not encoded has become a blank.
pub fn instant(text: &str) -> Result<Millis, Problem> {
    let found = Millis::parse_rfc3339(text).or_else(|| Millis::parse_rfc3339(&text.replace(' ', "+")));
    found.ok_or_else(|| illegal("a date is written with its offset, such as 2026-01-31T12:00:00Z"))
}

/// Kestra has no limit of its own, and scripts ask for many. Each execution is shown with all of its task runs, which are
/// read for that.
const PAGE_ROWS_MAX: u32 = 1_000;

/// Page and order of a request.
pub fn paged(call: &Call, mut search: RunSearch) -> Result<RunSearch, Problem> {
    let number = |name: &str, default: u32| {
        let found = call
            .query
            .read(name, "a whole number from 1 on", |text| text.parse::<u32>().ok().filter(|number| *number >= 1))?;
        Ok::<u32, Problem>(found.unwrap_or(default))
    };
    let (page, size) = (number("page", 1)?, number("size", 10)?);
    let most = call.app.limits().page_rows_max.max(PAGE_ROWS_MAX);
    if size > most {
        return Err(Problem::query("size", format!("at most {most} are shown on a page")));
    }
    search.limit = size;
    search.offset = u64::from(page - 1) * u64::from(size);
    search.sort = call.query.all("sort").map(sort).collect::<Result<_, _>>()?;
    Ok(search)
}

fn sort(text: &str) -> Result<Sort, Problem> {
    let wrong = || illegal("Invalid sort parameter: write field:asc or field:desc");
    let (field, direction) = text.split_once(':').ok_or_else(wrong)?;
    let by = match field {
        "id" => SortBy::Id,
        "state.startDate" => SortBy::Start,
        "state.endDate" => SortBy::End,
        "state.duration" => SortBy::Duration,
        "namespace" => SortBy::Namespace,
        "flowId" => SortBy::FlowId,
        "state.current" => SortBy::State,
        _ => {
            return Err(illegal(
                "Invalid sort parameter: executions are sorted by id, state.startDate, state.endDate, state.duration, namespace, flowId or state.current",
            ));
        }
    };
    Ok(Sort { by, descending: direction != "asc" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(field: Field, op: Op, value: &str) -> Filter {
        Filter::new(field, op, value)
    }

    fn of(filters: &[Filter]) -> Result<RunSearch, Problem> {
        read(filters, &[FlowRef::new("a.b", "pay"), FlowRef::new("c", "refund")], None, Millis(1_000_000))
    }

    #[test]
    fn states_are_chosen_or_left_out() {
        let found =
            of(&[filter(Field::State, Op::In, "SUCCESS,WARNING"), filter(Field::State, Op::NotEquals, "WARNING")]);
        assert_eq!(found.unwrap().states, Some(BTreeSet::from([KestraState::Success])));
        let unknown = of(&[filter(Field::State, Op::Equals, "DONE")]).unwrap_err();
        assert_eq!(unknown.code, Code::IllegalArgument);
    }

    #[test]
    fn labels_under_one_operation_are_one_test() {
        let label = |op, key: &str, value: &str| Filter { key: Some(key.into()), ..filter(Field::Labels, op, value) };
        let found =
            of(&[label(Op::Equals, "a", "1"), label(Op::Equals, "b", "2"), label(Op::NotIn, "c", "3")]).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            found.labels,
            [LabelTest::All(vec![pair("a", "1"), pair("b", "2")]), LabelTest::None(vec![pair("c", "3")]), usual()]
        );
    }

    #[test]
    fn a_pattern_becomes_the_names_it_finds() {
        let found = of(&[filter(Field::FlowId, Op::Regex, "^p.y$")]).unwrap();
        assert_eq!(found.fields[0].test, TextTest::In(vec!["pay".into()]));
        assert_eq!(of(&[filter(Field::Namespace, Op::Regex, "(")]).unwrap_err().code, Code::FilterInvalid);
    }

    #[test]
    fn intervals_are_of_their_own_dates_or_of_the_chosen_one() {
        let start = filter(Field::StartDate, Op::GreaterThan, "1970-01-01T00:00:10Z");
        let end = filter(Field::EndDate, Op::LessThanOrEqualTo, "1970-01-01T02:00:20 02:00");
        let own = of(&[start.clone(), end.clone()]).unwrap();
        assert_eq!(own.intervals[0], Interval { of: vec![When::Start], tests: vec![(Cmp::Gt, Millis(10_000))] });
        assert_eq!(own.intervals[1], Interval { of: vec![When::End], tests: vec![(Cmp::Le, Millis(20_000))] });
        let chosen = read(&[start.clone(), end], &[], Some(&[When::End]), Millis(0)).unwrap();
        assert_eq!(chosen.intervals.len(), 1);
        let range = filter(Field::TimeRange, Op::Equals, "PT10M");
        assert_eq!(of(std::slice::from_ref(&range)).unwrap().intervals[0].tests, [(Cmp::Ge, Millis(400_000))]);
        assert_eq!(of(&[range, start]).unwrap_err().code, Code::IllegalArgument);
    }

    #[test]
    fn scopes_children_and_kinds() {
        let user = of(&[filter(Field::Scope, Op::Equals, "USER")]).unwrap();
        assert!(user.fields[0].not && user.fields[0].test.holds("system"));
        assert_eq!(of(&[filter(Field::ChildFilter, Op::Equals, "CHILD")]).unwrap().is_child, Some(true));
        assert_eq!(of(&[filter(Field::ChildFilter, Op::NotEquals, "CHILD")]).unwrap().is_child, Some(false));
        let kinds = |op, words: &str| of(&[filter(Field::Kind, op, words)]).unwrap().labels;
        assert_eq!(of(&[]).unwrap().labels, [usual()]);
        assert_eq!(kinds(Op::Equals, "TEST"), [LabelTest::Any(vec![of_kind("TEST")])]);
        assert_eq!(kinds(Op::In, "NORMAL,TEST"), [LabelTest::None(vec![of_kind("PLAYGROUND")])]);
        assert_eq!(kinds(Op::NotEquals, "NORMAL"), [LabelTest::Any(KINDS.map(of_kind).to_vec())]);
        assert_eq!(kinds(Op::NotIn, "NORMAL,TEST,PLAYGROUND"), [LabelTest::Any(vec![])], "nothing is found");
        assert_eq!(of(&[filter(Field::Kind, Op::Equals, "ODD")]).unwrap_err().code, Code::IllegalArgument);
    }

    #[test]
    fn orders_are_read_strictly() {
        assert_eq!(sort("state.startDate:desc").unwrap(), Sort { by: SortBy::Start, descending: true });
        assert_eq!(sort("flowId:asc").unwrap(), Sort { by: SortBy::FlowId, descending: false });
        for bad in ["flowId", "colour:asc", ""] {
            assert!(sort(bad).unwrap_err().detail.starts_with("Invalid sort parameter"), "{bad}");
        }
    }
}
