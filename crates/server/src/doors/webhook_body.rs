//! What a webhook's sender has sent, as fields of `trigger`.
//!
//! | what came | fields |
//! |---|---|
//! | `multipart/form-data` | `parts`, its files, each stored for the run; `formFields`, lists of texts by name |
//! | anything else, and the trigger has `fetchType: STORE` | `uri`, the address of the stored body |
//! | anything else | `body`: an object or list where it is JSON, else its text, or base64 of what is no text |
//!
//! Files are stored before the event is decided on. Those of a run that never comes to be are swept away.

use super::form::{self, Intake};
use crate::call::Call;
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use axum::http::header::CONTENT_TYPE;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use semel_core::{FlowRef, RunId, WorkspaceId};
use semel_engine::Engine;
use semel_engine::files::{Upload, UploadError};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// What came, and the id that the run must get if there are files for it.
pub struct Sent {
    pub fields: Map<String, Json>,
    pub run: Option<RunId>,
}

pub async fn read(call: &Call, workspace: &WorkspaceId, flow: &FlowRef, store: bool) -> Result<Sent, Problem> {
    let kind = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let plain = kind.split(';').next().unwrap_or_default().trim();
    let mut shelf =
        Shelf { engine: call.app.engine().clone(), workspace: workspace.clone(), flow: flow.clone(), run: None };
    if plain.eq_ignore_ascii_case("multipart/form-data") {
        return multipart(call, kind, shelf).await;
    }
    if store && !call.body.is_empty() {
        let mut upload = shelf.begin("body", "body");
        upload.write(&call.body).await.map_err(refused)?;
        let uri = upload.finish().await.map_err(refused)?;
        return Ok(Sent { fields: Map::from_iter([("uri".to_owned(), uri.into())]), run: shelf.run });
    }
    let mut fields = Map::new();
    if !store {
        fields.insert("body".to_owned(), body(&call.body, call.app.limits().json_depth_max)?);
    }
    Ok(Sent { fields, run: None })
}

async fn multipart(call: &Call, kind: &str, shelf: Shelf) -> Result<Sent, Problem> {
    let mut files = Files { shelf, open: None, parts: Vec::new() };
    let form = form::of_bytes(call.body.clone(), kind, call.app.limits(), &mut files).await?;
    let mut texts: Map<String, Json> = Map::new();
    for (name, text) in form.fields {
        if let Json::Array(values) = texts.entry(name).or_insert_with(|| json!([])) {
            values.push(text.into());
        }
    }
    let fields = [("parts".to_owned(), files.parts.into()), ("formFields".to_owned(), texts.into())];
    Ok(Sent { fields: Map::from_iter(fields), run: files.shelf.run })
}

fn refused(error: UploadError) -> Problem {
    match error {
        UploadError::Store(error) => error.into(),
        other => Problem::new(Code::BodyTooLarge, other.to_string()),
    }
}

/// Where the files of one delivery go: to the run that is to be.
struct Shelf {
    engine: Arc<Engine>,
    workspace: WorkspaceId,
    flow: FlowRef,
    run: Option<RunId>,
}

impl Shelf {
    fn begin(&mut self, what: &str, name: &str) -> Upload {
        let run = *self.run.get_or_insert_with(|| self.engine.fresh_run());
        self.engine.upload(&self.workspace, &self.flow, run, what, name)
    }
}

struct Files {
    shelf: Shelf,
    open: Option<(Map<String, Json>, u64, Upload)>,
    parts: Vec<Json>,
}

impl Intake for Files {
    fn begin(&mut self, field: &str, name: &str, kind: Option<&str>) -> bool {
        let mut part = Map::new();
        part.insert("name".to_owned(), field.into());
        part.insert("filename".to_owned(), name.into());
        if let Some(kind) = kind {
            part.insert("contentType".to_owned(), kind.into());
        }
        self.open = Some((part, 0, self.shelf.begin(field, name)));
        true
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Problem> {
        let Some((_, size, upload)) = &mut self.open else { return Ok(()) };
        *size += bytes.len() as u64;
        upload.write(&bytes).await.map_err(refused)
    }

    async fn end(&mut self) -> Result<(), Problem> {
        let Some((mut part, size, upload)) = self.open.take() else { return Ok(()) };
        let uri = upload.finish_as_it_is().await.map_err(refused)?;
        part.insert("size".to_owned(), size.into());
        part.insert("uri".to_owned(), uri.into());
        self.parts.push(part.into());
        Ok(())
    }
}

/// JSON objects and arrays are read; other text stays text, and what is no text is base64. No body is null.
fn body(bytes: &[u8], depth_max: usize) -> Result<Json, Problem> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(STANDARD.encode(bytes).into()) };
    if text.is_empty() {
        return Ok(Json::Null);
    }
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(text.into());
    }
    json::check_depth(bytes, depth_max)?;
    // The sender cannot be asked to change its text, so a repeated key is read as most do: the last counts.
    Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_where_they_can_be_and_text_otherwise() {
        let read = |bytes: &[u8]| body(bytes, 64).map_err(|problem| problem.code);
        assert_eq!(read(b""), Ok(Json::Null));
        assert_eq!(read(br#" {"a":1}"#), Ok(json!({"a": 1})));
        assert_eq!(read(b"[1,2]"), Ok(json!([1, 2])));
        assert_eq!(read(b"17"), Ok(json!("17")));
        assert_eq!(read(b"a=1&b=2"), Ok(json!("a=1&b=2")));
        assert_eq!(read(b"{broken"), Ok(json!("{broken")));
        assert_eq!(read(br#"{"a":1,"a":2}"#), Ok(json!({"a": 2})));
        assert_eq!(read(b"\xff\x00"), Ok(json!("/wA=")), "as Kestra gives it to templates");
        assert_eq!(read(&b"[".repeat(100_000)), Err(Code::JsonTooDeep));
    }
}
