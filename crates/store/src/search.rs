//! Search over runs with exact totals: any filter, any order, any page.
//!
//! Lists ([`RunQuery`](crate::RunQuery)) walk an index and go on from a cursor. This is for those who ask how many there
//! are and leaf through by number. The oracle filters rows by [`RunSearch::matches`]; the stores in SQL share the text
//! made by [`RunSearch::conditions`], in which user values are never written, only bound.

use crate::rows::RunRow;
use crate::words::{TaskWord, WordTest};
use semel_core::run::{KestraState, StateOf};
use semel_core::{Millis, RunId};
use std::cmp::Ordering;
use std::collections::BTreeSet;

pub use semel_core::labels::CORRELATION as CORRELATION_LABEL;

/// All tests must hold.
#[derive(Clone, Debug, Default)]
pub struct RunSearch {
    pub fields: Vec<FieldTest>,
    /// Only runs in one of these states.
    pub states: Option<BTreeSet<KestraState>>,
    /// Only runs that stand in one of these ways; what Kestra has no word for.
    pub heads: Option<Vec<StateOf>>,
    pub labels: Vec<LabelTest>,
    /// Only runs that may have a task of which this is true.
    pub task_words: Vec<WordTest>,
    pub intervals: Vec<Interval>,
    pub is_child: Option<bool>,
    /// Part of a namespace, a flow id or a run id, whatever its case.
    pub text: Option<String>,
    /// Part of a flow id, a run id, a correlation id or a key, whatever its case.
    pub words: Option<String>,
    /// Of each group the tests of one search must hold; what else a search says counts for nothing there.
    pub groups: Vec<Vec<RunSearch>>,
    pub sort: Vec<Sort>,
    pub offset: u64,
    pub limit: u32,
    /// How long a run that goes on has taken is measured by this.
    pub now: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Namespace,
    FlowId,
    Id,
    /// The run that started it; a test of it never holds for a run without one.
    Parent,
    /// The event key; likewise.
    Key,
    /// What the caller calls what the run belongs to; likewise.
    Correlation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextTest {
    In(Vec<String>),
    Contains(String),
    StartsWith(String),
    EndsWith(String),
    /// Any text may stand for a `*`.
    Glob(String),
    /// The name itself and what is below it (`a` and `a.b`, not `ab`).
    Prefix(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTest {
    pub field: Field,
    pub test: TextTest,
    pub not: bool,
}

pub type Label = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelTest {
    All(Vec<Label>),
    Any(Vec<Label>),
    None(Vec<Label>),
    /// Part of a name or a value, whatever its case.
    Contains(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Start,
    End,
    /// Anything happened to it last.
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

/// One of the instants passes all tests; an end that has not come passes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    pub of: Vec<When>,
    pub tests: Vec<(Cmp, Millis)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    Id,
    Start,
    End,
    Duration,
    Namespace,
    FlowId,
    State,
    Update,
    Correlation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub by: SortBy,
    pub descending: bool,
}

impl RunRow {
    pub fn state_of(&self) -> StateOf {
        StateOf {
            status: self.status,
            warned: self.warned,
            ended: self.ended_at.is_some(),
            conclusion: self.conclusion,
        }
    }
}

impl TextTest {
    pub fn holds(&self, text: &str) -> bool {
        match self {
            TextTest::In(list) => list.iter().any(|one| one == text),
            TextTest::Contains(part) => text.contains(part.as_str()),
            TextTest::StartsWith(part) => text.starts_with(part.as_str()),
            TextTest::EndsWith(part) => text.ends_with(part.as_str()),
            TextTest::Glob(pattern) => glob(pattern, text),
            TextTest::Prefix(name) => {
                text.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
        }
    }
}

/// Case counts. A `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The correlation id that somebody gave; a run has its own id where nobody did.
fn correlation(row: &RunRow) -> Option<&str> {
    Some(row.correlation_id.as_str()).filter(|id| *id != row.id.to_string())
}

impl FieldTest {
    fn holds(&self, row: &RunRow) -> bool {
        let found = match self.field {
            Field::Namespace => self.test.holds(&row.flow.namespace),
            Field::FlowId => self.test.holds(&row.flow.id),
            Field::Id => self.test.holds(&row.id.to_string()),
            Field::Parent => match &row.parent {
                Some(parent) => self.test.holds(&parent.run.to_string()),
                None => return false,
            },
            Field::Key => match &row.key {
                Some(key) => self.test.holds(key),
                None => return false,
            },
            Field::Correlation => match correlation(row) {
                Some(id) => self.test.holds(id),
                None => return false,
            },
        };
        found != self.not
    }
}

impl LabelTest {
    fn holds(&self, row: &RunRow, labels: &[Label]) -> bool {
        let has = |(name, value): &Label| {
            if name == CORRELATION_LABEL {
                row.correlation_id == *value
            } else {
                labels.contains(&(name.clone(), value.clone()))
            }
        };
        match self {
            LabelTest::All(pairs) => pairs.iter().all(has),
            LabelTest::Any(pairs) => pairs.iter().any(has),
            LabelTest::None(pairs) => !pairs.iter().any(has),
            LabelTest::Contains(part) => {
                let part = part.to_ascii_lowercase();
                let holds = |text: &str| text.to_ascii_lowercase().contains(&part);
                labels.iter().any(|(name, value)| holds(name) || holds(value))
                    || holds(CORRELATION_LABEL)
                    || holds(&row.correlation_id)
            }
        }
    }
}

impl Cmp {
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Cmp::Eq => order == Ordering::Equal,
            Cmp::Ne => order != Ordering::Equal,
            Cmp::Gt => order == Ordering::Greater,
            Cmp::Ge => order != Ordering::Less,
            Cmp::Lt => order == Ordering::Less,
            Cmp::Le => order != Ordering::Greater,
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Cmp::Eq => "=",
            Cmp::Ne => "<>",
            Cmp::Gt => ">",
            Cmp::Ge => ">=",
            Cmp::Lt => "<",
            Cmp::Le => "<=",
        }
    }
}

impl Interval {
    fn holds(&self, row: &RunRow) -> bool {
        let passes = |at: Millis| self.tests.iter().all(|(cmp, bound)| cmp.holds(at.cmp(bound)));
        self.of.iter().any(|when| match when {
            When::Start => passes(row.created_at),
            When::End => row.ended_at.is_some_and(passes),
            When::Update => passes(row.updated_at),
        })
    }
}

/// The oracle's side.
impl RunSearch {
    pub fn matches(&self, row: &RunRow, labels: &[Label], words: &BTreeSet<TaskWord>) -> bool {
        let part = self.text.as_ref().map(|text| text.to_ascii_lowercase());
        let holds_part = |part: &String| {
            let texts = [row.flow.namespace.as_str(), &row.flow.id, &row.id.to_string()];
            texts.iter().any(|text| text.to_ascii_lowercase().contains(part))
        };
        self.fields.iter().all(|test| test.holds(row))
            && self.states.as_ref().is_none_or(|states| states.contains(&row.state_of().kestra()))
            && self.heads.as_ref().is_none_or(|heads| heads.contains(&row.state_of()))
            && self.words.as_ref().is_none_or(|part| has_words(row, &part.to_ascii_lowercase()))
            && self.labels.iter().all(|test| test.holds(row, labels))
            && self.task_words.iter().all(|test| test.holds(words))
            && self.intervals.iter().all(|interval| interval.holds(row))
            && self.is_child.is_none_or(|child| row.parent.is_some() == child)
            && part.as_ref().is_none_or(holds_part)
            && self.groups.iter().all(|group| group.iter().any(|search| search.matches(row, labels, words)))
    }

    pub fn compare(&self, a: &RunRow, b: &RunRow) -> Ordering {
        let took = |row: &RunRow| row.ended_at.unwrap_or(self.now).since(row.created_at);
        for sort in &self.sort {
            let order = match sort.by {
                SortBy::Id => a.id.cmp(&b.id),
                SortBy::Start => a.created_at.cmp(&b.created_at),
                SortBy::End => a.ended_at.map_or(i64::MAX, |at| at.0).cmp(&b.ended_at.map_or(i64::MAX, |at| at.0)),
                SortBy::Duration => took(a).cmp(&took(b)),
                SortBy::Namespace => a.flow.namespace.cmp(&b.flow.namespace),
                SortBy::FlowId => a.flow.id.cmp(&b.flow.id),
                SortBy::State => a.state_of().kestra().word().cmp(b.state_of().kestra().word()),
                SortBy::Update => a.updated_at.cmp(&b.updated_at),
                SortBy::Correlation => correlation(a).unwrap_or_default().cmp(correlation(b).unwrap_or_default()),
            };
            let order = if sort.descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        b.id.cmp(&a.id)
    }
}

fn has_words(row: &RunRow, part: &str) -> bool {
    let holds = |text: &str| text.to_ascii_lowercase().contains(part);
    let given = [row.key.as_deref(), correlation(row)];
    holds(&row.flow.id) || holds(&row.id.to_string()) || given.into_iter().flatten().any(holds)
}

/// What stands for a `?` of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    Workspace,
    Text(String),
    Int(i64),
    Run(RunId),
}

/// Where databases differ.
#[derive(Clone, Copy)]
pub struct Dialect {
    /// The function that finds the place of the second text in the first.
    pub place: &'static str,
    /// The text of an id in this column.
    pub id_text: fn(&str) -> String,
    /// The term that a column fits the pattern that is bound, and the pattern in the words of the database.
    pub glob: (&'static str, fn(&str) -> String),
}

/// Terms that begin with ` AND `, over the alias `r` of runs.
pub struct Conditions {
    pub text: String,
    pub binds: Vec<Bind>,
    dialect: Dialect,
}

impl RunSearch {
    pub fn conditions(&self, dialect: Dialect) -> Conditions {
        let mut out = Conditions { text: String::new(), binds: Vec::new(), dialect };
        self.add_to(&mut out);
        out
    }

    fn add_to(&self, out: &mut Conditions) {
        for test in &self.fields {
            out.field(test);
        }
        if let Some(states) = &self.states {
            let wanted = StateOf::all().filter(|head| states.contains(&head.kestra()));
            out.heads(&wanted.collect::<Vec<_>>());
        }
        if let Some(heads) = &self.heads {
            out.heads(heads);
        }
        if let Some(words) = &self.words {
            out.words(words);
        }
        for test in &self.labels {
            out.label(test);
        }
        for test in &self.task_words {
            out.task_word(test);
        }
        for interval in &self.intervals {
            out.interval(interval);
        }
        if let Some(child) = self.is_child {
            out.text += if child { " AND r.parent IS NOT NULL" } else { " AND r.parent IS NULL" };
        }
        if let Some(text) = &self.text {
            out.part(text);
        }
        for group in &self.groups {
            let before = std::mem::take(&mut out.text);
            let mut terms = vec!["1 = 0".to_owned()];
            for search in group {
                search.add_to(out);
                terms.push(format!("(1 = 1{})", std::mem::take(&mut out.text)));
            }
            out.text = format!("{before} AND ({})", terms.join(" OR "));
        }
    }

    /// The order, newest first where all else is equal.
    pub fn order(&self) -> String {
        let term = |sort: &Sort| {
            let by = match sort.by {
                SortBy::Id => "r.id".to_owned(),
                SortBy::Start => "r.created_at".to_owned(),
                SortBy::End => format!("coalesce(r.ended_at, {})", i64::MAX),
                SortBy::Duration => format!("coalesce(r.ended_at, {}) - r.created_at", self.now.0),
                SortBy::Namespace => "r.namespace".to_owned(),
                SortBy::FlowId => "r.flow_id".to_owned(),
                SortBy::State => state_case(),
                SortBy::Update => "r.updated_at".to_owned(),
                SortBy::Correlation => "coalesce(r.correlation_id, '')".to_owned(),
            };
            format!("{by}{}, ", if sort.descending { " DESC" } else { "" })
        };
        format!("{}r.id DESC", self.sort.iter().map(term).collect::<String>())
    }
}

/// The words of a head's state, for sorting.
fn state_case() -> String {
    let when = |head: StateOf| format!(" WHEN {} THEN '{}'", head_sql(head), head.kestra().word());
    format!("(CASE{} ELSE '' END)", StateOf::all().map(when).collect::<String>())
}

fn head_sql(head: StateOf) -> String {
    let warned = if head.warned { "r.warned" } else { "NOT r.warned" };
    let ended = if head.ended { "r.ended_at IS NOT NULL" } else { "r.ended_at IS NULL" };
    let concluded = match head.conclusion {
        Some(conclusion) => format!("r.conclusion = '{}'", conclusion.word()),
        None => "r.conclusion IS NULL".to_owned(),
    };
    format!("(r.status = '{}' AND {warned} AND {ended} AND {concluded})", head.status.word())
}

impl Conditions {
    fn bind(&mut self, value: Bind) -> &'static str {
        self.binds.push(value);
        "?"
    }

    fn bind_text(&mut self, text: &str) -> &'static str {
        self.bind(Bind::Text(text.to_owned()))
    }

    fn field(&mut self, test: &FieldTest) {
        let column = match test.field {
            Field::Namespace => "r.namespace".to_owned(),
            Field::FlowId => "r.flow_id".to_owned(),
            Field::Id => "r.id".to_owned(),
            Field::Parent => "r.parent".to_owned(),
            Field::Key => "r.key".to_owned(),
            Field::Correlation => "r.correlation_id".to_owned(),
        };
        let is_id = matches!(test.field, Field::Id | Field::Parent);
        let term = match &test.test {
            TextTest::In(list) if is_id => {
                // What is no id is nobody's.
                let ids: Vec<RunId> = list.iter().filter_map(|text| text.parse().ok()).collect();
                self.one_of(&column, ids.into_iter().map(Bind::Run).collect())
            }
            TextTest::In(list) => self.one_of(&column, list.iter().cloned().map(Bind::Text).collect()),
            other => {
                let text = if is_id { (self.dialect.id_text)(&column) } else { column.clone() };
                self.text_term(&text, other)
            }
        };
        let there = match test.field {
            Field::Parent | Field::Key | Field::Correlation => format!("{column} IS NOT NULL AND "),
            Field::Namespace | Field::FlowId | Field::Id => String::new(),
        };
        self.text += &format!(" AND ({there}{}({term}))", if test.not { "NOT " } else { "" });
    }

    fn one_of(&mut self, column: &str, values: Vec<Bind>) -> String {
        if values.is_empty() {
            return "1 = 0".to_owned();
        }
        let marks: Vec<&str> = values.into_iter().map(|value| self.bind(value)).collect();
        format!("{column} IN ({})", marks.join(", "))
    }

    fn text_term(&mut self, column: &str, test: &TextTest) -> String {
        let place = self.dialect.place;
        match test {
            TextTest::In(list) => self.one_of(column, list.iter().cloned().map(Bind::Text).collect()),
            TextTest::Contains(part) => format!("{place}({column}, {}) > 0", self.bind_text(part)),
            TextTest::StartsWith(part) => self.starts(column, part),
            TextTest::Glob(pattern) => {
                let (term, words) = self.dialect.glob;
                let mark = self.bind(Bind::Text(words(pattern)));
                format!("{column} {}", term.replace('?', mark))
            }
            TextTest::EndsWith(part) => {
                let length = part.chars().count();
                let mark = self.bind_text(part);
                format!("length({column}) >= {length} AND substr({column}, length({column}) - {length} + 1) = {mark}")
            }
            TextTest::Prefix(name) => {
                let own = format!("{column} = {}", self.bind_text(name));
                format!("{own} OR {}", self.starts(column, &format!("{name}.")))
            }
        }
    }

    fn starts(&mut self, column: &str, part: &str) -> String {
        format!("substr({column}, 1, {}) = {}", part.chars().count(), self.bind_text(part))
    }

    fn heads(&mut self, heads: &[StateOf]) {
        if heads.is_empty() {
            self.text += " AND 1 = 0";
            return;
        }
        let mut terms = Vec::new();
        for status in heads.iter().map(|head| head.status).collect::<BTreeSet<_>>() {
            let every = StateOf::all().filter(|head| head.status == status).count();
            let wanted: Vec<String> = heads.iter().filter(|head| head.status == status).map(|h| head_sql(*h)).collect();
            if wanted.len() == every {
                terms.push(format!("r.status = '{}'", status.word()));
            } else {
                terms.extend(wanted);
            }
        }
        self.text += &format!(" AND ({})", terms.join(" OR "));
    }

    fn label(&mut self, test: &LabelTest) {
        let term = match test {
            LabelTest::All(pairs) => self.pairs(pairs, " AND "),
            LabelTest::Any(pairs) => self.pairs(pairs, " OR "),
            LabelTest::None(pairs) => format!("NOT coalesce(({}), 1 = 0)", self.pairs(pairs, " OR ")),
            LabelTest::Contains(part) => self.label_part(&part.to_ascii_lowercase()),
        };
        self.text += &format!(" AND ({term})");
    }

    fn pairs(&mut self, pairs: &[Label], between: &str) -> String {
        if pairs.is_empty() {
            return if between == " AND " { "1 = 1" } else { "1 = 0" }.to_owned();
        }
        let terms: Vec<String> = pairs.iter().map(|pair| self.pair(pair)).collect();
        terms.join(between)
    }

    fn pair(&mut self, (name, value): &Label) -> String {
        if name == CORRELATION_LABEL {
            let given = format!("r.correlation_id = {}", self.bind_text(value));
            // A run whose correlation id is its own id stores none.
            return match value.parse::<RunId>() {
                Ok(id) => format!("({given} OR (r.correlation_id IS NULL AND r.id = {}))", self.bind(Bind::Run(id))),
                Err(()) => given,
            };
        }
        let ws = self.bind(Bind::Workspace);
        let (name, value) = (self.bind_text(name), self.bind_text(value));
        format!("r.id IN (SELECT l.run FROM run_labels l WHERE l.ws = {ws} AND l.name = {name} AND l.value = {value})")
    }

    fn label_part(&mut self, part: &str) -> String {
        if CORRELATION_LABEL.to_ascii_lowercase().contains(part) {
            return "1 = 1".to_owned(); // every run has this one
        }
        let (place, id) = (self.dialect.place, (self.dialect.id_text)("r.id"));
        let ws = self.bind(Bind::Workspace);
        let labels = format!(
            "r.id IN (SELECT l.run FROM run_labels l WHERE l.ws = {ws} AND ({place}(lower(l.name), {}) > 0 OR {place}(lower(l.value), {}) > 0))",
            self.bind_text(part),
            self.bind_text(part)
        );
        let own = format!("{place}(lower(coalesce(r.correlation_id, {id})), {}) > 0", self.bind_text(part));
        format!("{labels} OR {own}")
    }

    fn task_word(&mut self, test: &WordTest) {
        let ws = self.bind(Bind::Workspace);
        let of = self.bind_text(test.of.word());
        let term = self.text_term("w.word", &test.test);
        let mut terms =
            vec![format!("r.id IN (SELECT w.run FROM task_words w WHERE w.ws = {ws} AND w.kind = {of} AND ({term}))")];
        for stand_in in test.stand_ins() {
            let ws = self.bind(Bind::Workspace);
            let kind = stand_in.word();
            terms.push(format!("r.id IN (SELECT w.run FROM task_words w WHERE w.ws = {ws} AND w.kind = '{kind}')"));
        }
        self.text += &format!(" AND ({})", terms.join(" OR "));
    }

    fn interval(&mut self, interval: &Interval) {
        let mut terms = Vec::new();
        for when in &interval.of {
            let column = match when {
                When::Start => "r.created_at",
                When::End => "r.ended_at",
                When::Update => "r.updated_at",
            };
            let mut all = vec![format!("{column} IS NOT NULL")];
            for (cmp, at) in &interval.tests {
                all.push(format!("{column} {} {}", cmp.sql(), self.bind(Bind::Int(at.0))));
            }
            terms.push(format!("({})", all.join(" AND ")));
        }
        let terms = if terms.is_empty() { "1 = 0".to_owned() } else { terms.join(" OR ") };
        self.text += &format!(" AND ({terms})");
    }

    fn words(&mut self, text: &str) {
        let (place, part) = (self.dialect.place, text.to_ascii_lowercase());
        let id = (self.dialect.id_text)("r.id");
        let columns =
            ["lower(r.flow_id)", id.as_str(), "lower(coalesce(r.key, ''))", "lower(coalesce(r.correlation_id, ''))"];
        let terms: Vec<String> =
            columns.iter().map(|column| format!("{place}({column}, {}) > 0", self.bind_text(&part))).collect();
        self.text += &format!(" AND ({})", terms.join(" OR "));
    }

    fn part(&mut self, text: &str) {
        let (place, part) = (self.dialect.place, text.to_ascii_lowercase());
        let columns = ["lower(r.namespace)".to_owned(), "lower(r.flow_id)".to_owned(), (self.dialect.id_text)("r.id")];
        let terms: Vec<String> =
            columns.iter().map(|column| format!("{place}({column}, {}) > 0", self.bind_text(&part))).collect();
        self.text += &format!(" AND ({})", terms.join(" OR "));
    }
}
