//! Files that come with a form, each taken in for the input that its part or its own name says.
//!
//! They are written as they arrive and belong to the execution: the one that is to be, or the one that stands still. If it
//! never comes to be, a sweep removes them.

use crate::call::Call;
use crate::codes::Code;
use crate::doors::form::Intake;
use crate::problem::Problem;
use bytes::Bytes;
use semel_core::ir::{InputDef, InputType};
use semel_core::{FlowRef, RunId, WorkspaceId};
use semel_engine::Engine;
use semel_engine::files::{Upload, UploadError};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

pub struct Uploads {
    engine: Arc<Engine>,
    workspace: WorkspaceId,
    flow: FlowRef,
    run: Option<RunId>,
    /// Inputs that are files.
    inputs: Vec<String>,
    open: Option<(String, Upload)>,
    done: Vec<(String, String)>,
}

impl Uploads {
    /// `run`: the execution that is there already.
    pub fn new(call: &Call, flow: &FlowRef, run: Option<RunId>, inputs: &[InputDef]) -> Result<Uploads, Problem> {
        let files = inputs.iter().filter(|def| def.input_type == InputType::File);
        Ok(Uploads {
            engine: call.app.engine().clone(),
            workspace: call.workspace()?,
            flow: flow.clone(),
            run,
            inputs: files.map(|def| def.id.clone()).collect(),
            open: None,
            done: Vec::new(),
        })
    }

    /// Gives the inputs their files; the id that the execution must get, if there are any.
    pub fn into_inputs(self, inputs: &mut Map<String, Json>) -> Option<RunId> {
        let run = self.run.filter(|_| !self.done.is_empty());
        inputs.extend(self.done.into_iter().map(|(input, address)| (input, address.into())));
        run
    }
}

fn refused(input: &str, error: UploadError) -> Problem {
    match error {
        UploadError::Store(error) => error.into(),
        other => Problem::new(Code::IllegalArgument, format!("Invalid input for `{input}`, {other}")),
    }
}

impl Intake for Uploads {
    fn begin(&mut self, field: &str, name: &str, _: Option<&str>) -> bool {
        let Some(input) = self.inputs.iter().find(|input| *input == field || *input == name) else { return false };
        let run = *self.run.get_or_insert_with(|| self.engine.fresh_run());
        let upload = self.engine.upload(&self.workspace, &self.flow, run, input, name);
        self.open = Some((input.clone(), upload));
        true
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Problem> {
        let Some((input, upload)) = &mut self.open else { return Ok(()) };
        upload.write(&bytes).await.map_err(|error| refused(input, error))
    }

    async fn end(&mut self) -> Result<(), Problem> {
        let Some((input, upload)) = self.open.take() else { return Ok(()) };
        let address = upload.finish().await.map_err(|error| refused(&input, error))?;
        // Of two files for one input the last counts.
        self.done.retain(|(known, _)| *known != input);
        self.done.push((input, address));
        Ok(())
    }
}
