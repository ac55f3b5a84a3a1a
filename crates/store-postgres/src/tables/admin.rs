//! kv, flows, schedules, secrets, tokens, workspaces.

use crate::classify::Error;
use crate::codec::{Columns, Kind, Table, Val};
use semel_core::{FlowRef, WorkspaceId};
use semel_store::codec::json;
use semel_store::{
    ChangeRow, FlowRow, KvRow, RestoredRow, ScheduleRow, SecretRow, TokenRow, TriggerState, WorkspaceRow,
};
use tokio_postgres::Row;

pub const KV: Table = Table {
    name: "kv",
    columns: &[
        ("ws", Kind::Text),
        ("namespace", Kind::Text),
        ("key", Kind::Text),
        ("value", Kind::Text),
        ("kv_type", Kind::Text),
        ("revision", Kind::Int),
        ("updated_at", Kind::Int),
        ("expires_at", Kind::Int),
    ],
    key: 3,
};

pub fn kv_row<'a>(ws: &'a WorkspaceId, row: &'a KvRow) -> Vec<Val<'a>> {
    vec![
        Val::ws(ws),
        Val::text(&row.namespace),
        Val::text(&row.key),
        Val::own(json(&row.value)),
        Val::text(&row.kv_type),
        Val::number(row.revision),
        Val::at(row.updated_at),
        Val::at_opt(row.expires_at),
    ]
}

pub fn read_kv(row: &Row) -> Result<(WorkspaceId, KvRow), Error> {
    let kv = KvRow {
        namespace: row.text(1)?,
        key: row.text(2)?,
        value: row.json(3)?,
        kv_type: row.text(4)?,
        revision: row.number(5)?,
        updated_at: row.millis(6)?,
        expires_at: row.millis_opt(7)?,
    };
    Ok((row.ws(0)?, kv))
}

pub const FLOWS: Table = Table {
    name: "flows",
    columns: &[
        ("ws", Kind::Text),
        ("namespace", Kind::Text),
        ("id", Kind::Text),
        ("revision", Kind::Int),
        ("source", Kind::Text),
        ("ir", Kind::Text),
        ("disabled", Kind::Bool),
        ("created_at", Kind::Int),
        ("created_by", Kind::Text),
        ("deleted", Kind::Bool),
    ],
    key: 4,
};

pub fn flow_row(row: &FlowRow) -> Vec<Val<'_>> {
    vec![
        Val::ws(&row.workspace),
        Val::text(&row.flow.namespace),
        Val::text(&row.flow.id),
        Val::int(row.revision),
        Val::text(&row.source),
        Val::text(&row.ir),
        Val::yes(row.disabled),
        Val::at(row.created_at),
        Val::text(&row.created_by),
        Val::yes(row.deleted),
    ]
}

pub fn read_flow(row: &Row) -> Result<FlowRow, Error> {
    Ok(FlowRow {
        workspace: row.ws(0)?,
        flow: FlowRef { namespace: row.text(1)?, id: row.text(2)? },
        revision: row.number(3)?,
        source: row.text(4)?,
        ir: row.text(5)?,
        disabled: row.yes(6)?,
        created_at: row.millis(7)?,
        created_by: row.text(8)?,
        deleted: row.yes(9)?,
    })
}

pub const SCHEDULES: Table = Table {
    name: "schedules",
    columns: &[
        ("ws", Kind::Text),
        ("namespace", Kind::Text),
        ("flow_id", Kind::Text),
        ("trigger", Kind::Text),
        ("next_due", Kind::Int),
        ("last_fired", Kind::Int),
        ("state", Kind::Text),
    ],
    key: 4,
};

pub fn schedule_row(row: &ScheduleRow) -> Vec<Val<'_>> {
    vec![
        Val::ws(&row.workspace),
        Val::text(&row.flow.namespace),
        Val::text(&row.flow.id),
        Val::text(&row.trigger),
        Val::at_opt(row.next_due),
        Val::at_opt(row.last_fired),
        // Most triggers remember nothing, and have no text for it.
        Val::own_opt((row.state != TriggerState::default()).then(|| json(&row.state))),
    ]
}

pub fn read_schedule(row: &Row) -> Result<ScheduleRow, Error> {
    Ok(ScheduleRow {
        workspace: row.ws(0)?,
        flow: FlowRef { namespace: row.text(1)?, id: row.text(2)? },
        trigger: row.text(3)?,
        next_due: row.millis_opt(4)?,
        last_fired: row.millis_opt(5)?,
        state: match row.text_opt(6)? {
            Some(_) => row.json(6)?,
            None => TriggerState::default(),
        },
    })
}

pub const CHANGES: Table = Table {
    name: "changes",
    columns: &[
        ("ws", Kind::Text),
        ("run", Kind::Id),
        ("version", Kind::Int),
        ("at", Kind::Int),
        ("state", Kind::Text),
        ("heard", Kind::Text),
    ],
    key: 3,
};

pub fn change_row(row: &ChangeRow) -> Vec<Val<'_>> {
    vec![
        Val::ws(&row.workspace),
        Val::run(row.run),
        Val::number(row.version),
        Val::at(row.at),
        Val::text(&row.state),
        Val::own(json(&row.heard)),
    ]
}

pub fn read_change(row: &Row) -> Result<ChangeRow, Error> {
    Ok(ChangeRow {
        workspace: row.ws(0)?,
        run: row.run(1)?,
        version: row.number(2)?,
        at: row.millis(3)?,
        state: row.text(4)?,
        heard: row.json(5)?,
    })
}

pub const SECRETS: Table = Table {
    name: "secrets",
    columns: &[
        ("ws", Kind::Text),
        ("name", Kind::Text),
        ("version", Kind::Int),
        ("key_id", Kind::Text),
        ("nonce", Kind::Bytes),
        ("ciphertext", Kind::Bytes),
        ("created_at", Kind::Int),
        ("retired", Kind::Bool),
    ],
    key: 3,
};

pub fn secret_row(row: &SecretRow) -> Vec<Val<'_>> {
    vec![
        Val::ws(&row.workspace),
        Val::text(&row.name),
        Val::number(row.version),
        Val::text(&row.key_id),
        Val::bytes(&row.nonce),
        Val::bytes(&row.ciphertext),
        Val::at(row.created_at),
        Val::yes(row.retired),
    ]
}

pub fn read_secret(row: &Row) -> Result<SecretRow, Error> {
    Ok(SecretRow {
        workspace: row.ws(0)?,
        name: row.text(1)?,
        version: row.number(2)?,
        key_id: row.text(3)?,
        nonce: row.bytes(4)?,
        ciphertext: row.bytes(5)?,
        created_at: row.millis(6)?,
        retired: row.yes(7)?,
    })
}

pub const TOKENS: Table = Table {
    name: "tokens",
    columns: &[
        ("id", Kind::Text),
        ("ws", Kind::Text),
        ("name", Kind::Text),
        ("role", Kind::Text),
        ("secret_hash", Kind::Bytes),
        ("created_at", Kind::Int),
        ("expires_at", Kind::Int),
        ("revoked_at", Kind::Int),
    ],
    key: 1,
};

pub fn token_row(row: &TokenRow) -> Vec<Val<'_>> {
    vec![
        Val::text(&row.id),
        Val::ws(&row.workspace),
        Val::text(&row.name),
        Val::text(&row.role),
        Val::bytes(&row.secret_hash),
        Val::at(row.created_at),
        Val::at_opt(row.expires_at),
        Val::at_opt(row.revoked_at),
    ]
}

pub fn read_token(row: &Row) -> Result<TokenRow, Error> {
    Ok(TokenRow {
        id: row.text(0)?,
        workspace: row.ws(1)?,
        name: row.text(2)?,
        role: row.text(3)?,
        secret_hash: row.bytes(4)?,
        created_at: row.millis(5)?,
        expires_at: row.millis_opt(6)?,
        revoked_at: row.millis_opt(7)?,
    })
}

pub const WORKSPACES: Table =
    Table { name: "workspaces", columns: &[("ws", Kind::Text), ("created_at", Kind::Int)], key: 1 };

pub fn workspace_row(row: &WorkspaceRow) -> Vec<Val<'_>> {
    vec![Val::ws(&row.id), Val::at(row.created_at)]
}

pub fn read_workspace(row: &Row) -> Result<WorkspaceRow, Error> {
    Ok(WorkspaceRow { id: row.ws(0)?, created_at: row.millis(1)? })
}

pub const RESTORED: &str = "SELECT incarnation, backup_at, restored_at FROM meta WHERE restored_at IS NOT NULL";

pub fn read_restored(row: &Row) -> Result<RestoredRow, Error> {
    Ok(RestoredRow { incarnation: row.text(0)?, backup_at: row.millis(1)?, restored_at: row.millis(2)? })
}
