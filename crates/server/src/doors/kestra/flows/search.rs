//! Flows that are asked for, by what they are and by what they say.

use super::super::flow_json;
use super::super::paged::{Paged, results};
use super::{Asked, all};
use crate::call::{Answer, Call};
use crate::problem::Problem;
use semel_store::FlowRow;
use serde_json::{Value as Json, json};

/// All flows that the query asks for.
pub async fn asked(call: &Call) -> Result<Vec<FlowRow>, Problem> {
    let (workspace, asked) = (call.workspace()?, Asked::read(call)?);
    call.app.read(move |store| all(store, &workspace, |row| asked.passes(row))).await
}

const SORTED: &[&str] = &["id", "namespace", "revision", "disabled", "updated"];

fn sorted_by(row: &FlowRow, field: &str) -> String {
    match field {
        "id" => row.flow.id.clone(),
        "namespace" => row.flow.namespace.clone(),
        "revision" => format!("{:010}", row.revision),
        "disabled" => row.disabled.to_string(),
        _ => row.created_at.to_rfc3339(),
    }
}

pub async fn get(call: Call) -> Answer {
    let paged = Paged::read(&call.query)?;
    let mut rows = asked(&call).await?;
    paged.sort(&mut rows, SORTED, sorted_by)?;
    let (limits, payloads) = (call.app.limits(), call.sees_payloads());
    paged.answer(&rows, |row| flow_json::flow(row, limits, payloads))
}

/// Characters shown around what was found.
const AROUND: usize = 60;
const FRAGMENTS_MAX: usize = 5;

/// Flows whose text says something. Who may not see texts finds nothing in them.
pub async fn source(call: Call) -> Answer {
    let paged = Paged::read(&call.query)?;
    let wanted = call.query.text("q")?.unwrap_or_default();
    if !call.sees_payloads() {
        return results(vec![], 0);
    }
    let (workspace, namespace) = (call.workspace()?, call.query.text("namespace")?.unwrap_or_default());
    let needle = wanted.clone();
    let says =
        move |row: &FlowRow| row.flow.namespace.starts_with(&namespace) && !fragments(&row.source, &needle).is_empty();
    let mut rows = call.app.read(move |store| all(store, &workspace, says)).await?;
    paged.sort(&mut rows, SORTED, sorted_by)?;
    let limits = call.app.limits();
    paged.answer(
        &rows,
        |row| json!({"model": flow_json::flow(row, limits, true), "fragments": fragments(&row.source, &wanted)}),
    )
}

/// Pieces of the text around each place, with the place marked.
fn fragments(source: &str, wanted: &str) -> Vec<Json> {
    if wanted.is_empty() {
        return vec![source.chars().take(2 * AROUND).collect::<String>().into()];
    }
    let (lower, wanted) = (source.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    let shown = |(at, _): (usize, &str)| {
        let before: String = source[..at].chars().rev().take(AROUND).collect::<Vec<_>>().into_iter().rev().collect();
        let end = at + wanted.len();
        let after: String = source[end..].chars().take(AROUND).collect();
        format!("{before}[mark]{}[/mark]{after}", &source[at..end]).into()
    };
    lower.match_indices(&wanted).take(FRAGMENTS_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_marked() {
        assert_eq!(
            fragments("id: Pay\nné: pay", "PAY"),
            ["id: [mark]Pay[/mark]\nné: pay", "id: Pay\nné: [mark]pay[/mark]"]
        );
        assert!(fragments("id: a", "zzz").is_empty());
        assert_eq!(fragments("id: a", ""), ["id: a"]);
    }
}
