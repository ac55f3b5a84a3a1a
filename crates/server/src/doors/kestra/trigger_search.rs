//! What a search of triggers asks for. A filter is honoured or refused, never left aside.

use super::filters::{self, Field, Filter, Op, compares, invalid};
use super::flows::{SYSTEM_NAMESPACE, mentions};
use super::matching::TextTest;
use crate::call::Call;
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::{Millis, duration};
use semel_engine::TriggerView;

const FIELDS: &[Field] = &[
    Field::Query,
    Field::Scope,
    Field::Namespace,
    Field::WorkerId,
    Field::FlowId,
    Field::StartDate,
    Field::EndDate,
    Field::TimeRange,
    Field::TriggerId,
    Field::TriggerState,
];

/// Parameters of older clients, which count where there are no filters.
const LEGACY: &[(&str, Field, Op)] = &[
    ("q", Field::Query, Op::Equals),
    ("scope", Field::Scope, Op::Equals),
    ("namespace", Field::Namespace, Op::Prefix),
    ("flowId", Field::FlowId, Op::Equals),
    ("triggerId", Field::TriggerId, Op::Equals),
    ("workerId", Field::WorkerId, Op::Equals),
    ("timeRange", Field::TimeRange, Op::Equals),
];

/// What a trigger must be.
enum Test {
    Mentioned(String, bool),
    System(bool),
    Namespace(TextTest),
    Flow(TextTest),
    Trigger(TextTest),
    /// No trigger is at a worker here: it has no name.
    Worker(TextTest),
    /// Its next instant; a trigger without one passes no test of it.
    Due(Op, Millis),
    Disabled(bool),
}

/// All tests must hold.
pub struct Asked(Vec<Test>);

/// Switched off, by somebody or by its flow.
pub fn is_off(view: &TriggerView) -> bool {
    view.row.state.disabled || view.trigger().is_some_and(|trigger| trigger.disabled)
}

impl Test {
    fn of(filter: &Filter, now: Millis) -> Result<Option<Test>, Problem> {
        let text = || TextTest::new(filter);
        Ok(Some(match filter.field {
            Field::Query => Test::Mentioned(filter.value.clone(), filter.op == Op::Equals),
            Field::Scope => return Ok(filters::scope(filter)?.map(Test::System)),
            Field::Namespace => Test::Namespace(text()?),
            Field::FlowId => Test::Flow(text()?),
            Field::TriggerId => Test::Trigger(text()?),
            Field::WorkerId => Test::Worker(text()?),
            Field::StartDate | Field::EndDate => Test::Due(filter.op, filters::instant(filter)?),
            Field::TimeRange => {
                let back = duration::parse_ms(&filter.value);
                let back = back.map_err(|_| invalid("`timeRange` is a duration such as PT24H"))?;
                Test::Due(Op::GreaterThanOrEqualTo, now.plus(-back))
            }
            Field::TriggerState => {
                let off = match filter.value.to_ascii_lowercase().as_str() {
                    "disabled" => true,
                    "enabled" => false,
                    _ => return Err(invalid("`triggerState` is ENABLED or DISABLED")),
                };
                Test::Disabled(off == (filter.op == Op::Equals))
            }
            other => return Err(invalid(format!("`{}` is not of triggers", other.word()))),
        }))
    }

    fn holds(&self, view: &TriggerView) -> bool {
        let row = &view.row;
        match self {
            Test::Mentioned(text, wanted) => mentions(&row.flow, &row.trigger, text) == *wanted,
            Test::System(wanted) => (row.flow.namespace == SYSTEM_NAMESPACE) == *wanted,
            Test::Namespace(test) => test.holds(&row.flow.namespace),
            Test::Flow(test) => test.holds(&row.flow.id),
            Test::Trigger(test) => test.holds(&row.trigger),
            Test::Worker(test) => test.holds(""),
            Test::Due(op, at) => row.next_due.is_some_and(|due| compares(*op, due, *at)),
            Test::Disabled(wanted) => is_off(view) == *wanted,
        }
    }
}

impl Asked {
    /// From `filters[…]`, or, where there is none, from the parameters of older clients.
    pub fn read(call: &Call) -> Result<Asked, Problem> {
        let mut found = filters::read(&call.query, FIELDS)?;
        if found.is_empty() {
            found = filters::legacy(&call.query, LEGACY);
        }
        Asked::of(&found, call.now())
    }

    fn of(found: &[Filter], now: Millis) -> Result<Asked, Problem> {
        let has = |field: Field| found.iter().any(|filter| filter.field == field);
        if has(Field::TimeRange) && has(Field::StartDate) {
            return Err(Problem::new(Code::IllegalArgument, "startDate and timeRange are mutually exclusive"));
        }
        let tests = found.iter().filter_map(|filter| Test::of(filter, now).transpose());
        Ok(Asked(tests.collect::<Result<_, _>>()?))
    }

    pub fn passes(&self, view: &TriggerView) -> bool {
        self.0.iter().all(|test| test.holds(view))
    }
}
