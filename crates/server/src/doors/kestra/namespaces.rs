//! `/namespaces`: there are those that flows are in, and those above them.

use super::flows::{SYSTEM_NAMESPACE, all};
use super::paged::Paged;
use crate::call::{Answer, Call, ok};
use serde_json::json;
use std::collections::BTreeSet;

pub async fn get(call: Call) -> Answer {
    ok(json!({"id": call.param("namespace")?, "deleted": false}))
}

pub async fn search(call: Call) -> Answer {
    let paged = Paged::read(&call.query)?;
    let (workspace, wanted) = (call.workspace()?, call.query.text("q")?.unwrap_or_default().to_lowercase());
    let rows = call.app.read(move |store| all(store, &workspace, |_| true)).await?;
    let mut names: BTreeSet<String> = BTreeSet::from([SYSTEM_NAMESPACE.to_owned()]);
    for row in rows {
        let name = &row.flow.namespace;
        names.extend(name.match_indices('.').map(|(end, _)| name[..end].to_owned()));
        names.insert(row.flow.namespace);
    }
    let mut names: Vec<String> = names.into_iter().filter(|name| name.to_lowercase().contains(&wanted)).collect();
    paged.sort(&mut names, &["id"], |name, _| name.clone())?;
    // Kestra says so of namespaces that exist only through their flows.
    paged.answer(&names, |name| json!({"id": name, "disabled": true}))
}
