//! Claims, lanes and who waits in them.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Table, Val};
use semel_core::admission::{Claim, Lane};
use semel_core::{Hash16, WorkspaceId};
use semel_store::codec::{json, parse_window, window_text};
use semel_store::memory::forget_at;
use tokio_postgres::Row;

pub const CLAIMS: Table = Table {
    name: "claims",
    columns: &[
        ("ws", Kind::Text),
        ("hash", Kind::Id),
        ("key", Kind::Text),
        ("scope", Kind::Text),
        ("run", Kind::Id),
        ("fingerprint", Kind::Bytes),
        ("state", Kind::Text),
        ("generation", Kind::Int),
        ("first_seen", Kind::Int),
        ("completed_at", Kind::Int),
        ("keep", Kind::Text),
        ("expire_live", Kind::Bool),
        ("forget_at", Kind::Int),
    ],
    key: 2,
};

pub fn row<'a>(ws: &'a WorkspaceId, claim: &'a Claim) -> Vec<Val<'a>> {
    vec![
        Val::ws(ws),
        Val::hash(claim.hash),
        Val::text_opt(claim.key.as_deref()),
        Val::text(&claim.scope),
        Val::run(claim.run),
        Val::bytes(&claim.fingerprint.0),
        Val::own(claim.state.word()),
        Val::int(claim.generation),
        Val::at(claim.first_seen),
        Val::at_opt(claim.completed_at),
        Val::own(window_text(claim.window)),
        Val::yes(claim.expire_live),
        Val::at_opt(forget_at(claim)),
    ]
}

pub fn read(row: &Row) -> Result<(WorkspaceId, Claim), Error> {
    let claim = Claim {
        hash: row.hash(1)?,
        key: row.text_opt(2)?,
        scope: row.text(3)?,
        run: row.run(4)?,
        fingerprint: row.fingerprint(5)?,
        state: row.word(6)?,
        generation: row.number(7)?,
        first_seen: row.millis(8)?,
        completed_at: row.millis_opt(9)?,
        window: parse_window(&row.text(10)?)?,
        expire_live: row.yes(11)?,
    };
    Ok((row.ws(0)?, claim))
}

/// The column that only an index reads.
pub fn read_forget_at(row: &Row) -> Result<Option<i64>, Error> {
    row.int_opt(12)
}

pub const LANES: Table =
    Table { name: "lanes", columns: &[("ws", Kind::Text), ("hash", Kind::Id), ("lane", Kind::Text)], key: 2 };

pub fn lane_row<'a>(ws: &'a WorkspaceId, hash: Hash16, lane: &Lane) -> Vec<Val<'a>> {
    vec![Val::ws(ws), Val::hash(hash), Val::own(json(lane))]
}

pub fn read_lane(row: &Row) -> Result<(WorkspaceId, Hash16, Lane), Error> {
    Ok((row.ws(0)?, row.hash(1)?, row.json(2)?))
}

/// A place in a line, named by lane and run.
pub const PLACES: Table =
    Table { name: "lane_queue", columns: &[("ws", Kind::Text), ("hash", Kind::Id), ("run", Kind::Id)], key: 3 };
