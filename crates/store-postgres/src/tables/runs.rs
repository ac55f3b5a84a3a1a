//! Heads of runs and the user's values.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Table, Val};
use crate::set::Pair;
use crate::wants::RunKey;
use semel_core::FlowRef;
use semel_core::run::StepKey;
use semel_store::codec::{Damaged, json};
use semel_store::{LaneRef, ParentRef, RunMore, RunRow, RunValues};
use tokio_postgres::Row;

pub type Labels = Vec<(String, String)>;

pub const RUNS: Table = Table {
    name: "runs",
    columns: &[
        ("ws", Kind::Text),
        ("id", Kind::Id),
        ("namespace", Kind::Text),
        ("flow_id", Kind::Text),
        ("revision", Kind::Int),
        ("status", Kind::Text),
        ("epoch", Kind::Int),
        ("version", Kind::Int),
        ("active", Kind::Bool),
        ("open_intents", Kind::Int),
        ("open_doubts", Kind::Int),
        ("logical", Kind::Id),
        ("take", Kind::Int),
        ("generation", Kind::Int),
        ("claim", Kind::Id),
        ("lane", Kind::Id),
        ("lane_limit", Kind::Int),
        ("parent", Kind::Id),
        ("parent_step", Kind::Text),
        ("parent_waits", Kind::Bool),
        ("root", Kind::Id),
        ("depth", Kind::Int),
        ("correlation_id", Kind::Text),
        ("door", Kind::Text),
        ("key", Kind::Text),
        ("created_at", Kind::Int),
        ("started_at", Kind::Int),
        ("ended_at", Kind::Int),
        ("updated_at", Kind::Int),
        ("warned", Kind::Bool),
        ("erased", Kind::Bool),
        ("conclusion", Kind::Text),
        ("more", Kind::Text),
        ("owner", Kind::Int),
    ],
    key: 2,
};
const OWNER: usize = 33;

/// How many columns a head has: values come after it.
pub const HEAD: usize = RUNS.columns.len();

pub fn row(run: &RunRow, owner: Option<i64>) -> Vec<Val<'_>> {
    let own = run.id.to_string();
    let parent = run.parent.as_ref();
    vec![
        Val::ws(&run.workspace),
        Val::run(run.id),
        Val::text(&run.flow.namespace),
        Val::text(&run.flow.id),
        Val::int(run.revision),
        Val::own(run.status.word()),
        Val::number(run.epoch),
        Val::number(run.version),
        Val::yes(run.active),
        Val::int(run.open_intents),
        Val::int(run.open_doubts),
        Val::run(run.logical),
        Val::int(run.take),
        Val::int(run.generation),
        Val::hash_opt(run.claim),
        Val::hash_opt(run.lane.map(|lane| lane.hash)),
        Val::Int(run.lane.map(|lane| i64::from(lane.limit))),
        Val::run_opt(parent.map(|p| p.run)),
        Val::text_opt(parent.map(|p| p.step.0.as_str())),
        Val::Bool(parent.map(|p| p.waits)),
        Val::run(run.root),
        Val::int(run.depth),
        Val::text_opt(Some(run.correlation_id.as_str()).filter(|id| *id != own)),
        Val::own(run.door.word()),
        Val::text_opt(run.key.as_deref()),
        Val::at(run.created_at),
        Val::at_opt(run.started_at),
        Val::at_opt(run.ended_at),
        Val::at(run.updated_at),
        Val::yes(run.warned),
        Val::yes(run.erased),
        Val::own_opt(run.conclusion.map(|conclusion| conclusion.word().to_owned())),
        Val::own_opt((!run.more.is_nothing()).then(|| json(&run.more))),
        Val::Int(owner),
    ]
}

/// The node that drives the run.
pub fn owner(row: &Row) -> Result<Option<i64>, Error> {
    row.int_opt(OWNER)
}

pub fn read(row: &Row) -> Result<RunRow, Error> {
    let id = row.run(1)?;
    let lane = match row.hash_opt(15)? {
        Some(hash) => Some(LaneRef { hash, limit: row.number(16)? }),
        None => None,
    };
    let parent = match row.run_opt(17)? {
        Some(run) => Some(ParentRef { run, step: StepKey(row.text(18)?), waits: row.yes(19)? }),
        None => None,
    };
    Ok(RunRow {
        id,
        workspace: row.ws(0)?,
        flow: FlowRef { namespace: row.text(2)?, id: row.text(3)? },
        revision: row.number(4)?,
        status: row.word(5)?,
        epoch: row.number(6)?,
        version: row.number(7)?,
        active: row.yes(8)?,
        open_intents: row.number(9)?,
        open_doubts: row.number(10)?,
        logical: row.run(11)?,
        take: row.number(12)?,
        generation: row.number(13)?,
        claim: row.hash_opt(14)?,
        lane,
        parent,
        root: row.run(20)?,
        depth: row.number(21)?,
        correlation_id: row.text_opt(22)?.unwrap_or_else(|| id.to_string()),
        door: row.word(23)?,
        key: row.text_opt(24)?,
        created_at: row.millis(25)?,
        started_at: row.millis_opt(26)?,
        ended_at: row.millis_opt(27)?,
        updated_at: row.millis(28)?,
        warned: row.yes(29)?,
        erased: row.yes(30)?,
        conclusion: row.word_opt(31)?,
        more: match row.json_opt(32)? {
            Some(more) => serde_json::from_value(more).map_err(|error| Damaged(error.to_string()))?,
            None => RunMore::default(),
        },
    })
}

pub const VALUES: Table = Table {
    name: "run_values",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("inputs", Kind::Text),
        ("trigger", Kind::Text),
        ("outputs", Kind::Text),
        ("failure", Kind::Text),
        ("labels", Kind::Text),
    ],
    key: 2,
};

/// What a run was given (inputs, trigger) and what it came to (outputs, failure).
pub fn values_row<'a>(
    (ws, run): &'a RunKey,
    given: Option<&Pair>,
    results: Option<&Pair>,
    labels: &Labels,
) -> Vec<Val<'a>> {
    let text = |value: Option<&serde_json::Value>| Val::own_opt(value.map(json));
    vec![
        Val::ws(ws),
        Val::run(*run),
        text(given.and_then(|pair| pair.0.as_ref())),
        text(given.and_then(|pair| pair.1.as_ref())),
        text(results.and_then(|pair| pair.0.as_ref())),
        text(results.and_then(|pair| pair.1.as_ref())),
        Val::own(json(labels)),
    ]
}

/// Values and labels from columns that start at `from`, in the order of the table after its key.
pub fn read_values(row: &Row, from: usize) -> Result<(RunValues, Labels), Error> {
    let values = RunValues {
        inputs: row.json_opt(from)?,
        trigger: row.json_opt(from + 1)?,
        outputs: row.json_opt(from + 2)?,
        failure: row.json_opt(from + 3)?,
    };
    Ok((values, row.json(from + 4)?))
}

pub const LABELS: Table = Table {
    name: "run_labels",
    columns: &[("ws", Kind::Text), ("name", Kind::Text), ("value", Kind::Text), ("run", Kind::Id)],
    key: 4,
};
