//! Log lines of many runs.

use crate::codec::{Columns, int};
use crate::names::Cx;
use crate::tables::history::read_log;
use rusqlite::types::Value;
use rusqlite::{Result, Row, params_from_iter};
use semel_core::FlowRef;
use semel_store::{LogQuery, LogRow};

/// `WHERE` and what it is given.
struct Terms {
    sql: String,
    values: Vec<Value>,
}

impl Terms {
    fn add(&mut self, term: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.sql += term;
            self.values.push(value);
        }
    }
}

fn terms(ws: i64, query: &LogQuery) -> Terms {
    let mut terms = Terms {
        sql: "FROM logs l JOIN runs r ON r.ws = l.ws AND r.id = l.run WHERE l.ws = ?".to_owned(),
        values: vec![Value::Integer(ws)],
    };
    terms.add(" AND l.run = ?", query.run.map(|run| Value::Blob(run.as_bytes().to_vec())));
    let names = |flows: &Vec<FlowRef>| {
        let names: Vec<String> = flows.iter().map(FlowRef::to_string).collect();
        Value::Text(serde_json::json!(names).to_string())
    };
    terms.add(
        " AND r.namespace || ':' || r.flow_id IN (SELECT value FROM json_each(?))",
        query.flows.as_ref().map(names),
    );
    if !query.levels.is_empty() {
        let levels: Vec<String> = query.levels.iter().map(|level| format!("'{level}'")).collect();
        terms.sql += &format!(" AND l.level IN ({})", levels.join(", "));
    }
    terms.add(" AND l.at >= ?", query.from.map(|at| Value::Integer(at.0)));
    terms.add(" AND l.at < ?", query.to.map(|at| Value::Integer(at.0)));
    terms.add(" AND instr(lower(l.message), lower(?)) > 0", query.text.clone().map(Value::Text));
    terms
}

pub fn search(cx: &Cx, ws: i64, query: &LogQuery) -> Result<(Vec<(FlowRef, LogRow)>, u64)> {
    let mut terms = terms(ws, query);
    let count = |row: &Row| row.number(0);
    let total = cx.ask_one(&format!("SELECT count(*) {}", terms.sql), params_from_iter(&terms.values), count)?;
    let way = if query.oldest_first { "ASC" } else { "DESC" };
    let sql = format!(
        "SELECT l.run, l.seq, l.at, l.level, l.step, l.message, r.namespace, r.flow_id {} \
         ORDER BY l.at {way}, l.run {way}, l.seq {way} LIMIT ? OFFSET ?",
        terms.sql
    );
    terms.values.extend([Value::Integer(i64::from(query.limit)), Value::Integer(int(query.skip))]);
    let read = |row: &Row| Ok((FlowRef { namespace: row.get(6)?, id: row.get(7)? }, read_log(row)?));
    let rows = cx.ask(&sql, params_from_iter(&terms.values), read)?;
    Ok((rows, total.unwrap_or_default()))
}
