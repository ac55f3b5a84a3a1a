//! `GET /executions/{id}/file`, `/file/metas` and `/file/preview`: files of an execution, by their addresses.
//!
//! An address names its execution, so a file is asked for there and nowhere else. Files are payloads: the route table
//! keeps out whoever may not see those.

use super::act;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use crate::state::AppState;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use semel_core::WorkspaceId;
use semel_core::files::{extension, is_shelf, parse};
use semel_store::FileRow;
use serde_json::{Value as Json, json};

/// Rows of a preview where none are asked for, and at most.
const ROWS: usize = 100;
const ROWS_MAX: usize = 5_000;
/// Bytes of a preview.
const PREVIEW_BYTES_MAX: usize = 2 * 1024 * 1024;
const IMAGES: [&str; 7] = ["jpg", "jpeg", "png", "svg", "gif", "bmp", "webp"];

fn illegal(detail: impl Into<String>) -> Problem {
    Problem::new(Code::IllegalArgument, detail)
}

/// The file that the request is about.
async fn find(call: &Call) -> Result<(WorkspaceId, FileRow), Problem> {
    let (workspace, id) = (call.workspace()?, call.run_id()?);
    act::head(call, id).await?.ok_or_else(Problem::run_unknown)?;
    let address =
        call.query.one("path")?.ok_or_else(|| Problem::query("path", "is missing: send a kestra:/// address"))?;
    let (run, path) = parse(address).ok_or_else(|| illegal("Invalid prefix path: this is no address of a file"))?;
    if is_shelf(run) {
        return Err(illegal(
            "Invalid prefix path: the file is one of a namespace; ask at /namespaces/{namespace}/files",
        ));
    }
    if run != id {
        return Err(illegal(format!("Invalid prefix path: the file is of execution {run}; ask there")));
    }
    let (owner, path) = (workspace.clone(), path.to_owned());
    let found = call.app.read(move |store| store.file(&owner, id, &path)).await?;
    Ok((workspace, found.ok_or_else(|| Problem::new(Code::FileUnknown, "the execution has no such file"))?))
}

pub(crate) async fn chunk(
    app: &AppState,
    workspace: WorkspaceId,
    file: &FileRow,
    number: u32,
) -> Result<Vec<u8>, Problem> {
    let (run, name) = (file.run, file.file);
    let found = app.read(move |store| store.file_chunk(&workspace, run, name, number)).await?;
    found.ok_or_else(|| Problem::new(Code::FileUnknown, "the file was replaced or deleted meanwhile"))
}

pub(crate) async fn bytes_of(app: &AppState, workspace: &WorkspaceId, file: &FileRow) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    for number in 0..file.chunks {
        bytes.extend(chunk(app, workspace.clone(), file, number).await?);
    }
    Ok(bytes)
}

pub async fn get(call: Call) -> Answer {
    let (workspace, file) = find(&call).await?;
    Ok(stream_of(&call.app, workspace, file))
}

/// The bytes, one chunk in memory at a time.
pub(crate) fn stream_of(app: &AppState, workspace: WorkspaceId, file: FileRow) -> Response {
    let name = file.path.rsplit('/').next().unwrap_or("file").to_owned();
    let (bytes, app) = (file.bytes, app.clone());
    let chunks = stream::try_unfold(0, move |number| {
        let (app, workspace, file) = (app.clone(), workspace.clone(), file.clone());
        async move {
            if number >= file.chunks {
                return Ok(None);
            }
            Ok(Some((Bytes::from(chunk(&app, workspace, &file, number).await?), number + 1)))
        }
    });
    // An answer that breaks off is shorter than its length says.
    let body = chunks.map_err(|problem: Problem| std::io::Error::other(problem.detail));
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    // Names in addresses hold nothing that a header could not.
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    response
}

pub async fn metas(call: Call) -> Answer {
    let (_, file) = find(&call).await?;
    ok(json!({"size": file.bytes}))
}

/// The beginning of a file, as its name says it is to be shown.
pub async fn preview(call: Call) -> Answer {
    let (workspace, file) = find(&call).await?;
    let rows = call
        .query
        .read("maxRows", "a whole number from 1 on", |text| text.parse::<usize>().ok().filter(|rows| *rows > 0))?;
    let charset = Charset::read(call.query.one("encoding")?)?;
    let kind = extension(&file.path).map(|dotted| dotted[1..].to_owned()).unwrap_or_default();
    let whole = file.bytes <= PREVIEW_BYTES_MAX as u64;
    let mut bytes = Vec::new();
    for number in 0..file.chunks {
        if bytes.len() >= PREVIEW_BYTES_MAX {
            break;
        }
        bytes.extend(chunk(&call.app, workspace.clone(), &file, number).await?);
    }
    bytes.truncate(PREVIEW_BYTES_MAX);
    ok(shown(&kind, &bytes, whole, charset, rows.unwrap_or(ROWS).min(ROWS_MAX))?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Utf8,
    Latin1,
}

impl Charset {
    fn read(name: Option<&str>) -> Result<Charset, Problem> {
        match name.map(str::to_ascii_uppercase).as_deref() {
            None | Some("UTF-8" | "UTF8" | "US-ASCII") => Ok(Charset::Utf8),
            Some("ISO-8859-1" | "LATIN1") => Ok(Charset::Latin1),
            Some(other) => Err(illegal(format!(
                "Unable to preview using encoding '{}': there are UTF-8 and ISO-8859-1",
                other.chars().take(50).collect::<String>()
            ))),
        }
    }

    /// What is no text of this kind is shown with marks in its place.
    fn text(self, bytes: &[u8]) -> String {
        match self {
            Charset::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Charset::Latin1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        }
    }
}

/// `whole`: the bytes are all there are.
fn shown(extension: &str, bytes: &[u8], whole: bool, charset: Charset, rows: usize) -> Result<Json, Problem> {
    let kind = extension.to_ascii_lowercase();
    let (word, content, truncated) = match kind.as_str() {
        "pdf" | "jpg" | "jpeg" | "png" | "svg" | "gif" | "bmp" | "webp" => {
            if !whole {
                return Err(illegal(format!(
                    "a picture of more than {PREVIEW_BYTES_MAX} bytes is not previewed; download the file"
                )));
            }
            let word = if IMAGES.contains(&kind.as_str()) { "IMAGE" } else { "PDF" };
            (word, Json::String(STANDARD.encode(bytes)), false)
        }
        other => {
            let text = charset.text(bytes);
            let (content, cut) = lines(&text, rows);
            match items(&content).filter(|_| other == "ion") {
                Some(items) => ("LIST", items, cut || !whole),
                None => (if other == "md" { "MARKDOWN" } else { "TEXT" }, Json::String(content), cut || !whole),
            }
        }
    };
    Ok(json!({"extension": extension, "type": word, "content": content, "maxLine": rows, "truncated": truncated}))
}

/// Rows that are values, as tasks write them; a file of another kind of Ion is shown as its text.
fn items(text: &str) -> Option<Json> {
    text.lines().map(|line| serde_json::from_str::<Json>(line).ok()).collect::<Option<Vec<Json>>>().map(Json::Array)
}

/// The first lines, and whether there are more.
fn lines(text: &str, rows: usize) -> (String, bool) {
    let mut all = text.lines();
    let kept: Vec<&str> = all.by_ref().take(rows).collect();
    (kept.join("\n"), all.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_row_and_pictures_are_not_cut_at_all() {
        let text = |rows| shown("csv", b"a\nb\r\nc\n", true, Charset::Utf8, rows).unwrap();
        assert_eq!(
            text(2),
            json!({"extension": "csv", "type": "TEXT", "content": "a\nb", "maxLine": 2, "truncated": true})
        );
        assert_eq!((text(3)["content"].clone(), text(3)["truncated"].clone()), (json!("a\nb\nc"), json!(false)));
        let rows = shown("ion", b"{\"a\":1}\n2\n3\n", true, Charset::Utf8, 2).unwrap();
        assert_eq!((rows["type"].clone(), rows["content"].clone()), (json!("LIST"), json!([{"a": 1}, 2])));
        assert_eq!(shown("ion", b"{a: 1}", true, Charset::Utf8, 2).unwrap()["content"], "{a: 1}");
        assert_eq!(shown("MD", b"# a", true, Charset::Utf8, 9).unwrap()["type"], "MARKDOWN");
        let picture = shown("PNG", &[0xff, 0], true, Charset::Utf8, 9).unwrap();
        assert_eq!((picture["type"].clone(), picture["content"].clone()), (json!("IMAGE"), json!("/wA=")));
        assert_eq!(shown("pdf", b"x", false, Charset::Utf8, 9).unwrap_err().code, Code::IllegalArgument);
        assert_eq!(shown("txt", b"x", false, Charset::Utf8, 9).unwrap()["truncated"], true);
    }

    #[test]
    fn encodings_are_known_or_refused() {
        assert_eq!(Charset::read(None).unwrap().text("é".as_bytes()), "é");
        assert_eq!(Charset::read(Some("iso-8859-1")).unwrap().text(&[0xe9]), "é");
        assert_eq!(Charset::read(Some("EBCDIC")).unwrap_err().code, Code::IllegalArgument);
    }
}
