//! Transaction scripts: what each [`Work`] does to the rows, written once for every store.
//!
//! A script reads through [`Tx`], asks the pure rules of `semel-core`, and writes. If it returns
//! an error, the store rolls back this work alone; its neighbours in the same group commit stay.
//! Locks are taken in one order everywhere: claims, lanes, kv, then runs.

mod admit;
mod commit;
mod ending;
mod errands;
mod files;
mod hear;
mod lanes;
mod manage;
mod replay;
mod restore;
mod retry;
mod triggers;

pub use admit::{admit, head_of, peek};
pub use ending::watch_hash;
pub use hear::listener;
pub use manage::{OUTSIDE_FROM, RELEASED_FROM};

use crate::tx::{Result, Tx};
use crate::work::{Done, Work};

/// Carries out one write.
pub fn apply(tx: &mut dyn Tx, work: &Work) -> Result<Done> {
    match work {
        Work::Admit(request) => Ok(Done::Admitted(Box::new(admit(tx, request)?))),
        Work::AdmitAndRun(both) => Ok(Done::Admitted(Box::new(admit::admit_with(tx, &both.0, Some(&both.1))?))),
        Work::Commit(commit) => commit::commit(tx, commit),
        Work::LogDecision(row) => admit::log_decision(tx, row),
        Work::PutFlow { row, schedules, rule } => manage::put_flow(tx, row, schedules, *rule),
        Work::DeleteFlow { workspace, flow, by } => manage::delete_flow(tx, workspace, flow, by),
        Work::AdvanceSchedule(row) => manage::advance_schedule(tx, row),
        Work::ChangeTrigger { workspace, flow, trigger, change } => {
            let found = triggers::change(tx, workspace, flow, trigger, change)?;
            Ok(if found { Done::Unit } else { Done::Missing })
        }
        Work::Hear { workspace, hearing } => hear::hear(tx, workspace, hearing).map(|()| Done::Unit),
        Work::Heard { workspace, run, version } => hear::heard(tx, workspace, *run, *version),
        Work::TakeErrands(request) => errands::take(tx, request),
        Work::TouchErrand { workspace, id, worker, word } => {
            errands::touch(tx, workspace, *id, worker.as_deref(), word)
        }
        Work::TellLate { limit } => errands::tell_late(tx, *limit),
        Work::KvSet { workspace, namespace, key, value, kv_type, overwrite, ttl_ms } => {
            let write =
                manage::KvWrite { workspace, namespace, key, value, kv_type, overwrite: *overwrite, ttl_ms: *ttl_ms };
            manage::kv_set(tx, &write).map(Done::Kv)
        }
        Work::KvDelete { workspace, namespace, key } => {
            Ok(if manage::kv_delete(tx, workspace, namespace, key)? { Done::Unit } else { Done::Missing })
        }
        Work::PutSecret(row) => manage::put_secret(tx, row),
        Work::RetireSecret { workspace, name } => manage::retire_secret(tx, workspace, name),
        Work::PutToken(row) => tx.put_token(row).map(|()| Done::Unit),
        Work::RevokeToken { workspace, id } => manage::revoke_token(tx, workspace, id),
        Work::PutWorkspace(row) => manage::put_workspace(tx, row),
        Work::ReleaseKey { workspace, hash, by } => manage::release_key(tx, workspace, *hash, by),
        Work::DeleteRun { workspace, run } => manage::delete_run(tx, workspace, *run),
        Work::AddLogs { workspace, run, step, level, lines, nonce } => {
            manage::add_logs(tx, workspace, *run, &manage::LinesOf { step, level, lines, nonce: *nonce })
        }
        Work::DeleteLogs { workspace, run } => manage::delete_logs(tx, workspace, *run),
        Work::EraseRun { workspace, run } => manage::erase_run(tx, workspace, *run),
        Work::PutChunk(chunk) => files::put_chunk(tx, chunk),
        Work::PutFile { workspace, row, last } => files::put_file(tx, workspace, row, last.as_deref()),
        Work::DeleteFile { workspace, run, path } => files::delete_file(tx, workspace, *run, path),
        Work::Message { workspace, run, message } => manage::message(tx, workspace, *run, message),
        Work::Sweep(rules) => manage::sweep(tx, rules),
        Work::Restored { row, accepted } => restore::restored(tx, row, accepted.as_ref()),
    }
}
