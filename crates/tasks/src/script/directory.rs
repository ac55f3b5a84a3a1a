//! The working directory of a step: made, filled from files, emptied into files, removed.

use super::{OUTPUTS, glob};
use crate::files::{Desk, FileWriter};
use crate::namespace_files::{IfExists, NamespaceFiles};
use crate::{TaskError, config};
use semel_core::Hash16;
use semel_core::files::{OUTPUT_DIRECTORY, WORKING_DIRECTORY, address, is_address};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// How deep directories are looked into for files to keep.
const DEPTH_MAX: usize = 32;
const COPY_BYTES: usize = 64 * 1024;

/// Gone when it is dropped, with all that is in it.
pub struct Directory {
    path: PathBuf,
    /// What was there before the script began: names, lengths and times of the last change.
    before: BTreeMap<String, (u64, Option<SystemTime>)>,
}

impl Directory {
    pub fn make(home: &Path, step_id: &str) -> Result<Directory, TaskError> {
        fs::create_dir_all(home).map_err(|error| failed("the directory of scripts", &error))?;
        // Scripts are told where files are, and run in the directory itself.
        let home = fs::canonicalize(home).map_err(|error| failed("the directory of scripts", &error))?;
        let mut number = 0_u32;
        loop {
            // Another attempt at the same step may still be going away.
            let path = home.join(format!("{step_id}-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Directory { path, before: BTreeMap::new() }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1_000 => number += 1,
                Err(error) => return Err(failed("the working directory", &error)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn make_folder(&self, name: &str) -> Result<(), TaskError> {
        fs::create_dir_all(self.path.join(name)).map_err(|error| failed(name, &error))
    }

    /// What an expression calls the directory is where it is.
    pub fn located(&self, text: &str) -> String {
        if !text.contains(WORKING_DIRECTORY) && !text.contains(OUTPUT_DIRECTORY) {
            return text.to_owned();
        }
        let place = |path: &Path| path.to_string_lossy().into_owned();
        let text = text.replace(OUTPUT_DIRECTORY, &place(&self.path.join(OUTPUTS)));
        text.replace(WORKING_DIRECTORY, &place(&self.path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed now is in the operator's directory for scripts, where it can be seen.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn failed(what: &str, error: &std::io::Error) -> TaskError {
    TaskError { code: "script_directory", message: format!("{what}: {error}") }
}

/// `inputFiles`: a map, or JSON text of one, from names to addresses or texts.
pub fn input_files(config: &Json, name: &str) -> Result<Vec<(String, String)>, TaskError> {
    let files = config::map(config, name)?.unwrap_or_default();
    Ok(files.iter().map(|(name, value)| (name.clone(), config::as_text(value))).collect())
}

/// A name that stays inside the directory.
fn inside(directory: &Directory, name: &str) -> Result<PathBuf, TaskError> {
    let path = Path::new(name);
    let is_plain = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() || !path.components().all(is_plain) {
        return Err(TaskError::config(format!("`{name}` is not a path inside the working directory")));
    }
    Ok(directory.path().join(path))
}

fn seen(path: &Path) -> (u64, Option<SystemTime>) {
    fs::metadata(path).map_or((0, None), |found| (found.len(), found.modified().ok()))
}

/// Brings back what the steps before it have left in the working directory that they share.
pub fn restore(desk: &Desk, directory: &mut Directory, files_max: usize) -> Result<(), TaskError> {
    if desk.home.shared.is_none() {
        return Ok(());
    }
    for (name, at) in desk.space().list(desk, files_max)? {
        let path = inside(directory, &name)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(&name, &error))?;
        }
        copy_out(desk, &address(&at.path), &path)?;
        directory.before.insert(name, seen(&path));
    }
    Ok(())
}

/// Keeps what the script has changed in the working directory for the steps after it.
pub fn save(desk: &Desk, directory: &Directory, files_max: usize) -> Result<(), TaskError> {
    if desk.home.shared.is_none() {
        return Ok(());
    }
    let space = desk.space();
    let mut names = Vec::new();
    walk(directory.path(), String::new(), 0, &mut names)?;
    if names.len() > files_max {
        let message = format!("the working directory has {} files, and it may have {files_max}", names.len());
        return Err(TaskError { code: "too_many_files", message });
    }
    for name in directory.before.keys().filter(|name| !names.contains(name)) {
        desk.files.delete(&desk.home.workspace, &address(&space.path_of(name)))?;
    }
    for name in &names {
        let path = directory.path().join(name);
        if directory.before.get(name) != Some(&seen(&path)) {
            pour(&path, desk.create_at(&space.path_of(name))?, name)?;
        }
    }
    Ok(())
}

/// Writes the files that a script is given.
pub fn fill(desk: &Desk, directory: &Directory, files: &[(String, String)]) -> Result<(), TaskError> {
    for (name, value) in files {
        let path = inside(directory, name)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(name, &error))?;
        }
        if value.starts_with("file:///") {
            return Err(TaskError::not_built(format!("`{name}`: files of the server's own machine are not offered")));
        }
        match is_address(value) {
            true => copy_out(desk, value, &path)?,
            false => fs::write(&path, value).map_err(|error| failed(name, &error))?,
        }
    }
    Ok(())
}

/// Writes files of namespaces; the names that were taken and are to be warned of.
pub fn fill_from_namespaces(
    desk: &Desk,
    directory: &Directory,
    wanted: &NamespaceFiles,
    files_max: usize,
) -> Result<Vec<String>, TaskError> {
    let mut warned = Vec::new();
    for (name, at) in wanted.list(desk, files_max)? {
        let path = inside(directory, &name)?;
        match wanted.if_exists {
            IfExists::Fail if path.exists() => {
                let message = format!("the working directory has a file `{name}` already");
                return Err(TaskError { code: "file_exists", message });
            }
            IfExists::Warn if path.exists() => warned.push(name),
            IfExists::Ignore if path.exists() => {}
            _ => {
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent).map_err(|error| failed(&name, &error))?;
                }
                copy_out(desk, &address(&at.path), &path)?;
            }
        }
    }
    Ok(warned)
}

fn copy_out(desk: &Desk, uri: &str, path: &Path) -> Result<(), TaskError> {
    let mut reader = desk.open(uri)?;
    let mut file = fs::File::create(path).map_err(|error| failed("a file", &error))?;
    loop {
        let ready = reader.fill_buf().map_err(|error| failed("a file", &error))?;
        if ready.is_empty() {
            return Ok(());
        }
        let count = ready.len();
        file.write_all(ready).map_err(|error| failed("a file", &error))?;
        reader.consume(count);
    }
}

/// Replaces the addresses of files in a text by the names of local copies.
pub fn bring(desk: &Desk, directory: &Directory, text: &str) -> Result<String, TaskError> {
    let mut out = String::new();
    let located = directory.located(text);
    let mut rest = located.as_str();
    while let Some(at) = rest.find("kestra:///") {
        let (before, from) = rest.split_at(at);
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-%._+~#=/:".contains(c);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let uri = &from[..end];
        let name =
            format!("{}{}", Hash16::of(&[uri.as_bytes()]).hex(), semel_core::files::extension(uri).unwrap_or(""));
        let path = directory.path().join(name);
        copy_out(desk, uri, &path)?;
        out.push_str(before);
        out.push_str(&path.to_string_lossy());
        rest = &from[end..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Keeps the files that one of the patterns means; their names in the directory and their addresses.
pub fn collect(
    desk: &Desk,
    directory: &Directory,
    patterns: &[String],
    files_max: usize,
) -> Result<Map<String, Json>, TaskError> {
    let mut kept = Map::new();
    if patterns.is_empty() {
        return Ok(kept);
    }
    let mut names = Vec::new();
    walk(directory.path(), String::new(), 0, &mut names)?;
    names.retain(|name| patterns.iter().any(|pattern| glob::matches(pattern, name)));
    names.sort();
    if names.len() > files_max {
        let message = format!("`outputFiles` means {} files, and a step may have {files_max}", names.len());
        return Err(TaskError { code: "too_many_files", message });
    }
    for name in names {
        let last = name.rsplit('/').next().unwrap_or(&name);
        let unique = format!("{}-{last}", &Hash16::of(&[name.as_bytes()]).hex()[..12]);
        let uri = copy_in(desk, &directory.path().join(&name), &unique)?;
        kept.insert(name, Json::String(uri));
    }
    Ok(kept)
}

/// Keeps all files of a folder of the directory; their names in that folder and their addresses.
pub fn collect_all(
    desk: &Desk,
    directory: &Directory,
    folder: &str,
    files_max: usize,
) -> Result<Map<String, Json>, TaskError> {
    let kept = collect(desk, directory, &[format!("{folder}/**")], files_max)?;
    let inner = |name: String| name.strip_prefix(folder).map_or(name.clone(), |rest| rest[1..].to_owned());
    Ok(kept.into_iter().map(|(name, uri)| (inner(name), uri)).collect())
}

/// Regular files only: a link could lead to whatever the server may read.
fn walk(at: &Path, prefix: String, depth: usize, names: &mut Vec<String>) -> Result<(), TaskError> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    for entry in fs::read_dir(at).map_err(|error| failed("the working directory", &error))? {
        let entry = entry.map_err(|error| failed("the working directory", &error))?;
        // A name that is no text cannot be named in an expression either.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let kind = entry.file_type().map_err(|error| failed(&name, &error))?;
        if kind.is_dir() {
            walk(&entry.path(), name, depth + 1, names)?;
        } else if kind.is_file() {
            names.push(name);
        }
    }
    Ok(())
}

fn copy_in(desk: &Desk, path: &Path, name: &str) -> Result<String, TaskError> {
    pour(path, desk.create(name)?, name)
}

fn pour(path: &Path, mut writer: FileWriter, name: &str) -> Result<String, TaskError> {
    let mut file = fs::File::open(path).map_err(|error| failed(name, &error))?;
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match file.read(&mut buffer).map_err(|error| failed(name, &error))? {
            0 => return Ok(writer.finish()?),
            count => writer.write(&buffer[..count])?,
        }
    }
}
