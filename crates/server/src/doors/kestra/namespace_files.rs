//! `/namespaces/{namespace}/files`: files that belong to a namespace and to no execution.
//!
//! A folder is there as long as a file is in it, so making one changes nothing, and it goes with its last file.

use super::executions::files::{bytes_of, stream_of};
use super::kv::namespace;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::doors::form::{self, File, Intake, Kept};
use crate::problem::Problem;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use semel_core::WorkspaceId;
use semel_core::files::{name_on_shelf, path_on_shelf, shelf};
use semel_engine::Engine;
use semel_engine::files::{Upload, UploadError};
use semel_store::{Done, FileRow, Store, StoreError, Work};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::sync::Arc;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// Files of a namespace that one call looks at.
const FILES_MAX: usize = 10_000;
const ROWS: u32 = 500;
/// Bytes that an archive may hold, on the way in and out.
const ARCHIVE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Flows are no files here.
const FLOWS: &str = "_flows";

struct Place {
    workspace: WorkspaceId,
    namespace: String,
}

fn place(call: &Call) -> Result<Place, Problem> {
    Ok(Place { workspace: call.workspace()?, namespace: namespace(call)? })
}

fn illegal(detail: impl Into<String>) -> Problem {
    Problem::new(Code::IllegalArgument, detail)
}

/// A query parameter that names a file or folder, without the slashes around it; empty for the root.
fn named(call: &Call, parameter: &str) -> Result<String, Problem> {
    let given = call.query.one(parameter)?.unwrap_or_default().to_owned();
    let name = given.trim_matches('/').to_owned();
    if name == FLOWS || name.starts_with("_flows/") {
        return Err(illegal(format!("Forbidden path: {given}")));
    }
    Ok(name)
}

fn required(call: &Call, parameter: &str) -> Result<String, Problem> {
    match named(call, parameter)? {
        name if name.is_empty() => Err(Problem::query(parameter, "is missing: say which file")),
        name => Ok(name),
    }
}

fn missing(name: &str) -> Problem {
    Problem::new(Code::FileUnknown, format!("File not found: /{name}"))
}

impl Place {
    fn path(&self, name: &str) -> Result<(semel_core::RunId, String), Problem> {
        path_on_shelf(&self.namespace, name).ok_or_else(|| illegal(format!("`{name}` cannot be the name of a file")))
    }

    async fn file(&self, call: &Call, name: &str) -> Result<Option<FileRow>, Problem> {
        let (workspace, (run, path)) = (self.workspace.clone(), self.path(name)?);
        call.app.read(move |store| store.file(&workspace, run, &path)).await
    }

    /// All files with their names, in order of name.
    async fn all(&self, call: &Call) -> Result<BTreeMap<String, FileRow>, Problem> {
        let (workspace, namespace) = (self.workspace.clone(), self.namespace.clone());
        call.app.read(move |store| all(store, &workspace, &namespace)).await
    }

    /// The file of that name, or all of the folder.
    async fn under(&self, call: &Call, name: &str) -> Result<BTreeMap<String, FileRow>, Problem> {
        let folder = format!("{name}/");
        let mut found = self.all(call).await?;
        found.retain(|file, _| file == name || file.starts_with(&folder));
        Ok(found)
    }

    fn upload(&self, engine: &Engine, name: &str) -> Result<Upload, Problem> {
        let found = engine.upload_to_namespace(&self.workspace, &self.namespace, name);
        found.ok_or_else(|| illegal(format!("`{name}` cannot be the name of a file")))
    }
}

fn all(store: &dyn Store, workspace: &WorkspaceId, namespace: &str) -> Result<BTreeMap<String, FileRow>, StoreError> {
    let (run, prefix) = shelf(namespace);
    let (mut found, mut after) = (BTreeMap::new(), prefix);
    while found.len() < FILES_MAX {
        let rows = store.files(workspace, run, Some(&after), ROWS)?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.path);
        found.extend(rows.into_iter().filter_map(|row| Some((name_on_shelf(namespace, &row.path)?, row))));
    }
    Ok(found)
}

pub async fn get(call: Call) -> Answer {
    let (place, name) = (place(&call)?, required(&call, "path")?);
    let row = place.file(&call, &name).await?.ok_or_else(|| missing(&name))?;
    Ok(stream_of(&call.app, place.workspace, row))
}

fn attributes(name: &str, row: &FileRow) -> Json {
    let last = name.rsplit('/').next().unwrap_or(name);
    json!({"type": "File", "fileName": last, "size": row.bytes, "lastModifiedTime": row.at.0, "creationTime": row.at.0})
}

/// A folder is as old as the oldest file in it, and was changed with the newest.
fn folder(name: &str, rows: &[&FileRow]) -> Json {
    let (first, last) = (rows.iter().map(|row| row.at.0).min(), rows.iter().map(|row| row.at.0).max());
    let last_part = name.rsplit('/').next().unwrap_or(name);
    json!({
        "type": "Directory", "fileName": last_part, "size": 0,
        "lastModifiedTime": last.unwrap_or_default(), "creationTime": first.unwrap_or_default(),
    })
}

pub async fn stats(call: Call) -> Answer {
    let (place, name) = (place(&call)?, named(&call, "path")?);
    if name.is_empty() {
        let all = place.all(&call).await?;
        return ok(folder("_files", &all.values().collect::<Vec<_>>()));
    }
    let found = place.under(&call, &name).await?;
    match found.get(&name) {
        Some(row) => ok(attributes(&name, row)),
        None if found.is_empty() => Err(missing(&name)),
        None => ok(folder(&name, &found.values().collect::<Vec<_>>())),
    }
}

/// What is right in a folder: first the folders, then the files.
pub async fn directory(call: Call) -> Answer {
    let (place, name) = (place(&call)?, named(&call, "path")?);
    let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
    let all = place.all(&call).await?;
    let mut folders: BTreeMap<&str, Vec<&FileRow>> = BTreeMap::new();
    let mut files = Vec::new();
    for (file, row) in &all {
        match file.strip_prefix(&prefix).map(|rest| (rest, rest.split_once('/'))) {
            Some((_, Some((inner, _)))) => folders.entry(inner).or_default().push(row),
            Some((rest, None)) => files.push(attributes(rest, row)),
            None => {}
        }
    }
    if !name.is_empty() && folders.is_empty() && files.is_empty() {
        return Err(missing(&name));
    }
    let shown = folders.iter().map(|(inner, rows)| folder(inner, rows));
    ok(shown.chain(files).collect::<Vec<Json>>())
}

/// A folder needs no making; its name is looked at.
pub async fn make_directory(call: Call) -> Answer {
    let (place, name) = (place(&call)?, required(&call, "path")?);
    place.path(&name)?;
    Ok(Response::new(Body::empty()))
}

pub async fn search(call: Call) -> Answer {
    let (place, text) = (place(&call)?, call.query.one("q")?.unwrap_or_default().to_owned());
    let all = place.all(&call).await?;
    ok(all.keys().map(|name| format!("/{name}")).filter(|name| name.contains(&text)).collect::<Vec<_>>())
}

/// One file goes where the path says, as it arrives; an archive is kept until it is whole.
struct Arrival<'a> {
    place: &'a Place,
    name: String,
    engine: Arc<Engine>,
    open: Option<Upload>,
    archive: Kept,
    in_archive: bool,
    refused: Option<Problem>,
    done: bool,
}

fn refused(name: &str, error: UploadError) -> Problem {
    match error {
        UploadError::Store(error) => error.into(),
        other => illegal(format!("`{name}`: {other}")),
    }
}

impl Intake for Arrival<'_> {
    fn begin(&mut self, _: &str, name: &str, kind: Option<&str>) -> bool {
        if self.done || self.refused.is_some() {
            return false;
        }
        self.in_archive = name.to_ascii_lowercase().ends_with(".zip");
        if self.in_archive {
            return self.archive.begin("", name, kind);
        }
        match self.place.upload(&self.engine, &self.name) {
            Ok(upload) => self.open = Some(upload),
            Err(problem) => self.refused = Some(problem),
        }
        self.open.is_some()
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Problem> {
        match &mut self.open {
            Some(upload) => upload.write(&bytes).await.map_err(|error| refused(&self.name, error)),
            None => self.archive.write(bytes).await,
        }
    }

    async fn end(&mut self) -> Result<(), Problem> {
        self.done = true;
        let Some(upload) = self.open.take() else { return Ok(()) };
        upload.finish_in_place().await.map(|_| ()).map_err(|error| refused(&self.name, error))
    }
}

pub async fn post(call: Call) -> Answer {
    let (place, name) = (place(&call)?, named(&call, "path")?);
    let mut arrival = Arrival {
        place: &place,
        name,
        engine: call.app.engine().clone(),
        open: None,
        archive: Kept { files: Vec::new(), bytes_max: ARCHIVE_BYTES_MAX as usize },
        in_archive: false,
        refused: None,
        done: false,
    };
    form::read(&call, &mut arrival).await?;
    let Arrival { archive, refused, done, .. } = arrival;
    if let Some(problem) = refused {
        return Err(problem);
    }
    if !done {
        return Err(Problem::new(Code::BodyInvalid, "send the file as the form field `fileContent`"));
    }
    for file in &archive.files {
        unpack(&call, &place, file).await?;
    }
    Ok(Response::new(Body::empty()))
}

async fn unpack(call: &Call, place: &Place, archive: &File) -> Result<(), Problem> {
    let found = unzipped(&archive.bytes).ok_or_else(|| illegal("the archive cannot be read, or is too large"))?;
    for (name, bytes) in found {
        let mut upload = place.upload(call.app.engine(), &name)?;
        upload.write(&bytes).await.map_err(|error| refused(&name, error))?;
        upload.finish_in_place().await.map_err(|error| refused(&name, error))?;
    }
    Ok(())
}

fn unzipped(bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    let (mut found, mut left) = (Vec::new(), ARCHIVE_BYTES_MAX);
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).ok()?;
        let name = file.name().ok()?.into_owned();
        if file.is_dir() {
            continue;
        }
        // A small archive may hold a file without end.
        let mut bytes = Vec::new();
        file.by_ref().take(left + 1).read_to_end(&mut bytes).ok()?;
        left = left.checked_sub(bytes.len() as u64)?;
        found.push((name, bytes));
        if found.len() > FILES_MAX {
            return None;
        }
    }
    Some(found)
}

pub async fn export(call: Call) -> Answer {
    let place = place(&call)?;
    let all = place.all(&call).await?;
    if all.values().map(|row| row.bytes).sum::<u64>() > ARCHIVE_BYTES_MAX {
        let detail = format!("the files have more than {ARCHIVE_BYTES_MAX} bytes together; fetch them one by one");
        return Err(illegal(detail));
    }
    let broken = || Problem::internal("an archive could not be written");
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, row) in &all {
        archive.start_file(name.as_str(), SimpleFileOptions::default()).map_err(|_| broken())?;
        let bytes = bytes_of(&call.app, &place.workspace, row).await?;
        archive.write_all(&bytes).map_err(|_| broken())?;
    }
    let bytes = archive.finish().map_err(|_| broken())?.into_inner();
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let disposition = format!("attachment; filename=\"{}_files.zip\"", place.namespace);
    headers.extend(HeaderValue::from_str(&disposition).ok().map(|value| (CONTENT_DISPOSITION, value)));
    Ok(response)
}

/// Files are written under their new names before the old ones go: whoever looks in between sees both.
pub async fn rename(call: Call) -> Answer {
    let (place, from, to) = (place(&call)?, required(&call, "from")?, required(&call, "to")?);
    let found = place.under(&call, &from).await?;
    if found.is_empty() {
        return Err(missing(&from));
    }
    if to == from || to.starts_with(&format!("{from}/")) {
        return Err(illegal("a file or folder cannot be moved into itself"));
    }
    for (name, row) in &found {
        let new = format!("{to}{}", &name[from.len()..]);
        let mut upload = place.upload(call.app.engine(), &new)?;
        for number in 0..row.chunks {
            let bytes = super::executions::files::chunk(&call.app, place.workspace.clone(), row, number).await?;
            upload.write(&bytes).await.map_err(|error| refused(&new, error))?;
        }
        upload.finish_in_place().await.map_err(|error| refused(&new, error))?;
    }
    remove(&call, &place, &found).await?;
    Ok(Response::new(Body::empty()))
}

pub async fn delete(call: Call) -> Answer {
    let (place, name) = (place(&call)?, required(&call, "path")?);
    let found = place.under(&call, &name).await?;
    remove(&call, &place, &found).await?;
    Ok(Response::new(Body::empty()))
}

async fn remove(call: &Call, place: &Place, files: &BTreeMap<String, FileRow>) -> Result<(), Problem> {
    for row in files.values() {
        let (workspace, path) = (place.workspace.clone(), row.path.clone());
        match call.app.write(Work::DeleteFile { workspace, run: row.run, path }).await? {
            // Somebody else was faster.
            Done::Unit | Done::Missing => {}
            other => return Err(Problem::internal(&format!("a deletion was answered with {other:?}"))),
        }
    }
    Ok(())
}
