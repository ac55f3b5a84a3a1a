//! `GET /logs/search`: what all executions wrote. A filter is honoured or refused, never left aside.

use super::filters::{self, Field, Filter, Op, invalid};
use super::flows::SYSTEM_NAMESPACE;
use super::logs::{LEVELS, Steps, entry, from_level, known};
use super::matching::TextTest;
use super::paged::{Paged, results};
use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::{FlowRef, Millis, RunId, duration};
use semel_store::LogQuery;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const FIELDS: &[Field] = &[
    Field::Query,
    Field::Scope,
    Field::Namespace,
    Field::StartDate,
    Field::EndDate,
    Field::TimeRange,
    Field::FlowId,
    Field::TriggerId,
    Field::Level,
    Field::ExecutionId,
];

/// Parameters of older clients, which count where there are no filters.
const LEGACY: &[(&str, Field, Op)] = &[
    ("q", Field::Query, Op::Equals),
    ("scope", Field::Scope, Op::Equals),
    ("namespace", Field::Namespace, Op::Prefix),
    ("flowId", Field::FlowId, Op::Equals),
    ("triggerId", Field::TriggerId, Op::Equals),
    ("executionId", Field::ExecutionId, Op::Equals),
    ("startDate", Field::StartDate, Op::GreaterThanOrEqualTo),
    ("endDate", Field::EndDate, Op::LessThanOrEqualTo),
    ("timeRange", Field::TimeRange, Op::Equals),
];

/// What a search asks for.
#[derive(Default)]
struct Search {
    query: LogQuery,
    flows: Vec<FlowTest>,
    /// What is asked for cannot be: a trigger writes no lines of its own here, and nobody is two executions.
    nothing: bool,
}

enum FlowTest {
    Namespace(TextTest),
    Id(TextTest),
    /// Flows of the system itself, or all others.
    System(bool),
}

impl FlowTest {
    fn holds(&self, flow: &FlowRef) -> bool {
        match self {
            FlowTest::Namespace(test) => test.holds(&flow.namespace),
            FlowTest::Id(test) => test.holds(&flow.id),
            FlowTest::System(wanted) => (flow.namespace == SYSTEM_NAMESPACE) == *wanted,
        }
    }
}

impl Search {
    fn read(call: &Call) -> Result<Search, Problem> {
        let mut asked = filters::read(&call.query, FIELDS)?;
        if asked.is_empty() {
            asked = filters::legacy(&call.query, LEGACY);
        }
        let mut out = Search::of(&asked, call.now())?;
        if let Some(levels) = call.query.read("minLevel", "a level", from_level)? {
            out.levels(levels.to_vec());
        }
        Ok(out)
    }

    fn of(asked: &[Filter], now: Millis) -> Result<Search, Problem> {
        let has = |field: Field| asked.iter().any(|filter| filter.field == field);
        if has(Field::TimeRange) && has(Field::StartDate) {
            return Err(Problem::new(Code::IllegalArgument, "startDate and timeRange are mutually exclusive"));
        }
        let mut out = Search::default();
        for filter in asked {
            out.take(filter, now)?;
        }
        Ok(out)
    }

    fn take(&mut self, filter: &Filter, now: Millis) -> Result<(), Problem> {
        let wrong = |what: &str| invalid(format!("`{}` must be {what}", filter.field.word()));
        match filter.field {
            Field::Query if filter.op != Op::Equals => return Err(wrong("searched for with EQUALS")),
            Field::Query => self.query.text = Some(filter.value.clone()).filter(|text| !text.is_empty()),
            Field::Namespace => self.flows.push(FlowTest::Namespace(TextTest::new(filter)?)),
            Field::FlowId => self.flows.push(FlowTest::Id(TextTest::new(filter)?)),
            Field::Scope => self.flows.extend(filters::scope(filter)?.map(FlowTest::System)),
            Field::Level => {
                let named = from_level(&filter.value).ok_or_else(|| wrong("a level"))?;
                let chosen = |level: &&str| named.contains(level) == (filter.op == Op::Equals);
                self.levels(LEVELS.into_iter().filter(chosen).collect());
            }
            Field::ExecutionId => self.execution(filter)?,
            Field::StartDate | Field::EndDate if filter.op == Op::NotEquals => {
                return Err(wrong("compared with EQUALS, GREATER_THAN, LESS_THAN and their kin"));
            }
            Field::StartDate | Field::EndDate => {
                let at = Millis::parse_rfc3339(&filter.value)
                    .ok_or_else(|| wrong("an instant such as 2026-01-31T10:00:00Z"))?;
                self.bound(filter.op, at);
            }
            Field::TimeRange => {
                let back = duration::parse_ms(&filter.value).map_err(|_| wrong("a duration such as PT24H"))?;
                self.bound(Op::GreaterThanOrEqualTo, now.plus(-back));
            }
            Field::TriggerId => self.nothing |= !matches!(filter.op, Op::NotEquals | Op::NotIn),
            other => return Err(invalid(format!("`{}` is not of logs", other.word()))),
        }
        Ok(())
    }

    /// One execution: the store looks at its lines, or at those of all.
    fn execution(&mut self, filter: &Filter) -> Result<(), Problem> {
        let one = match (filter.op, filter.values().as_slice()) {
            (Op::Equals, _) => filter.value.clone(),
            (Op::In, [one]) => one.clone(),
            _ => return Err(invalid("`executionId` is compared with EQUALS, and with one id")),
        };
        match one.parse::<RunId>() {
            Ok(run) if self.query.run.is_none_or(|known| known == run) => self.query.run = Some(run),
            _ => self.nothing = true,
        }
        Ok(())
    }

    /// All that ask for levels must agree.
    fn levels(&mut self, wanted: Vec<&'static str>) {
        let known = std::mem::take(&mut self.query.levels);
        let both = |level: &&str| known.is_empty() || known.contains(level);
        self.query.levels = wanted.into_iter().filter(both).collect();
        self.nothing |= self.query.levels.is_empty();
    }

    fn bound(&mut self, op: Op, at: Millis) {
        let (from, to) = match op {
            Op::GreaterThan => (Some(at.plus(1)), None),
            Op::GreaterThanOrEqualTo => (Some(at), None),
            Op::LessThan => (None, Some(at)),
            Op::LessThanOrEqualTo => (None, Some(at.plus(1))),
            _ => (Some(at), Some(at.plus(1))),
        };
        self.query.from = self.query.from.max(from);
        self.query.to = match (self.query.to, to) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

pub async fn get(call: Call) -> Answer {
    let (paged, mut search, workspace) = (Paged::read(&call.query)?, Search::read(&call)?, call.workspace()?);
    if search.nothing {
        return results(vec![], 0);
    }
    if !call.sees_payloads() && search.query.text.is_some() {
        return Err(Problem::new(Code::Forbidden, "who may not see messages cannot search in them"));
    }
    search.query.oldest_first = match paged.sort.as_slice() {
        [] => true,
        [(field, ascends)] if field == "timestamp" => *ascends,
        _ => return Err(Problem::query("sort", "Invalid sort parameter: logs are sorted by timestamp")),
    };
    search.query.skip = paged.skip() as u64;
    search.query.limit = u32::try_from(paged.size).unwrap_or(u32::MAX);
    let found = call.app.read(move |store| {
        if !search.flows.is_empty() {
            let passes = |flow: &FlowRef| search.flows.iter().all(|test| test.holds(flow));
            search.query.flows = Some(store.flow_names(&workspace)?.into_iter().filter(passes).collect());
        }
        let (rows, total) = store.log_search(&workspace, &search.query)?;
        let mut steps: BTreeMap<RunId, Steps> = BTreeMap::new();
        for (_, row) in &rows {
            if let Entry::Vacant(slot) = steps.entry(row.run) {
                slot.insert(known(store, &workspace, row.run)?.map(|(_, steps)| steps).unwrap_or_default());
            }
        }
        Ok((rows, total, steps))
    });
    let (rows, total, steps) = found.await?;
    let (payloads, none) = (call.sees_payloads(), Steps::default());
    let shown = rows.iter().map(|(flow, row)| entry(flow, row, steps.get(&row.run).unwrap_or(&none), payloads));
    results(shown.collect(), usize::try_from(total).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(filters: &[(Field, Op, &str)]) -> Result<Search, Code> {
        let filters: Vec<Filter> = filters.iter().map(|(field, op, value)| Filter::new(*field, *op, value)).collect();
        Search::of(&filters, Millis(100_000)).map_err(|problem| problem.code)
    }

    #[test]
    fn bounds_are_all_kept() {
        let mut search = Search::default();
        for (op, at) in
            [(Op::GreaterThanOrEqualTo, 10), (Op::GreaterThan, 4), (Op::LessThan, 50), (Op::LessThanOrEqualTo, 20)]
        {
            search.bound(op, Millis(at));
        }
        assert_eq!((search.query.from, search.query.to), (Some(Millis(10)), Some(Millis(21))));
    }

    #[test]
    fn every_filter_is_honoured_or_refused() {
        let levels = |filters: &[(Field, Op, &str)]| of(filters).unwrap().query.levels;
        assert_eq!(levels(&[(Field::Level, Op::Equals, "WARN")]), ["WARN", "ERROR"]);
        assert_eq!(levels(&[(Field::Level, Op::NotEquals, "WARN")]), ["TRACE", "DEBUG", "INFO"]);
        let both = [(Field::Level, Op::Equals, "INFO"), (Field::Level, Op::NotEquals, "ERROR")];
        assert_eq!(levels(&both), ["INFO", "WARN"]);
        let flow = |namespace: &str| FlowRef::new(namespace, "f");
        let scoped = |op, word| of(&[(Field::Scope, op, word)]).unwrap().flows.pop().unwrap();
        assert!(
            scoped(Op::Equals, "SYSTEM").holds(&flow("system")) && !scoped(Op::Equals, "USER").holds(&flow("system"))
        );
        assert!(scoped(Op::NotEquals, "SYSTEM").holds(&flow("shop")));
        let (one, two) = (RunId::from_bytes([1; 16]).to_string(), RunId::from_bytes([2; 16]).to_string());
        assert!(of(&[(Field::ExecutionId, Op::In, &one)]).unwrap().query.run.is_some());
        let two_at_once = [(Field::ExecutionId, Op::Equals, one.as_str()), (Field::ExecutionId, Op::Equals, &two)];
        assert!(of(&two_at_once).unwrap().nothing);
        for (refused, code) in [
            (vec![(Field::Query, Op::NotEquals, "x")], Code::FilterInvalid),
            (vec![(Field::ExecutionId, Op::NotEquals, one.as_str())], Code::FilterInvalid),
            (vec![(Field::StartDate, Op::NotEquals, "2026-01-01T00:00:00Z")], Code::FilterInvalid),
            (vec![(Field::Scope, Op::Equals, "MINE")], Code::FilterInvalid),
            (
                vec![(Field::TimeRange, Op::Equals, "PT1M"), (Field::StartDate, Op::Equals, "2026-01-01T00:00:00Z")],
                Code::IllegalArgument,
            ),
        ] {
            assert_eq!(of(&refused).err(), Some(code), "{refused:?}");
        }
    }
}
