//! kv, flows, schedules, secrets, tokens, workspaces.

use crate::codec::{Columns, int, json, parse};
use crate::names::Cx;
use rusqlite::{Result, Row, params};
use semel_core::{FlowRef, Millis, WorkspaceId};
use semel_store::{FlowRow, KvRow, RestoredRow, ScheduleRow, SecretRow, TokenRow, TriggerState, WorkspaceRow};

fn read_kv(row: &Row) -> Result<KvRow> {
    Ok(KvRow {
        namespace: row.get(0)?,
        key: row.get(1)?,
        value: row.json(2)?,
        kv_type: row.get(3)?,
        revision: row.number(4)?,
        updated_at: row.millis(5)?,
        expires_at: row.millis_opt(6)?,
    })
}

pub fn kv(cx: &Cx, ws: i64, namespace: &str, key: &str) -> Result<Option<KvRow>> {
    cx.one(
        "SELECT namespace, key, value, kv_type, revision, updated_at, expires_at FROM kv \
         WHERE ws = ?1 AND namespace = ?2 AND key = ?3",
        params![ws, namespace, key],
        read_kv,
    )
}

pub fn kv_list(cx: &Cx, ws: i64, namespace: &str, after: Option<&str>, limit: u32) -> Result<Vec<KvRow>> {
    cx.all(
        "SELECT namespace, key, value, kv_type, revision, updated_at, expires_at FROM kv \
         WHERE ws = ?1 AND namespace = ?2 AND (?3 IS NULL OR key > ?3) ORDER BY key LIMIT ?4",
        params![ws, namespace, after, limit],
        read_kv,
    )
}

pub fn kv_namespaces(cx: &Cx, ws: i64) -> Result<Vec<String>> {
    cx.all("SELECT DISTINCT namespace FROM kv WHERE ws = ?1 ORDER BY namespace", [ws], |row| row.get(0))
}

pub fn put_kv(cx: &Cx, ws: i64, row: &KvRow) -> Result<()> {
    cx.exec(
        "INSERT OR REPLACE INTO kv (ws, namespace, key, value, kv_type, revision, updated_at, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            ws,
            row.namespace,
            row.key,
            json(&row.value),
            row.kv_type,
            int(row.revision),
            row.updated_at.0,
            row.expires_at.map(|at| at.0)
        ],
    )?;
    Ok(())
}

pub fn delete_kv(cx: &Cx, ws: i64, namespace: &str, key: &str) -> Result<()> {
    cx.exec("DELETE FROM kv WHERE ws = ?1 AND namespace = ?2 AND key = ?3", params![ws, namespace, key])?;
    Ok(())
}

pub fn sweep_kv(cx: &Cx, now: Millis, limit: u32) -> Result<u64> {
    let gone = cx.exec(
        "DELETE FROM kv WHERE rowid IN (SELECT k.rowid FROM kv k JOIN workspaces w ON w.ws = k.ws \
         WHERE k.expires_at <= ?1 ORDER BY k.expires_at, w.name, k.namespace, k.key LIMIT ?2)",
        params![now.0, limit],
    )?;
    Ok(gone as u64)
}

pub fn each_kv(cx: &Cx) -> Result<Vec<(WorkspaceId, KvRow)>> {
    let sql = "SELECT namespace, key, value, kv_type, revision, updated_at, expires_at, ws FROM kv";
    cx.all(sql, [], |row| Ok((cx.ws_name(row.get(7)?)?, read_kv(row)?)))
}

const FLOW: &str =
    "f.ws, f.namespace, f.id, f.revision, f.source, f.ir, f.disabled, f.created_at, f.created_by, f.deleted";
const NEWEST: &str = "f.deleted = 0 AND f.revision = (SELECT max(n.revision) FROM flows n WHERE n.ws = f.ws AND n.namespace = f.namespace AND n.id = f.id)";

fn read_flow(cx: &Cx, row: &Row) -> Result<FlowRow> {
    Ok(FlowRow {
        workspace: cx.ws_name(row.get(0)?)?,
        flow: FlowRef { namespace: row.get(1)?, id: row.get(2)? },
        revision: row.get(3)?,
        source: row.get(4)?,
        ir: row.get(5)?,
        disabled: row.get(6)?,
        created_at: row.millis(7)?,
        created_by: row.get(8)?,
        deleted: row.get(9)?,
    })
}

pub fn flow(cx: &Cx, ws: i64, flow: &FlowRef, revision: Option<u32>) -> Result<Option<FlowRow>> {
    let sql = format!(
        "SELECT {FLOW} FROM flows f WHERE f.ws = ?1 AND f.namespace = ?2 AND f.id = ?3 AND (?4 IS NULL OR f.revision = ?4) \
         ORDER BY f.revision DESC LIMIT 1"
    );
    cx.ask_one(&sql, params![ws, flow.namespace, flow.id, revision], |row| read_flow(cx, row))
}

pub fn flow_revisions(cx: &Cx, ws: i64, flow: &FlowRef) -> Result<Vec<FlowRow>> {
    let sql =
        format!("SELECT {FLOW} FROM flows f WHERE f.ws = ?1 AND f.namespace = ?2 AND f.id = ?3 ORDER BY f.revision");
    cx.ask(&sql, params![ws, flow.namespace, flow.id], |row| read_flow(cx, row))
}

pub fn flows(cx: &Cx, ws: i64, after: Option<&FlowRef>, limit: u32) -> Result<Vec<FlowRow>> {
    // No flow has an empty namespace and an empty id, so this pair is before all of them.
    let (namespace, id) = after.map_or(("", ""), |flow| (&flow.namespace, &flow.id));
    let sql = format!(
        "SELECT {FLOW} FROM flows f WHERE f.ws = ?1 AND (f.namespace, f.id) > (?2, ?3) AND {NEWEST} \
         ORDER BY f.namespace, f.id LIMIT ?4"
    );
    cx.ask(&sql, params![ws, namespace, id, limit], |row| read_flow(cx, row))
}

pub fn flows_named(cx: &Cx, ws: i64, id: &str) -> Result<Vec<FlowRow>> {
    let sql = format!("SELECT {FLOW} FROM flows f WHERE f.ws = ?1 AND f.id = ?2 AND {NEWEST} ORDER BY f.namespace");
    cx.ask(&sql, params![ws, id], |row| read_flow(cx, row))
}

pub fn flow_names(cx: &Cx, ws: i64) -> Result<Vec<FlowRef>> {
    let sql = "SELECT DISTINCT namespace, id FROM flows WHERE ws = ?1 ORDER BY namespace, id";
    cx.all(sql, [ws], |row| Ok(FlowRef { namespace: row.get(0)?, id: row.get(1)? }))
}

pub fn each_flow(cx: &Cx) -> Result<Vec<FlowRow>> {
    cx.ask(&format!("SELECT {FLOW} FROM flows f"), [], |row| read_flow(cx, row))
}

pub fn insert_flow(cx: &Cx, row: &FlowRow) -> Result<()> {
    let ws = cx.ws_or_new(&row.workspace)?;
    cx.exec(
        "INSERT INTO flows (ws, namespace, id, revision, source, ir, disabled, created_at, created_by, deleted) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            ws,
            row.flow.namespace,
            row.flow.id,
            row.revision,
            row.source,
            row.ir,
            row.disabled,
            row.created_at.0,
            row.created_by,
            row.deleted
        ],
    )?;
    Ok(())
}

fn read_schedule(row: &Row) -> Result<ScheduleRow> {
    Ok(ScheduleRow {
        workspace: WorkspaceId(row.get(0)?),
        flow: FlowRef { namespace: row.get(1)?, id: row.get(2)? },
        trigger: row.get(3)?,
        next_due: row.millis_opt(4)?,
        last_fired: row.millis_opt(5)?,
        state: read_state(row.get(6)?)?,
    })
}

/// Most triggers remember nothing, and have no text for it.
fn state_text(row: &ScheduleRow) -> Option<String> {
    (row.state != TriggerState::default()).then(|| json(&row.state))
}

fn read_state(text: Option<String>) -> Result<TriggerState> {
    text.map_or_else(|| Ok(TriggerState::default()), |text| parse(&text))
}

pub fn put_schedules(cx: &Cx, ws: i64, flow: &FlowRef, rows: &[ScheduleRow]) -> Result<()> {
    let sql = "DELETE FROM schedules WHERE ws = ?1 AND namespace = ?2 AND flow_id = ?3";
    cx.exec(sql, params![ws, flow.namespace, flow.id])?;
    for row in rows {
        cx.exec(
            "INSERT OR REPLACE INTO schedules (ws, namespace, flow_id, trigger, next_due, last_fired, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                ws,
                flow.namespace,
                flow.id,
                row.trigger,
                row.next_due.map(|at| at.0),
                row.last_fired.map(|at| at.0),
                state_text(row)
            ],
        )?;
    }
    Ok(())
}

/// A schedule that a push removed meanwhile does not come back.
pub fn update_schedule(cx: &Cx, ws: i64, row: &ScheduleRow) -> Result<()> {
    cx.exec(
        "UPDATE schedules SET next_due = ?5, last_fired = ?6, state = ?7 WHERE ws = ?1 AND namespace = ?2 AND flow_id = ?3 AND trigger = ?4",
        params![
            ws,
            row.flow.namespace,
            row.flow.id,
            row.trigger,
            row.next_due.map(|at| at.0),
            row.last_fired.map(|at| at.0),
            state_text(row)
        ],
    )?;
    Ok(())
}

const SCHEDULE: &str = "SELECT w.name, s.namespace, s.flow_id, s.trigger, s.next_due, s.last_fired, s.state \
    FROM schedules s JOIN workspaces w ON w.ws = s.ws";

pub fn due_schedules(cx: &Cx, now: Millis, limit: u32) -> Result<Vec<ScheduleRow>> {
    let sql = format!(
        "{SCHEDULE} WHERE s.next_due <= ?1 ORDER BY s.next_due, w.name, s.namespace, s.flow_id, s.trigger LIMIT ?2"
    );
    cx.ask(&sql, params![now.0, limit], read_schedule)
}

pub fn next_schedule(cx: &Cx) -> Result<Option<Millis>> {
    Ok(cx.one("SELECT min(next_due) FROM schedules WHERE next_due IS NOT NULL", [], |row| row.millis_opt(0))?.flatten())
}

pub fn schedules(cx: &Cx, ws: i64) -> Result<Vec<ScheduleRow>> {
    let sql = format!("{SCHEDULE} WHERE s.ws = ?1 ORDER BY s.namespace, s.flow_id, s.trigger");
    cx.ask(&sql, [ws], read_schedule)
}

pub fn flow_schedules(cx: &Cx, ws: i64, flow: &FlowRef) -> Result<Vec<ScheduleRow>> {
    let sql = format!("{SCHEDULE} WHERE s.ws = ?1 AND s.namespace = ?2 AND s.flow_id = ?3 ORDER BY s.trigger");
    cx.ask(&sql, params![ws, flow.namespace, flow.id], read_schedule)
}

pub fn each_schedule(cx: &Cx) -> Result<Vec<ScheduleRow>> {
    cx.all(SCHEDULE, [], read_schedule)
}

const SECRET: &str = "SELECT ws, name, version, key_id, nonce, ciphertext, created_at, retired FROM secrets";

fn read_secret(cx: &Cx, row: &Row) -> Result<SecretRow> {
    Ok(SecretRow {
        workspace: cx.ws_name(row.get(0)?)?,
        name: row.get(1)?,
        version: row.number(2)?,
        key_id: row.get(3)?,
        nonce: row.get(4)?,
        ciphertext: row.get(5)?,
        created_at: row.millis(6)?,
        retired: row.get(7)?,
    })
}

pub fn secret_versions(cx: &Cx, ws: i64, name: &str) -> Result<Vec<SecretRow>> {
    let sql = format!("{SECRET} WHERE ws = ?1 AND name = ?2 ORDER BY version");
    cx.ask(&sql, params![ws, name], |row| read_secret(cx, row))
}

pub fn secret(cx: &Cx, ws: i64, name: &str, version: Option<u64>) -> Result<Option<SecretRow>> {
    let sql = format!(
        "{SECRET} WHERE ws = ?1 AND name = ?2 AND (version = ?3 OR (?3 IS NULL AND retired = 0)) ORDER BY version DESC LIMIT 1"
    );
    cx.ask_one(&sql, params![ws, name, version.map(int)], |row| read_secret(cx, row))
}

pub fn secrets(cx: &Cx, ws: i64) -> Result<Vec<SecretRow>> {
    let sql = format!(
        "{SECRET} AS s WHERE ws = ?1 AND retired = 0 AND version = (SELECT max(n.version) FROM secrets n \
         WHERE n.ws = s.ws AND n.name = s.name AND n.retired = 0) ORDER BY name"
    );
    cx.ask(&sql, [ws], |row| read_secret(cx, row))
}

pub fn each_secret(cx: &Cx) -> Result<Vec<SecretRow>> {
    cx.all(SECRET, [], |row| read_secret(cx, row))
}

pub fn put_secret(cx: &Cx, row: &SecretRow) -> Result<()> {
    let ws = cx.ws_or_new(&row.workspace)?;
    cx.exec(
        "INSERT OR REPLACE INTO secrets (ws, name, version, key_id, nonce, ciphertext, created_at, retired) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![ws, row.name, int(row.version), row.key_id, row.nonce, row.ciphertext, row.created_at.0, row.retired],
    )?;
    Ok(())
}

const TOKEN: &str = "SELECT id, ws, name, role, secret_hash, created_at, expires_at, revoked_at FROM tokens";

fn read_token(cx: &Cx, row: &Row) -> Result<TokenRow> {
    Ok(TokenRow {
        id: row.get(0)?,
        workspace: cx.ws_name(row.get(1)?)?,
        name: row.get(2)?,
        role: row.get(3)?,
        secret_hash: row.get(4)?,
        created_at: row.millis(5)?,
        expires_at: row.millis_opt(6)?,
        revoked_at: row.millis_opt(7)?,
    })
}

pub fn token(cx: &Cx, id: &str) -> Result<Option<TokenRow>> {
    cx.ask_one(&format!("{TOKEN} WHERE id = ?1"), [id], |row| read_token(cx, row))
}

pub fn tokens(cx: &Cx, ws: i64) -> Result<Vec<TokenRow>> {
    cx.ask(&format!("{TOKEN} WHERE ws = ?1 ORDER BY id"), [ws], |row| read_token(cx, row))
}

pub fn each_token(cx: &Cx) -> Result<Vec<TokenRow>> {
    cx.all(TOKEN, [], |row| read_token(cx, row))
}

pub fn put_token(cx: &Cx, row: &TokenRow) -> Result<()> {
    let ws = cx.ws_or_new(&row.workspace)?;
    cx.exec(
        "INSERT OR REPLACE INTO tokens (id, ws, name, role, secret_hash, created_at, expires_at, revoked_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            row.id,
            ws,
            row.name,
            row.role,
            row.secret_hash,
            row.created_at.0,
            row.expires_at.map(|at| at.0),
            row.revoked_at.map(|at| at.0)
        ],
    )?;
    Ok(())
}

fn read_workspace(row: &Row) -> Result<WorkspaceRow> {
    Ok(WorkspaceRow { id: WorkspaceId(row.get(0)?), created_at: row.millis(1)? })
}

pub fn workspace(cx: &Cx, ws: i64) -> Result<Option<WorkspaceRow>> {
    let sql = "SELECT name, created_at FROM workspaces WHERE ws = ?1 AND created_at IS NOT NULL";
    cx.one(sql, [ws], read_workspace)
}

pub fn workspaces(cx: &Cx) -> Result<Vec<WorkspaceRow>> {
    let sql = "SELECT name, created_at FROM workspaces WHERE created_at IS NOT NULL ORDER BY name";
    cx.all(sql, [], read_workspace)
}

pub fn put_workspace(cx: &Cx, row: &WorkspaceRow) -> Result<()> {
    let ws = cx.ws_or_new(&row.id)?;
    cx.exec_one("UPDATE workspaces SET created_at = ?2 WHERE ws = ?1", params![ws, row.created_at.0])
}

pub fn put_restored(cx: &Cx, row: &RestoredRow) -> Result<()> {
    cx.exec_one(
        "UPDATE meta SET is_backup = 0, incarnation = ?1, backup_at = ?2, restored_at = ?3 WHERE id = 1",
        params![row.incarnation, row.backup_at.0, row.restored_at.0],
    )
}

pub fn restored(cx: &Cx) -> Result<Option<RestoredRow>> {
    let sql = "SELECT incarnation, backup_at, restored_at FROM meta WHERE id = 1 AND restored_at IS NOT NULL";
    cx.one(sql, [], |row| {
        Ok(RestoredRow { incarnation: row.get(0)?, backup_at: row.millis(1)?, restored_at: row.millis(2)? })
    })
}
