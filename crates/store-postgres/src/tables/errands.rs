//! Attempts at steps that someone outside carries out.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Table, Val, escaped};
use semel_core::ir::ErrandKind;
use semel_core::{Hash16, WorkspaceId};
use semel_store::ErrandRow;
use semel_store::codec::{Checksum, Damaged, json};
use tokio_postgres::Row;

pub const ERRANDS: Table = Table {
    name: "errands",
    columns: &[
        ("ws", Kind::Text),
        ("id", Kind::Id),
        ("run", Kind::Id),
        ("queue", Kind::Text),
        ("domain", Kind::Text),
        ("kind", Kind::Text),
        ("open", Kind::Bool),
        ("taken", Kind::Bool),
        ("priority", Kind::Int),
        ("free_at", Kind::Int),
        ("due", Kind::Int),
        ("more", Kind::Text),
        ("digest", Kind::Int),
    ],
    key: 2,
};

fn digest(id: Hash16, more: &str) -> i64 {
    Checksum::new().part(Some(&id.0)).part(Some(more.as_bytes())).value()
}

pub fn row<'a>(ws: &'a WorkspaceId, row: &'a ErrandRow) -> Vec<Val<'a>> {
    let more = json(&row.more);
    let sum = digest(row.id, &more);
    vec![
        Val::ws(ws),
        Val::hash(row.id),
        Val::run(row.run),
        Val::text(&row.queue),
        Val::text(&row.domain),
        Val::text(row.kind.word()),
        Val::yes(row.open),
        Val::yes(row.taken),
        Val::int(row.priority),
        Val::at(row.free_at),
        Val::at_opt(row.due),
        Val::Text(Some(escaped(&more).into_owned().into())),
        Val::int(sum),
    ]
}

pub fn read(row: &Row) -> Result<(WorkspaceId, ErrandRow), Error> {
    let (id, kind, more) = (row.hash(1)?, row.text(5)?, row.text(11)?);
    if digest(id, &more) != row.int(12)? {
        return Err(Damaged(format!("errand {} does not match its checksum", id.hex())).into());
    }
    let errand = ErrandRow {
        id,
        run: row.run(2)?,
        queue: row.text(3)?,
        domain: row.text(4)?,
        kind: ErrandKind::parse(&kind).ok_or_else(|| Damaged(format!("`{kind}` is no kind of errand")))?,
        open: row.yes(6)?,
        taken: row.yes(7)?,
        priority: row.number(8)?,
        free_at: row.millis(9)?,
        due: row.millis_opt(10)?,
        more: serde_json::from_str(&more).map_err(|error| Damaged(format!("errand {}: {error}", id.hex())))?,
    };
    Ok((row.ws(0)?, errand))
}

/// The time of the database, as the store counts it.
pub const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
