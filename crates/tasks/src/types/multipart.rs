//! Forms that carry files: `multipart/form-data`.

use crate::effect::{Request, Tools};
use crate::files::{Desk, FileError};
use crate::{TaskError, config};
use semel_core::Hash16;
use semel_core::files::{is_address, safe_name};
use serde_json::{Map, Value as Json};

/// One part: a text, or a file by its address. `{name, content}` gives a file its name.
struct Part {
    field: String,
    file_name: Option<String>,
    value: String,
}

/// The body and its content type. The boundary follows from the step, so that a repeat sends the same bytes.
pub async fn encode(tools: &Tools, request: &Request, form: Map<String, Json>) -> Result<(Vec<u8>, String), TaskError> {
    let parts: Vec<Part> = form.iter().filter_map(|(field, value)| part(field, value)).collect();
    let desk = tools.desk(request).ok();
    let bytes_max = tools.limits.http_answer_bytes_max;
    let boundary = Hash16::of(&[request.step_id.as_bytes(), b"boundary"]).hex();
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let written = tokio::task::spawn_blocking(move || write(desk.as_ref(), &parts, &boundary, bytes_max)).await;
    let bytes = written.map_err(|error| TaskError { code: "internal", message: error.to_string() })??;
    Ok((bytes, content_type))
}

fn part(field: &str, value: &Json) -> Option<Part> {
    let field = field.to_owned();
    match value {
        Json::Null => None,
        Json::Object(file) if file.contains_key("content") => Some(Part {
            field,
            file_name: file.get("name").map(config::as_text),
            value: file.get("content").map(config::as_text).unwrap_or_default(),
        }),
        other => Some(Part { field, file_name: None, value: config::as_text(other) }),
    }
}

fn write(desk: Option<&Desk>, parts: &[Part], boundary: &str, bytes_max: usize) -> Result<Vec<u8>, TaskError> {
    let mut body = Vec::new();
    for part in parts {
        let room = bytes_max.saturating_sub(body.len()) as u64;
        let (content, file_name) = match desk.filter(|_| is_address(&part.value)) {
            None => (part.value.clone().into_bytes(), part.file_name.clone()),
            Some(desk) => {
                let last = part.value.rsplit('/').next().unwrap_or_default().to_owned();
                (desk.read(&part.value, room)?, part.file_name.clone().or(Some(last)))
            }
        };
        if content.len() as u64 > room {
            return Err(FileError::TooLarge(bytes_max as u64).into());
        }
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.field));
        if let Some(name) = file_name {
            let name = safe_name(&name);
            head.push_str(&format!("; filename=\"{name}\"\r\nContent-Type: application/octet-stream"));
        }
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(body)
}

/// A name that cannot end its own quotes or line.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
