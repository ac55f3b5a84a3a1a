//! The decision log.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Table, Val};
use semel_core::FlowRef;
use semel_store::DecisionRow;
use semel_store::codec::{json, parse_word, word};
use tokio_postgres::Row;

/// Without the number, which the database gives in the order of the rows.
pub const DECISIONS: Table = Table {
    name: "decisions",
    columns: &[
        ("ws", Kind::Text),
        ("at", Kind::Int),
        ("door", Kind::Text),
        ("occurrence", Kind::Text),
        ("namespace", Kind::Text),
        ("flow_id", Kind::Text),
        ("scope", Kind::Text),
        ("key", Kind::Text),
        ("key_source", Kind::Text),
        ("claim", Kind::Id),
        ("fingerprint", Kind::Bytes),
        ("policy", Kind::Text),
        ("prior", Kind::Text),
        ("prior_run", Kind::Id),
        ("prior_generation", Kind::Int),
        ("same_payload", Kind::Bool),
        ("decision", Kind::Text),
        ("reason", Kind::Text),
        ("run", Kind::Id),
        ("generation", Kind::Int),
        ("caller", Kind::Text),
        ("rules_version", Kind::Int),
    ],
    key: 0,
};

pub fn row(row: &DecisionRow) -> Vec<Val<'_>> {
    vec![
        Val::ws(&row.workspace),
        Val::at(row.at),
        Val::own(row.door.word()),
        Val::text(&row.occurrence),
        Val::text(&row.flow.namespace),
        Val::text(&row.flow.id),
        Val::text_opt(row.scope.as_deref()),
        Val::text_opt(row.key.as_deref()),
        Val::own_opt(row.key_source.as_ref().map(word)),
        Val::hash_opt(row.claim),
        Val::bytes(&row.fingerprint.0),
        Val::own(json(&row.policy)),
        Val::own(row.prior.word()),
        Val::run_opt(row.prior_run),
        Val::int(row.prior_generation),
        Val::yes(row.same_payload),
        Val::own(row.decision.word()),
        Val::own(row.reason.word()),
        Val::run_opt(row.run),
        Val::int(row.generation),
        Val::text(&row.caller),
        Val::int(row.rules_version),
    ]
}

/// What [`read`] expects: the columns, then the number.
pub fn columns() -> String {
    format!("{}, seq", DECISIONS.names(""))
}

pub fn read(row: &Row) -> Result<DecisionRow, Error> {
    let source = row.text_opt(8)?.map(|text| parse_word(&text)).transpose()?;
    Ok(DecisionRow {
        seq: row.number(22)?,
        workspace: row.ws(0)?,
        at: row.millis(1)?,
        door: row.word(2)?,
        occurrence: row.text(3)?,
        flow: FlowRef { namespace: row.text(4)?, id: row.text(5)? },
        scope: row.text_opt(6)?,
        key: row.text_opt(7)?,
        key_source: source,
        claim: row.hash_opt(9)?,
        fingerprint: row.fingerprint(10)?,
        policy: row.json(11)?,
        prior: row.word(12)?,
        prior_run: row.run_opt(13)?,
        prior_generation: row.number(14)?,
        same_payload: row.yes(15)?,
        decision: row.word(16)?,
        reason: row.word(17)?,
        run: row.run_opt(18)?,
        generation: row.number(19)?,
        caller: row.text(20)?,
        rules_version: row.number(21)?,
    })
}
