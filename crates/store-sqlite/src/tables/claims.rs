//! Claims and lanes.

use crate::codec::{Columns, json, parse_window, window_text};
use crate::names::Cx;
use rusqlite::types::Value;
use rusqlite::{Result, Row, params, params_from_iter};
use semel_core::admission::{Claim, Lane, claim_hash};
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::ClaimQuery;
use semel_store::memory::forget_at;

pub const COLUMNS: &str =
    "hash, key, scope, run, fingerprint, state, generation, first_seen, completed_at, keep, expire_live";

pub fn read(cx: &Cx, row: &Row) -> Result<Claim> {
    Ok(Claim {
        hash: row.hash(0)?,
        key: row.get(1)?,
        scope: cx.word_text(row.get(2)?)?.to_string(),
        run: row.run(3)?,
        fingerprint: row.fingerprint(4)?,
        state: row.word(5)?,
        generation: row.get(6)?,
        first_seen: row.millis(7)?,
        completed_at: row.millis_opt(8)?,
        window: parse_window(&row.get::<_, String>(9)?)?,
        expire_live: row.get(10)?,
    })
}

pub fn get(cx: &Cx, ws: i64, hash: Hash16) -> Result<Option<Claim>> {
    let sql = "SELECT hash, key, scope, run, fingerprint, state, generation, first_seen, completed_at, keep, expire_live \
               FROM claims WHERE ws = ?1 AND hash = ?2";
    cx.one(sql, params![ws, hash.0], |row| read(cx, row))
}

const INSERT: &str = "INSERT INTO claims (ws, hash, key, scope, run, fingerprint, state, generation, first_seen, completed_at, keep, \
     expire_live, forget_at, odd) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const PUT: &str = "INSERT INTO claims (ws, hash, key, scope, run, fingerprint, state, generation, first_seen, completed_at, keep, \
     expire_live, forget_at, odd) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
     ON CONFLICT (ws, hash) DO UPDATE SET key = excluded.key, scope = excluded.scope, run = excluded.run, \
     fingerprint = excluded.fingerprint, state = excluded.state, generation = excluded.generation, \
     first_seen = excluded.first_seen, completed_at = excluded.completed_at, keep = excluded.keep, \
     expire_live = excluded.expire_live, forget_at = excluded.forget_at, odd = excluded.odd";

/// A claim that is not there yet.
pub fn insert(cx: &Cx, ws: i64, claim: &Claim) -> Result<()> {
    write(cx, ws, claim, INSERT)
}

pub fn put(cx: &Cx, ws: i64, claim: &Claim) -> Result<()> {
    write(cx, ws, claim, PUT)
}

fn write(cx: &Cx, ws: i64, claim: &Claim, sql: &'static str) -> Result<()> {
    let scope = cx.word_or_new(&claim.scope)?;
    cx.exec(
        sql,
        params![
            ws,
            claim.hash.0,
            claim.key,
            scope,
            claim.run.as_bytes(),
            claim.fingerprint.0,
            claim.state.word(),
            claim.generation,
            claim.first_seen.0,
            claim.completed_at.map(|at| at.0),
            window_text(claim.window),
            claim.expire_live,
            forget_at(claim).map(|at| at.0),
            is_odd(&cx.ws_name(ws)?, &claim.scope, claim.key.as_deref(), claim.hash),
        ],
    )?;
    Ok(())
}

/// True when only what [`update`] writes differs.
pub fn same_event(old: &Claim, new: &Claim) -> bool {
    old.hash == new.hash
        && old.run == new.run
        && (&old.key, &old.scope, old.fingerprint) == (&new.key, &new.scope, new.fingerprint)
        && (old.first_seen, old.window, old.expire_live) == (new.first_seen, new.window, new.expire_live)
}

/// A claim whose run went on: no index over what it is about is touched.
pub fn update(cx: &Cx, ws: i64, claim: &Claim) -> Result<()> {
    cx.exec_one(
        "UPDATE claims SET state = ?3, generation = ?4, completed_at = ?5, forget_at = ?6 WHERE ws = ?1 AND hash = ?2",
        params![
            ws,
            claim.hash.0,
            claim.state.word(),
            claim.generation,
            claim.completed_at.map(|at| at.0),
            forget_at(claim).map(|at| at.0),
        ],
    )
}

pub fn delete(cx: &Cx, ws: i64, hash: Hash16) -> Result<()> {
    cx.exec("DELETE FROM claims WHERE ws = ?1 AND hash = ?2", params![ws, hash.0])?;
    Ok(())
}

pub fn of_run(cx: &Cx, ws: i64, run: RunId) -> Result<Vec<Claim>> {
    let sql = "SELECT hash, key, scope, run, fingerprint, state, generation, first_seen, completed_at, keep, expire_live \
               FROM claims INDEXED BY claims_run WHERE ws = ?1 AND run = ?2 ORDER BY hash";
    cx.all(sql, params![ws, run.as_bytes()], |row| read(cx, row))
}

/// True for a claim that cannot be found by hashing its key: the index over odd claims has it.
pub fn is_odd(workspace: &WorkspaceId, scope: &str, key: Option<&str>, hash: Hash16) -> bool {
    key.is_some_and(|key| claim_hash(workspace, scope, key) != hash)
}

/// What a key's plain claims would be called: one hash for each scope there is. There are as many
/// scopes as flows, so this is cheap, and it spares each admission a random page of an index.
pub fn plain_hashes(cx: &Cx, ws: i64, key: &str) -> Result<Vec<Hash16>> {
    let workspace = cx.ws_name(ws)?;
    // The other words are policies, which are JSON objects.
    let scopes: Vec<String> = cx.all("SELECT word FROM words WHERE word NOT LIKE '{%'", [], |row| row.get(0))?;
    Ok(scopes.iter().map(|scope| claim_hash(&workspace, scope, key)).collect())
}

pub fn search(cx: &Cx, ws: i64, query: &ClaimQuery) -> Result<Vec<Claim>> {
    let Some(key) = &query.key else { return filtered(cx, ws, query, "", &[]) };
    let mut found = filtered(cx, ws, query, " AND odd = 1 AND key = ?", &[Value::Text(key.clone())])?;
    for hash in plain_hashes(cx, ws, key)? {
        found.extend(filtered(cx, ws, query, " AND odd = 0 AND hash = ?", &[Value::Blob(hash.0.to_vec())])?);
    }
    // A hash under some scope may name an erased claim, which has no key to be found by.
    found.retain(|claim| claim.key.as_ref() == Some(key));
    found.sort_by_key(|claim| claim.hash);
    found.truncate(query.limit as usize);
    Ok(found)
}

fn filtered(cx: &Cx, ws: i64, query: &ClaimQuery, first: &str, given: &[Value]) -> Result<Vec<Claim>> {
    // Without statistics SQLite takes every index that begins with `ws` for equally good, and the
    // primary key for the best: it would walk all claims of the workspace.
    let index = if query.run.is_some() { " INDEXED BY claims_run" } else { "" };
    let mut sql = format!("SELECT {COLUMNS} FROM claims{index} WHERE ws = ?{first}");
    let mut values = vec![Value::Integer(ws)];
    values.extend_from_slice(given);
    if let Some(scope) = &query.scope {
        let Some(scope) = cx.word(scope)? else { return Ok(vec![]) };
        sql += " AND scope = ?";
        values.push(Value::Integer(scope));
    }
    if let Some(run) = query.run {
        sql += " AND run = ?";
        values.push(Value::Blob(run.as_bytes().to_vec()));
    }
    if !query.states.is_empty() {
        let words: Vec<String> = query.states.iter().map(|s| format!("'{}'", s.word())).collect();
        sql += &format!(" AND state IN ({})", words.join(", "));
    }
    if let Some(after) = query.after {
        sql += " AND hash > ?";
        values.push(Value::Blob(after.0.to_vec()));
    }
    sql += " ORDER BY hash LIMIT ?";
    values.push(Value::Integer(i64::from(query.limit)));
    cx.ask(&sql, params_from_iter(values), |row| read(cx, row))
}

pub fn forgotten(cx: &Cx, now: Millis, limit: u32) -> Result<Vec<(WorkspaceId, Hash16)>> {
    cx.all(
        "SELECT w.name, c.hash FROM claims c JOIN workspaces w ON w.ws = c.ws \
         WHERE c.forget_at <= ?1 ORDER BY c.forget_at, w.name, c.hash LIMIT ?2",
        params![now.0, limit],
        |row| Ok((WorkspaceId(row.get(0)?), row.hash(1)?)),
    )
}

/// Every claim with its workspace.
pub fn each(cx: &Cx) -> Result<Vec<(WorkspaceId, Claim)>> {
    let sql = format!("SELECT {COLUMNS}, ws FROM claims");
    cx.ask(&sql, [], |row| Ok((cx.ws_name(row.get(11)?)?, read(cx, row)?)))
}

pub fn lane(cx: &Cx, ws: i64, hash: Hash16) -> Result<Lane> {
    let sql = "SELECT lane FROM lanes WHERE ws = ?1 AND hash = ?2";
    Ok(cx.one(sql, params![ws, hash.0], |row| row.json(0))?.unwrap_or_default())
}

pub fn put_lane(cx: &Cx, ws: i64, hash: Hash16, lane: &Lane) -> Result<()> {
    if lane.is_empty() {
        cx.exec("DELETE FROM lanes WHERE ws = ?1 AND hash = ?2", params![ws, hash.0])?;
    } else {
        let sql = "INSERT OR REPLACE INTO lanes (ws, hash, lane) VALUES (?1, ?2, ?3)";
        cx.exec(sql, params![ws, hash.0, json(lane)])?;
    }
    Ok(())
}

pub fn queue(cx: &Cx, ws: i64, hash: Hash16, limit: u32) -> Result<Vec<RunId>> {
    let sql = "SELECT run FROM lane_queue WHERE ws = ?1 AND hash = ?2 ORDER BY seq LIMIT ?3";
    cx.all(sql, params![ws, hash.0, limit], |row| row.run(0))
}

pub fn push_queue(cx: &Cx, ws: i64, hash: Hash16, run: RunId) -> Result<()> {
    let sql = "INSERT INTO lane_queue (ws, hash, seq, run) \
               SELECT ?1, ?2, coalesce(max(seq), 0) + 1, ?3 FROM lane_queue WHERE ws = ?1 AND hash = ?2";
    cx.exec(sql, params![ws, hash.0, run.as_bytes()])?;
    Ok(())
}

pub fn leave_queue(cx: &Cx, ws: i64, hash: Hash16, run: RunId) -> Result<bool> {
    let sql = "DELETE FROM lane_queue WHERE ws = ?1 AND hash = ?2 AND run = ?3";
    Ok(cx.exec(sql, params![ws, hash.0, run.as_bytes()])? > 0)
}

/// Every place in a line: workspace, lane, number, run.
pub fn each_queue(cx: &Cx) -> Result<Vec<(WorkspaceId, Hash16, u64, RunId)>> {
    cx.all("SELECT ws, hash, seq, run FROM lane_queue", [], |row| {
        Ok((cx.ws_name(row.get(0)?)?, row.hash(1)?, row.number(2)?, row.run(3)?))
    })
}

pub fn each_lane(cx: &Cx) -> Result<Vec<(WorkspaceId, Hash16, Lane)>> {
    cx.all("SELECT ws, hash, lane FROM lanes", [], |row| Ok((cx.ws_name(row.get(0)?)?, row.hash(1)?, row.json(2)?)))
}
