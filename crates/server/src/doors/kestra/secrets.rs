//! `/secrets`: the names that flows can ask for. Values never come back, and nothing is written here.

use super::filters::{self, Field};
use super::paged::Paged;
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use serde_json::{Value as Json, json};

const FIELDS: &[Field] = &[Field::Query, Field::Namespace];

/// All names of the workspace: its own encrypted ones, and those of the environment where it may read them.
async fn names(call: &Call) -> Result<Vec<String>, Problem> {
    let (workspace, engine) = (call.workspace()?, call.app.engine().clone());
    let asked = filters::read(&call.query, FIELDS)?;
    let wanted: Vec<String> = asked
        .iter()
        .filter(|filter| filter.field == Field::Query)
        .map(|filter| filter.value.to_lowercase())
        .chain(call.query.all("q").map(str::to_lowercase))
        .collect();
    let mut names = call.app.read(move |_| engine.secret_names(&workspace)).await?;
    names.retain(|name| wanted.iter().all(|text| name.to_lowercase().contains(text)));
    Ok(names)
}

/// Secrets belong to a workspace, not to a namespace: every namespace has them all.
pub async fn list(call: Call) -> Answer {
    let paged = Paged::read(&call.query)?;
    let mut names = names(&call).await?;
    paged.sort(&mut names, &["key"], |name, _| name.clone())?;
    let total = names.len();
    let page: Vec<Json> = names.iter().skip(paged.skip()).take(paged.size).map(|name| json!({"key": name})).collect();
    ok(json!({"readOnly": true, "results": page, "total": total}))
}

pub async fn inherited(call: Call) -> Answer {
    let (namespace, names) = (call.param("namespace")?.to_owned(), names(&call).await?);
    ok(json!({namespace: names}))
}
