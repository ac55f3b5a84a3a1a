//! What inputs and outputs are held to: the schemas of workflows and of task definitions.
//!
//! A schema stands in the definition, or is a registered one that the definition names. The registered one counts as it
//! is when a task begins; for a task that somebody outside carries out it is journaled with the task.

use super::definitions::Definition;
use crate::away;
use crate::evaluate::Evaluator;
use crate::scope::Services;
use semel_core::WorkspaceId;
use semel_core::ir::{SchemaUse, Task};
use semel_core::run::{FAILED_FOR_GOOD, Failure};
use semel_core::schema::{check, in_words, misfits};
use semel_expr::Value;
use semel_store::{SCHEMAS, StoreError};
use serde_json::Value as Json;

/// Versions of one schema that are read at a time.
const PAGE: u32 = 100;

/// What a task is held to.
#[derive(Default)]
pub(crate) struct Schemas {
    pub input: Option<SchemaUse>,
    pub output: Option<SchemaUse>,
}

impl Definition {
    pub(super) fn schemas(&self) -> Result<Schemas, Failure> {
        let read = |written: &Json| match written {
            Json::Null => Ok(None),
            written if self.enforce_schema => SchemaUse::read(written)
                .map(Some)
                .map_err(|error| Failure::new("bad_config", format!("a schema of the task definition: {error}"))),
            _ => Ok(None),
        };
        Ok(Schemas { input: read(&self.input_schema)?, output: read(&self.output_schema)? })
    }
}

/// Those of the definition that came with the task, else of the registered one.
pub(super) fn schemas_of(task: &Task, registered: Option<&Definition>) -> Result<Schemas, Failure> {
    match task.conductor.as_deref() {
        Some(own) if own.defined => {
            Ok(Schemas { input: own.input_schema.as_deref().cloned(), output: own.output_schema.as_deref().cloned() })
        }
        _ => registered.map_or_else(|| Ok(Schemas::default()), Definition::schemas),
    }
}

impl Services {
    /// The schema that is meant; `None` if there is no registered one of that name and version.
    pub(crate) fn schema(&self, workspace: &WorkspaceId, wanted: &SchemaUse) -> Result<Option<Json>, StoreError> {
        if !wanted.data.is_null() {
            return Ok(Some(wanted.data.clone()));
        }
        let (name, version) = (&wanted.name, wanted.version);
        let row = match version {
            0 => self.newest_schema(workspace, name)?,
            version => self.store.kv(workspace, SCHEMAS, &format!("{name}@{version:010}"))?.map(|row| row.value),
        };
        Ok(row.map(|row| row["data"].clone()))
    }

    fn newest_schema(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<Json>, StoreError> {
        let prefix = format!("{name}@");
        let (mut after, mut newest) = (prefix.clone(), None);
        loop {
            let page = self.store.kv_list(workspace, SCHEMAS, Some(&after), PAGE)?;
            let full = page.len() == PAGE as usize;
            for row in page {
                if !row.key.starts_with(&prefix) {
                    return Ok(newest);
                }
                (after, newest) = (row.key, Some(row.value));
            }
            if !full {
                return Ok(newest);
            }
        }
    }
}

fn unknown(wanted: &SchemaUse) -> String {
    let version = if wanted.version == 0 { String::new() } else { format!(" and version {}", wanted.version) };
    format!("no schema is registered with name {}{version}", wanted.name)
}

/// In what a value does not fit a schema, in words; nothing if it does.
pub(crate) fn misfit(
    services: &Services,
    workspace: &WorkspaceId,
    wanted: Option<&SchemaUse>,
    value: &Json,
) -> Result<Option<String>, StoreError> {
    let Some(wanted) = wanted else { return Ok(None) };
    Ok(match services.schema(workspace, wanted)? {
        None => Some(unknown(wanted)),
        Some(schema) => match unusable(wanted, &schema) {
            Some(text) => Some(text),
            None => Some(misfits(&schema, value)).filter(|found| !found.is_empty()).map(|found| in_words(&found)),
        },
    })
}

/// A registered schema is kept as it was written, whatever it holds: it is looked at when it is used.
fn unusable(wanted: &SchemaUse, schema: &Json) -> Option<String> {
    let registered = wanted.data.is_null();
    let misfit = check(schema).err().filter(|_| registered)?;
    Some(format!("the registered schema {} cannot be used: {misfit}", wanted.name))
}

impl Evaluator<'_> {
    fn misfit(&self, wanted: Option<&SchemaUse>, value: &Value) -> Result<Option<String>, Failure> {
        // A secret is a text, whatever it is.
        let shown = wanted.map(|_| value.to_masked_json()).unwrap_or_default();
        misfit(self.services, self.workspace, wanted, &shown).map_err(|error| unread(&error))
    }

    /// Refuses an input before anybody sees it.
    pub(super) fn hold_input(&self, wanted: Option<&SchemaUse>, input: &Value) -> Result<(), Failure> {
        match self.misfit(wanted, input)? {
            None => Ok(()),
            Some(text) => Err(Failure::new(FAILED_FOR_GOOD, format!("the input does not fit its schema: {text}"))),
        }
    }

    /// The schema itself, for somebody who checks it later.
    pub(super) fn schema_data(&self, wanted: Option<&SchemaUse>) -> Result<Json, Failure> {
        let Some(wanted) = wanted else { return Ok(Json::Null) };
        let found = self.services.schema(self.workspace, wanted).map_err(|error| unread(&error))?;
        let schema = found.ok_or_else(|| Failure::new(FAILED_FOR_GOOD, unknown(wanted)))?;
        match unusable(wanted, &schema) {
            None => Ok(schema),
            Some(text) => Err(Failure::new(FAILED_FOR_GOOD, text)),
        }
    }

    /// Refuses what a task that the server carries out has come to.
    pub(crate) fn hold_output(&self, task: &Task, output: &Json) -> Result<(), Failure> {
        if task.conductor.is_none() {
            return Ok(());
        }
        let registered = self.registered(task)?;
        let schemas = schemas_of(task, registered.as_ref())?;
        match self.misfit(schemas.output.as_ref(), &Value::from_json(output))? {
            None => Ok(()),
            Some(text) => Err(Failure::new(FAILED_FOR_GOOD, format!("the output does not fit its schema: {text}"))),
        }
    }

    /// Refuses what a run that ends well has to show.
    pub(crate) fn hold_run_output(&self, output: &Value) -> Result<(), Failure> {
        let wanted = self.flow.index.flow.conductor.as_deref().and_then(|own| own.output_schema.as_ref());
        let ends_well = self.scope.run.is_some_and(|run| run.state.stop.is_none());
        match self.misfit(wanted.filter(|_| ends_well), output)? {
            None => Ok(()),
            Some(text) => {
                Err(Failure::new("bad_output", format!("the output of the workflow does not fit its schema: {text}")))
            }
        }
    }
}

fn unread(error: &StoreError) -> Failure {
    away::note(error);
    Failure::new("store", error.to_string())
}
