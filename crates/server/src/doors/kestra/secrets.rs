//! `/secrets`: the names that flows can ask for. Values never come back, and nothing is written here.

use super::filters::{self, Field, Filter, Op};
use super::paged::Paged;
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use serde_json::{Value as Json, json};

const FIELDS: &[Field] = &[Field::Query, Field::Namespace];

/// All names of the workspace: its own encrypted ones, and those of the environment where it may read them.
async fn names(call: &Call) -> Result<Vec<String>, Problem> {
    let (workspace, engine) = (call.workspace()?, call.app.engine().clone());
    let mut asked = filters::read(&call.query, FIELDS)?;
    asked.extend(call.query.all("q").map(|text| Filter::new(Field::Query, Op::Equals, text)));
    // Every namespace has every secret, so none is left out by its namespace; what excludes one excludes all.
    let nothing =
        asked.iter().any(|filter| filter.field == Field::Namespace && matches!(filter.op, Op::NotEquals | Op::NotIn));
    if nothing {
        return Err(filters::invalid(
            "`namespace` cannot exclude: secrets are those of the tenant, in every namespace",
        ));
    }
    let mut names = call.app.read(move |_| engine.secret_names(&workspace)).await?;
    let holds = |name: &str, filter: &Filter| {
        filter.field != Field::Query
            || name.to_lowercase().contains(&filter.value.to_lowercase()) == (filter.op == Op::Equals)
    };
    names.retain(|name| asked.iter().all(|filter| holds(name, filter)));
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
