//! Runs that are searched for: any filter, exact totals.

use super::runs::{HEAD, VALUES, Whole, read_whole};
use crate::names::Cx;
use rusqlite::types::Value;
use rusqlite::{Result, params_from_iter};
use semel_core::FlowRef;
use semel_store::search::{Bind, Dialect, RunSearch};

const DIALECT: Dialect = Dialect { place: "instr", id_text, glob: ("GLOB ?", pattern) };

/// What means something to GLOB besides the `*` stands for itself.
fn pattern(text: &str) -> String {
    text.replace('[', "[[]").replace('?', "[?]")
}

/// The text form of an id that is stored as 16 bytes.
fn id_text(column: &str) -> String {
    let part = |from: usize, length: usize| format!("substr(hex({column}), {from}, {length})");
    let parts = [part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)];
    format!("lower({})", parts.join(" || '-' || "))
}

fn value(bind: Bind, ws: i64) -> Value {
    match bind {
        Bind::Workspace => Value::Integer(ws),
        Bind::Text(text) => Value::Text(text),
        Bind::Int(number) => Value::Integer(number),
        Bind::Run(id) => Value::Blob(id.as_bytes().to_vec()),
    }
}

pub fn page(cx: &Cx, ws: i64, search: &RunSearch) -> Result<(Vec<Whole>, u64)> {
    let conditions = search.conditions(DIALECT);
    let text = &conditions.text;
    let mut values = vec![Value::Integer(ws)];
    values.extend(conditions.binds.into_iter().map(|bind| value(bind, ws)));
    let count = format!("SELECT count(*) FROM runs r WHERE r.ws = ?{text}");
    let total = cx.ask(&count, params_from_iter(values.clone()), |row| row.get::<_, i64>(0))?;
    let total = total.first().map_or(0, |total| total.unsigned_abs());
    if total <= search.offset || search.limit == 0 {
        return Ok((Vec::new(), total));
    }
    let page = format!(
        "SELECT {HEAD}, {VALUES} FROM runs r CROSS JOIN run_values v ON v.num = r.num \
         LEFT JOIN run_results e ON e.num = r.num WHERE r.ws = ?{text} ORDER BY {} LIMIT ? OFFSET ?",
        search.order()
    );
    let offset = i64::try_from(search.offset).unwrap_or(i64::MAX);
    values.extend([Value::Integer(i64::from(search.limit)), Value::Integer(offset)]);
    let found = cx.ask(&page, params_from_iter(values), |row| read_whole(cx, row))?;
    Ok((found, total))
}

pub fn flows(cx: &Cx, ws: i64) -> Result<Vec<FlowRef>> {
    let read = |row: &rusqlite::Row| Ok(FlowRef { namespace: row.get(0)?, id: row.get(1)? });
    cx.all("SELECT DISTINCT namespace, flow_id FROM runs WHERE ws = ?1", [ws], read)
}
