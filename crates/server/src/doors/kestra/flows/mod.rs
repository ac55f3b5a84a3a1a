//! `/flows`: flows, their revisions and their texts.

pub mod archive;
pub mod bulk;
pub mod graph;
pub mod search;
pub mod show;
pub mod validate;
pub mod write;

use super::filters::{self, Field, Filter, Op};
use super::matching::{TextTest, labels_pass};
use crate::call::Call;
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use crate::state::AppState;
use semel_core::limits::Limits;
use semel_core::{FlowRef, WorkspaceId};
use semel_flow::Diagnostic;
use semel_store::{FlowRow, Store, StoreError};
use serde_json::json;
use std::collections::BTreeMap;

const FIELDS: &[Field] = &[Field::Labels, Field::Namespace, Field::Query, Field::Scope, Field::FlowId];
/// Flows read at a time.
const ROWS: u32 = 500;
/// Kestra's namespace for what runs for the server itself.
pub const SYSTEM_NAMESPACE: &str = "system";

pub fn unknown() -> Problem {
    Problem::new(Code::FlowUnknown, "Requested Flow is not found.")
}

/// The flow of the path.
pub fn address(call: &Call) -> Result<FlowRef, Problem> {
    Ok(FlowRef::new(call.param("namespace")?, call.param("id")?))
}

/// The newest revision of a flow of the caller's workspace.
pub async fn head(app: &AppState, workspace: &WorkspaceId, flow: &FlowRef) -> Result<FlowRow, Problem> {
    let (workspace, flow) = (workspace.clone(), flow.clone());
    app.read(move |store| store.flow(&workspace, &flow, None)).await?.ok_or_else(unknown)
}

/// Newest revisions of all flows that pass.
pub fn all(
    store: &dyn Store,
    workspace: &WorkspaceId,
    mut passes: impl FnMut(&FlowRow) -> bool,
) -> Result<Vec<FlowRow>, StoreError> {
    let mut found = Vec::new();
    let mut after: Option<FlowRef> = None;
    loop {
        let page = store.flows(workspace, after.as_ref(), ROWS)?;
        let more = page.len() == ROWS as usize;
        after = page.last().map(|row| row.flow.clone());
        found.extend(page.into_iter().filter(&mut passes));
        if !more {
            return Ok(found);
        }
    }
}

/// What a list of flows is asked for.
pub struct Asked {
    filters: Vec<Filter>,
    namespace: Vec<TextTest>,
    id: Vec<TextTest>,
    /// Flows of the system itself, or all others.
    system: Vec<bool>,
}

impl Asked {
    /// From `filters[…]`, or, where there is none, from the parameters of older clients.
    pub fn read(call: &Call) -> Result<Asked, Problem> {
        let mut found = filters::read(&call.query, FIELDS)?;
        if found.is_empty() {
            found = legacy(call)?;
        }
        Asked::new(found)
    }

    fn new(filters: Vec<Filter>) -> Result<Asked, Problem> {
        let tests = |field: Field| -> Result<Vec<TextTest>, Problem> {
            filters.iter().filter(|one| one.field == field).map(TextTest::new).collect()
        };
        let scopes = filters.iter().filter(|one| one.field == Field::Scope);
        let system = scopes.map(filters::scope).collect::<Result<Vec<_>, Problem>>()?;
        Ok(Asked {
            namespace: tests(Field::Namespace)?,
            id: tests(Field::FlowId)?,
            system: system.into_iter().flatten().collect(),
            filters,
        })
    }

    pub fn passes(&self, row: &FlowRow) -> bool {
        self.names(&row.flow) && self.labels(row)
    }

    fn names(&self, flow: &FlowRef) -> bool {
        self.namespace.iter().all(|test| test.holds(&flow.namespace))
            && self.id.iter().all(|test| test.holds(&flow.id))
            && self.system.iter().all(|wanted| (flow.namespace == SYSTEM_NAMESPACE) == *wanted)
            && self.filters.iter().all(|filter| is_mentioned(filter, flow))
    }

    fn labels(&self, row: &FlowRow) -> bool {
        if !self.filters.iter().any(|filter| filter.field == Field::Labels) {
            return true;
        }
        let labels = labels_of(row);
        labels_pass(&self.filters, labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

fn is_mentioned(filter: &Filter, flow: &FlowRef) -> bool {
    filter.field != Field::Query || mentions(flow, "", &filter.value) == (filter.op == Op::Equals)
}

/// Full text is asked of the names.
pub fn mentions(flow: &FlowRef, trigger: &str, text: &str) -> bool {
    let name = format!("{}.{} {trigger}", flow.namespace, flow.id).to_lowercase();
    text.to_lowercase().split_whitespace().all(|word| name.contains(word.trim_matches('*')))
}

fn labels_of(row: &FlowRow) -> BTreeMap<String, String> {
    #[derive(serde::Deserialize, Default)]
    struct Labelled {
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }
    serde_json::from_str::<Labelled>(&row.ir).unwrap_or_default().labels
}

fn legacy(call: &Call) -> Result<Vec<Filter>, Problem> {
    let mut found = filters::legacy(
        &call.query,
        &[
            ("q", Field::Query, Op::Equals),
            ("scope", Field::Scope, Op::Equals),
            ("namespace", Field::Namespace, Op::Prefix),
            ("flowId", Field::FlowId, Op::Equals),
        ],
    );
    for text in call.query.all("labels") {
        let (key, value) = filters::label(text)?;
        found.push(Filter { key: Some(key), ..Filter::new(Field::Labels, Op::Equals, &value) });
    }
    Ok(found)
}

/// The text of a flow, or of several.
pub fn text(call: &Call) -> Result<&str, Problem> {
    let text = json::utf8(&call.body)?;
    if text.trim().is_empty() {
        return Err(Problem::new(Code::BodyInvalid, "the body is empty; send the flow's YAML text"));
    }
    Ok(text)
}

/// What is wrong with a flow, each at its path. What Kestra's clients look for comes first.
pub fn complaints(found: &[Diagnostic], source: &str, limits: &Limits) -> Vec<(String, String)> {
    let errors = found.iter().filter(|one| one.is_error());
    errors
        .map(|one| {
            let written = source.get(one.span.start..one.span.end).unwrap_or_default().trim_matches(['"', '\'']);
            let words = match one.code {
                "unknown_type" => format!("Invalid type: {written}: "),
                "unknown_field" => format!("Unrecognized field \"{written}\": "),
                _ => String::new(),
            };
            let suggestion = one.suggestion.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
            let place = format!(" (line {}, column {})", one.span.line, one.span.column);
            let path = semel_flow::path_at(source, one.span.start, limits);
            (path, format!("{words}{}{suggestion}{place}", one.message))
        })
        .collect()
}

/// The refusal of a flow that does not compile.
pub fn invalid(found: &[Diagnostic], source: &str, limits: &Limits) -> Problem {
    let complaints = complaints(found, source, limits);
    let errors = complaints.iter().map(|(path, message)| json!({"path": path, "message": message})).collect();
    Problem::new(Code::FlowInvalid, sentence(&complaints)).errors(errors)
}

/// All complaints as one text, one line each.
pub fn sentence(complaints: &[(String, String)]) -> String {
    let line = |(path, message): &(String, String)| {
        if path.is_empty() { message.clone() } else { format!("{path}: {message}") }
    };
    complaints.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// One constraint of Kestra's that is not about the text.
pub fn violated(path: &str, message: &str) -> Problem {
    Problem::new(Code::FlowInvalid, format!("{path}: {message}"))
        .errors(vec![json!({"path": path, "message": message})])
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::Millis;

    fn row(namespace: &str, id: &str) -> FlowRow {
        FlowRow {
            workspace: WorkspaceId::default(),
            flow: FlowRef::new(namespace, id),
            revision: 1,
            source: String::new(),
            ir: r#"{"labels":{"team":"a"}}"#.to_owned(),
            disabled: false,
            deleted: false,
            created_at: Millis(0),
            created_by: String::new(),
        }
    }

    #[test]
    fn full_text_is_asked_of_the_name() {
        let flow = FlowRef::new("company.team", "pay");
        assert!(mentions(&flow, "", "PAY") && mentions(&flow, "", "team pay*") && mentions(&flow, "tick", "TICK"));
        assert!(!mentions(&flow, "", "bill"));
        assert_eq!(labels_of(&row("a", "b")).get("team").map(String::as_str), Some("a"));
    }

    #[test]
    fn complaints_name_path_place_and_kestra_s_words() {
        let source =
            "id: a\nnamespace: b\ntasks:\n  - id: x\n    type: io.kestra.plugin.core.log.Lgo\n    message: hi\n";
        let found = semel_flow::compile(source, &semel_tasks::REGISTRY, &Limits::default()).unwrap_err();
        let told = complaints(&found, source, &Limits::default());
        assert_eq!(told[0].0, "tasks[0].type");
        assert!(told[0].1.starts_with("Invalid type: io.kestra.plugin.core.log.Lgo: "), "{}", told[0].1);
        assert!(told[0].1.ends_with("(line 5, column 11)"), "{}", told[0].1);
    }
}
