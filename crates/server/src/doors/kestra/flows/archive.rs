//! Flows as files: a ZIP of texts out, a ZIP or a text in.

use super::bulk::listed;
use super::search::asked;
use super::write;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::doors::form::{self, Kept};
use crate::problem::Problem;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use semel_flow::documents;
use semel_store::{FlowRow, PushRule};
use std::io::{Cursor, Read, Write};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// Files of an archive that are looked at.
const FILES_MAX: usize = 10_000;

pub async fn export_by_ids(call: Call) -> Answer {
    let rows = listed(&call).await?;
    exported(&call, &rows)
}

pub async fn export_by_query(call: Call) -> Answer {
    let rows = asked(&call).await?;
    exported(&call, &rows)
}

fn exported(call: &Call, rows: &[FlowRow]) -> Answer {
    if !call.sees_payloads() {
        return Err(Problem::new(Code::Forbidden, "texts of flows are not shown to viewers"));
    }
    let bytes = zipped(rows).ok_or_else(|| Problem::internal("an archive could not be written"))?;
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"flows.zip\""));
    Ok(response)
}

fn zipped(rows: &[FlowRow]) -> Option<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for row in rows {
        let name = format!("{}.{}.yml", row.flow.namespace, row.flow.id);
        archive.start_file(name, SimpleFileOptions::default()).ok()?;
        archive.write_all(row.source.as_bytes()).ok()?;
    }
    archive.finish().ok().map(Cursor::into_inner)
}

/// The texts of an archive by name. `None` for a text that is none, or is too large to be a flow.
fn unzipped(bytes: &[u8], bytes_max: usize) -> Option<Vec<(String, Option<String>)>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    let mut found = Vec::new();
    for index in 0..archive.len().min(FILES_MAX) {
        let mut file = archive.by_index(index).ok()?;
        let name = file.name().ok()?.into_owned();
        if file.is_dir() || !(name.ends_with(".yml") || name.ends_with(".yaml")) {
            continue;
        }
        // A small archive may hold a file without end.
        let mut text = String::new();
        let read = file.by_ref().take(bytes_max as u64 + 1).read_to_string(&mut text).is_ok();
        found.push((name, Some(text).filter(|text| read && text.len() <= bytes_max)));
    }
    Some(found)
}

/// Texts with what they are called in the answer: files by their name, flows of one text by their place in it.
fn texts(name: &str, bytes: &[u8], bytes_max: usize) -> Result<Vec<(String, Option<String>)>, Problem> {
    let lower = name.to_ascii_lowercase();
    let unreadable = || Problem::new(Code::IllegalArgument, "the file cannot be read");
    if lower.ends_with(".zip") {
        return unzipped(bytes, bytes_max).ok_or_else(unreadable);
    }
    if lower.ends_with(".yml") || lower.ends_with(".yaml") {
        let text = std::str::from_utf8(bytes).map_err(|_| unreadable())?;
        let flows = documents(text).into_iter().enumerate();
        return Ok(flows.map(|(index, flow)| (index.to_string(), Some(flow.text.trim().to_owned()))).collect());
    }
    Err(Problem::new(
        Code::IllegalArgument,
        format!("Cannot import file `{}`: send .yaml, .yml or .zip", lower.chars().take(100).collect::<String>()),
    ))
}

/// Stores what can be stored; the answer names what cannot.
pub async fn import(call: Call) -> Answer {
    let mut kept = Kept { files: Vec::new(), bytes_max: call.app.limits().body_bytes_max };
    form::read(&call, &mut kept).await?;
    let file = kept.files.iter().find(|file| file.field == "fileUpload").or_else(|| kept.files.first());
    let file = file.ok_or_else(|| Problem::new(Code::BodyInvalid, "send the file as the form field `fileUpload`"))?;
    let mut wrong = Vec::new();
    for (name, text) in texts(&file.name, &file.bytes, call.app.limits().flow_bytes_max)? {
        let stored = match &text {
            Some(text) => write::push(&call, text, PushRule::Any).await,
            None => Err(Problem::new(Code::FlowInvalid, "not a text")),
        };
        match stored {
            Ok(_) => {}
            Err(problem) if problem.code == Code::FlowInvalid => wrong.push(name),
            Err(problem) => return Err(problem),
        }
    }
    ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{FlowRef, Millis, WorkspaceId};

    fn row(id: &str, source: &str) -> FlowRow {
        FlowRow {
            workspace: WorkspaceId::default(),
            flow: FlowRef::new("company.team", id),
            revision: 1,
            source: source.to_owned(),
            ir: String::new(),
            disabled: false,
            deleted: false,
            created_at: Millis(0),
            created_by: String::new(),
        }
    }

    #[test]
    fn what_goes_out_comes_in() {
        let bytes = zipped(&[row("a", "id: a\n"), row("b", &"x".repeat(2_000))]).unwrap();
        assert!(bytes.len() < 1_000, "compressed");
        let found = texts("Flows.ZIP", &bytes, 1_000).unwrap();
        assert_eq!(found[0], ("company.team.a.yml".to_owned(), Some("id: a\n".to_owned())));
        assert_eq!(found[1], ("company.team.b.yml".to_owned(), None), "too large to be a flow");
        assert!(texts("x.zip", b"PK\x03\x04rubbish", 1_000).is_err());
    }

    #[test]
    fn one_text_may_hold_several() {
        let found = texts("x.yaml", b"id: a\n---\nid: b\n", 1_000).unwrap();
        assert_eq!(found, [("0".to_owned(), Some("id: a".to_owned())), ("1".to_owned(), Some("id: b".to_owned()))]);
        assert_eq!(texts("x.exe", b"", 1_000).unwrap_err().code, Code::IllegalArgument);
    }
}
