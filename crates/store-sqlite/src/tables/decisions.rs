//! The decision log.

use crate::codec::{Columns, int, parse, word};
use crate::names::Cx;
use crate::tables::claims;
use rusqlite::types::Value;
use rusqlite::{Result, Row, params, params_from_iter};
use semel_core::{FlowRef, Millis};
use semel_store::{DecisionQuery, DecisionRow};

pub const COLUMNS: &str = "seq, ws, at, door, occurrence, namespace, flow_id, scope, key, key_source, claim, fingerprint, \
    policy, prior, prior_run, prior_generation, same_payload, decision, reason, run, generation, caller, rules_version";

pub fn read(cx: &Cx, row: &Row) -> Result<DecisionRow> {
    let scope: Option<i64> = row.get(7)?;
    let source: Option<String> = row.get(9)?;
    Ok(DecisionRow {
        seq: row.number(0)?,
        workspace: cx.ws_name(row.get(1)?)?,
        at: row.millis(2)?,
        door: row.word(3)?,
        occurrence: row.get(4)?,
        flow: FlowRef { namespace: row.get(5)?, id: row.get(6)? },
        scope: scope.map(|num| cx.word_text(num)).transpose()?.map(|text| text.to_string()),
        key: row.get(8)?,
        key_source: source.map(|_| row.word(9)).transpose()?,
        claim: row.hash_opt(10)?,
        fingerprint: row.fingerprint(11)?,
        policy: parse(&cx.word_text(row.get(12)?)?)?,
        prior: row.word(13)?,
        prior_run: row.run_opt(14)?,
        prior_generation: row.get(15)?,
        same_payload: row.get(16)?,
        decision: row.word(17)?,
        reason: row.word(18)?,
        run: row.run_opt(19)?,
        generation: row.get(20)?,
        caller: row.get(21)?,
        rules_version: row.get(22)?,
    })
}

pub fn append(cx: &Cx, seq: u64, row: &DecisionRow) -> Result<()> {
    let ws = cx.ws_or_new(&row.workspace)?;
    let scope = row.scope.as_deref().map(|scope| cx.word_or_new(scope)).transpose()?;
    let policy = cx.policy(&row.policy)?;
    cx.exec(
        "INSERT INTO decisions (seq, ws, at, door, occurrence, namespace, flow_id, scope, key, key_source, claim, \
         fingerprint, policy, prior, prior_run, prior_generation, same_payload, decision, reason, run, generation, caller, \
         rules_version, odd) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
         ?20, ?21, ?22, ?23, ?24)",
        params![
            int(seq),
            ws,
            row.at.0,
            row.door.word(),
            row.occurrence,
            row.flow.namespace,
            row.flow.id,
            scope,
            row.key,
            row.key_source.as_ref().map(word),
            row.claim.map(|h| h.0),
            row.fingerprint.0,
            policy,
            row.prior.word(),
            row.prior_run.as_ref().map(|r| r.as_bytes()),
            row.prior_generation,
            row.same_payload,
            row.decision.word(),
            row.reason.word(),
            row.run.as_ref().map(|r| r.as_bytes()),
            row.generation,
            row.caller,
            row.rules_version,
            is_odd(row),
        ],
    )?;
    Ok(())
}

/// True for a row that cannot be found by hashing its key (see [`claims::is_odd`]).
fn is_odd(row: &DecisionRow) -> bool {
    let (Some(key), Some(scope), Some(claim)) = (&row.key, &row.scope, row.claim) else { return row.key.is_some() };
    claims::is_odd(&row.workspace, scope, Some(key), claim)
}

pub fn search(cx: &Cx, ws: i64, query: &DecisionQuery) -> Result<Vec<DecisionRow>> {
    let Some(key) = &query.key else { return filtered(cx, ws, query, "", &[]) };
    let mut found = filtered(cx, ws, query, " AND odd = 1 AND key = ?", &[Value::Text(key.clone())])?;
    for hash in claims::plain_hashes(cx, ws, key)? {
        // Rows whose key was erased must not use up the limit.
        let plain = " AND odd = 0 AND key IS NOT NULL AND claim = ?";
        found.extend(filtered(cx, ws, query, plain, &[Value::Blob(hash.0.to_vec())])?);
    }
    found.retain(|row| row.key.as_ref() == Some(key));
    found.sort_by_key(|row| std::cmp::Reverse(row.seq));
    found.truncate(query.limit as usize);
    Ok(found)
}

fn filtered(cx: &Cx, ws: i64, query: &DecisionQuery, first: &str, given: &[Value]) -> Result<Vec<DecisionRow>> {
    let mut sql = format!("SELECT {COLUMNS} FROM decisions WHERE ws = ?{first}");
    let mut values = vec![Value::Integer(ws)];
    values.extend_from_slice(given);
    let mut term = |text: &str, value: Option<Value>| {
        if let Some(value) = value {
            sql += text;
            values.push(value);
        }
    };
    term(" AND run = ?", query.run.map(|run| Value::Blob(run.as_bytes().to_vec())));
    term(" AND claim = ?", query.claim.map(|claim| Value::Blob(claim.0.to_vec())));
    term(" AND namespace = ?", query.flow.as_ref().map(|flow| Value::Text(flow.namespace.clone())));
    term(" AND flow_id = ?", query.flow.as_ref().map(|flow| Value::Text(flow.id.clone())));
    if !query.decisions.is_empty() {
        let words: Vec<String> = query.decisions.iter().map(|d| format!("'{}'", d.word())).collect();
        sql += &format!(" AND decision IN ({})", words.join(", "));
    }
    if let Some(before) = query.before {
        sql += " AND seq < ?";
        values.push(Value::Integer(int(before)));
    }
    sql += " ORDER BY seq DESC LIMIT ?";
    values.push(Value::Integer(i64::from(query.limit)));
    cx.ask(&sql, params_from_iter(values), |row| read(cx, row))
}

/// Rows are written in order of time, so only the oldest `limit` need a look.
pub fn sweep(cx: &Cx, before: Millis, limit: u32) -> Result<u64> {
    let gone = cx.exec(
        "DELETE FROM decisions WHERE seq IN \
         (SELECT seq FROM (SELECT seq, at FROM decisions ORDER BY seq LIMIT ?2) WHERE at < ?1)",
        params![before.0, limit],
    )?;
    Ok(gone as u64)
}

pub fn each(cx: &Cx) -> Result<Vec<DecisionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM decisions");
    cx.ask(&sql, [], |row| read(cx, row))
}
