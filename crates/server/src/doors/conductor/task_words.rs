//! Which workflows a search over tasks has to look through: those whose words say that they may have such a task.
//!
//! Every condition may only leave out workflows that surely have no task of which it is true. One that says nothing
//! about words leaves out none.

use super::query::{Condition, Query, Test, Value};
use super::search::{interval, live_heads};
use super::task::read_id;
use crate::problem::Problem;
use semel_core::Hash16;
use semel_engine::TROUBLES;
use semel_store::search::{Cmp, Interval, RunSearch, TextTest, When};
use semel_store::{WordOf, WordTest};

/// How far the clock of who drove a run may be from that of the store.
const CLOCKS_MS: i64 = 3_600_000;

/// Workflows that have the attempt of this id, or may have it because they were tried again.
pub fn with_id(id: Hash16) -> RunSearch {
    let test = TextTest::In(vec![id.hex()]);
    RunSearch { task_words: vec![WordTest { of: WordOf::Id, test, untold: false }], ..RunSearch::default() }
}

pub fn narrow(search: &mut RunSearch, tasks: &[Query]) -> Result<(), Problem> {
    let narrower = tasks.iter().map(searched).collect::<Result<Vec<_>, Problem>>()?;
    search.groups.extend(narrower.into_iter().flatten().map(|one| vec![one]));
    Ok(())
}

/// What must be true of a workflow that has a task of which this is true; `None` where nothing is known.
fn searched(query: &Query) -> Result<Option<RunSearch>, Problem> {
    match query {
        Query::One(condition) => of_condition(condition),
        Query::All(parts) => {
            let mut all = RunSearch::default();
            narrow(&mut all, parts)?;
            Ok(Some(all).filter(|all| !all.groups.is_empty()))
        }
        Query::Any(parts) => {
            let parts: Option<Vec<RunSearch>> = parts.iter().map(searched).collect::<Result<_, Problem>>()?;
            Ok(parts.map(|parts| RunSearch { groups: vec![parts], ..RunSearch::default() }))
        }
    }
}

fn of_condition(condition: &Condition) -> Result<Option<RunSearch>, Problem> {
    let of = match condition.field.as_str() {
        "taskId" => WordOf::Id,
        "taskType" => WordOf::Kind,
        "taskDefName" => WordOf::Name,
        "referenceTaskName" => WordOf::Reference,
        "status" => WordOf::Trouble,
        _ => return in_time(condition),
    };
    let Test::In { values, not: false } = &condition.test else { return Ok(None) };
    let test = text_test(of, values);
    Ok(test.map(|test| RunSearch { task_words: vec![WordTest { of, test, untold: true }], ..RunSearch::default() }))
}

fn text_test(of: WordOf, values: &[Value]) -> Option<TextTest> {
    if let (WordOf::Kind | WordOf::Name, [Value { text, pattern: true }]) = (of, values) {
        return Some(TextTest::Glob(text.clone()));
    }
    if values.iter().any(|value| value.pattern) {
        return None;
    }
    let texts = values.iter().map(|value| value.text.clone());
    Some(TextTest::In(match of {
        WordOf::Id => texts.filter_map(|text| Some(read_id(&text)?.hex())).collect(),
        WordOf::Reference => texts.flat_map(|text| [plain(&text), text]).collect(),
        WordOf::Trouble if !values.iter().all(|value| TROUBLES.contains(&value.text.as_str())) => return None,
        _ => texts.collect(),
    }))
}

/// A name without what looks like the round of a loop.
fn plain(reference: &str) -> String {
    let is_round = |round: &str| !round.is_empty() && round.bytes().all(|byte| byte.is_ascii_digit());
    match reference.rsplit_once("__") {
        Some((plain, round)) if is_round(round) => plain.to_owned(),
        _ => reference.to_owned(),
    }
}

/// What happens to a task happens after its workflow began, and before it was written to last or is still going on.
fn in_time(condition: &Condition) -> Result<Option<RunSearch>, Problem> {
    let mut search = RunSearch::default();
    for (cmp, bound) in interval(When::Start, condition)?.tests {
        if matches!(cmp, Cmp::Lt | Cmp::Le | Cmp::Eq) {
            let tests = vec![(Cmp::Le, bound.plus(CLOCKS_MS))];
            search.intervals.push(Interval { of: vec![When::Start], tests });
        }
        if matches!(cmp, Cmp::Gt | Cmp::Ge | Cmp::Eq) {
            let tests = vec![(Cmp::Ge, bound.plus(-CLOCKS_MS))];
            let written = Interval { of: vec![When::Update], tests };
            let (ended, open) = (RunSearch { intervals: vec![written], ..RunSearch::default() }, live_heads());
            search.groups.push(vec![ended, RunSearch { heads: Some(open), ..RunSearch::default() }]);
        }
    }
    Ok(Some(search))
}

#[cfg(test)]
mod tests {
    use super::super::query::parse;
    use super::*;

    fn words(query: &str) -> Option<(WordOf, TextTest)> {
        let search = searched(&parse(query).unwrap()).unwrap()?;
        search.task_words.into_iter().next().map(|test| (test.of, test.test))
    }

    fn list(texts: &[&str]) -> TextTest {
        TextTest::In(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn a_condition_asks_for_the_words_that_a_workflow_must_have() {
        assert_eq!(words("taskType = HTTP"), Some((WordOf::Kind, list(&["HTTP"]))));
        assert_eq!(words("taskDefName IN (a, b)"), Some((WordOf::Name, list(&["a", "b"]))));
        assert_eq!(words("taskDefName = pay*"), Some((WordOf::Name, TextTest::Glob("pay*".into()))));
        assert_eq!(words("status IN (FAILED, TIMED_OUT)"), Some((WordOf::Trouble, list(&["FAILED", "TIMED_OUT"]))));
        assert_eq!(words("referenceTaskName = a__2"), Some((WordOf::Reference, list(&["a", "a__2"]))));
        assert_eq!(words("taskId = nonsense"), Some((WordOf::Id, list(&[]))));
    }

    #[test]
    fn what_words_do_not_tell_leaves_out_nothing() {
        for query in [
            "status = COMPLETED",
            "status IN (FAILED, IN_PROGRESS)",
            "status = F*",
            "taskType != HTTP",
            "referenceTaskName = a*",
            "taskDefName IN (a, b*)",
            "taskType = HTTP OR status = COMPLETED",
        ] {
            assert!(searched(&parse(query).unwrap()).unwrap().is_none(), "{query}");
        }
    }
}
