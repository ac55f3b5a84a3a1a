//! Things that are kept as they were written: one row of a namespace of the server's own for each.

use crate::call::Call;
use crate::problem::Problem;
use semel_core::WorkspaceId;
use semel_store::{Done, KvRow, Store, StoreError, Work};
use serde_json::Value as Json;

/// Rows read at a time.
const PAGE: u32 = 1_000;

pub async fn find(call: &Call, namespace: &'static str, key: &str) -> Result<Option<KvRow>, Problem> {
    let (workspace, key) = (call.workspace()?, key.to_owned());
    call.app.read(move |store| live(store, &workspace, namespace, &key)).await
}

/// The row, unless its time is over.
pub fn live(
    store: &dyn Store,
    workspace: &WorkspaceId,
    namespace: &str,
    key: &str,
) -> Result<Option<KvRow>, StoreError> {
    let now = store.now();
    Ok(store.kv(workspace, namespace, key)?.filter(|row| row.expires_at.is_none_or(|end| now < end)))
}

/// All rows whose keys begin so, in order of them, but no more than `most`.
pub fn under(
    store: &dyn Store,
    workspace: &WorkspaceId,
    namespace: &str,
    prefix: &str,
    most: usize,
) -> Result<Vec<KvRow>, StoreError> {
    let now = store.now();
    let mut found: Vec<KvRow> = Vec::new();
    // A key that is the prefix itself would not come after it.
    let mut after = Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty());
    loop {
        let page = store.kv_list(workspace, namespace, after.as_deref(), PAGE)?;
        let Some(last) = page.last() else { return Ok(found) };
        let (full, is_over) = (page.len() == PAGE as usize, !last.key.starts_with(prefix));
        after = Some(last.key.clone());
        let own = |row: &KvRow| row.key.starts_with(prefix) && row.expires_at.is_none_or(|end| now < end);
        found.extend(page.into_iter().filter(own));
        if !full || is_over || found.len() >= most {
            found.truncate(most);
            return Ok(found);
        }
    }
}

pub async fn all(call: &Call, namespace: &'static str, prefix: &str) -> Result<Vec<KvRow>, Problem> {
    let (workspace, prefix) = (call.workspace()?, prefix.to_owned());
    call.app.read(move |store| under(store, &workspace, namespace, &prefix, usize::MAX)).await
}

/// Writes one; what was there is gone.
pub async fn put(call: &Call, namespace: &str, key: String, value: Json) -> Result<(), Problem> {
    call.app.write(written(call.workspace()?, namespace, key, value, true, None)).await.map(|_| ())
}

/// Writes one that is new; false if there is one.
pub async fn add(call: &Call, namespace: &str, key: String, value: Json) -> Result<bool, Problem> {
    let done = call.app.write(written(call.workspace()?, namespace, key, value, false, None)).await?;
    Ok(!matches!(done, Done::Kv(None)))
}

pub fn written(
    workspace: WorkspaceId,
    namespace: &str,
    key: String,
    value: Json,
    overwrite: bool,
    ttl_ms: Option<i64>,
) -> Work {
    Work::KvSet {
        workspace,
        namespace: namespace.to_owned(),
        key,
        value,
        kv_type: "JSON".to_owned(),
        overwrite,
        ttl_ms,
    }
}

/// False if there was none.
pub async fn delete(call: &Call, namespace: &str, key: &str) -> Result<bool, Problem> {
    let work = Work::KvDelete { workspace: call.workspace()?, namespace: namespace.to_owned(), key: key.to_owned() };
    Ok(!matches!(call.app.write(work).await?, Done::Missing | Done::Count(0)))
}
