//! What the tasks on files have in common: names, lists of addresses, rows, and how a file is split.

use crate::files::{Desk, FileError, FileReader, FileWriter};
use crate::{TaskError, config};
use semel_core::files::extension;
use serde_json::Value as Json;
use std::io::BufRead;

/// A name with an ending, whose dot may be left out.
pub fn named(name: &str, ending: Option<&str>) -> String {
    match ending.map(str::trim).filter(|ending| !ending.is_empty()) {
        None => name.to_owned(),
        Some(ending) => format!("{name}.{}", ending.trim_start_matches('.')),
    }
}

/// Addresses of files: a list, or JSON text of one.
pub fn list(config: &Json, name: &str, most: usize) -> Result<Vec<String>, TaskError> {
    let wrong = || TaskError::config(format!("`{name}` must be a list of addresses, or JSON text of one"));
    let Some(Json::Array(items)) = config::present(config, name).map(config::decoded) else { return Err(wrong()) };
    if items.len() > most {
        return Err(TaskError { code: "too_many_files", message: format!("a step may have {most} files") });
    }
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// Hands over each line without its end; a last line without one counts too.
pub fn rows(mut reader: FileReader, mut each: impl FnMut(&[u8]) -> Result<(), TaskError>) -> Result<(), TaskError> {
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Err(error) => return Err(FileError::Store(error.to_string()).into()),
            Ok(0) => return Ok(()),
            Ok(_) => {
                let row = line.strip_suffix(b"\n").unwrap_or(&line);
                each(row.strip_suffix(b"\r").unwrap_or(row))?;
            }
        }
    }
}

/// The fields of a row.
pub fn item(row: &[u8]) -> Result<Json, String> {
    match serde_json::from_slice(row) {
        Ok(item @ Json::Object(_)) => Ok(item),
        Ok(_) => Err("a row must be a JSON object".to_owned()),
        Err(error) => Err(format!("a row is not JSON: {error}")),
    }
}

/// How large the parts of a split file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Bytes(u64),
    Partitions(usize),
    Rows(u64),
}

impl Size {
    /// The first of `bytes`, `partitions` and `rows` that is given.
    pub fn read(config: &Json) -> Result<Size, TaskError> {
        let number = |name: &str| -> Result<Option<u64>, TaskError> {
            let Some(text) = config::text(config, name) else { return Ok(None) };
            let wrong = || TaskError::config(format!("`{name}` must be a whole number of at least 1"));
            text.trim().parse::<u64>().ok().filter(|number| *number > 0).map(Some).ok_or_else(wrong)
        };
        if let Some(text) = config::text(config, "bytes") {
            let bytes = readable_bytes(&text).filter(|bytes| *bytes > 0);
            return bytes.map(Size::Bytes).ok_or_else(|| TaskError::config("`bytes` must be a size such as 10MB"));
        }
        if let Some(count) = number("partitions")? {
            return Ok(Size::Partitions(usize::try_from(count).unwrap_or(usize::MAX)));
        }
        let none = || TaskError::config("one of `bytes`, `partitions` and `rows` is needed");
        number("rows")?.map(Size::Rows).ok_or_else(none)
    }
}

/// `200`, `200KB`, `10MB`, `1GB`; each step is 1024.
fn readable_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let factor: u64 = match text[digits.len()..].trim() {
        "" | "B" => 1,
        "K" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

pub struct Split {
    pub from: String,
    pub size: Size,
    pub separator: String,
    pub files_max: usize,
}

impl Split {
    /// The addresses of the parts, in order. A file without rows has none.
    pub fn run(&self, desk: &Desk) -> Result<Vec<String>, TaskError> {
        let reader = desk.open(&self.from)?;
        match self.size {
            Size::Partitions(count) => self.deal(desk, reader, count),
            Size::Bytes(_) | Size::Rows(_) => self.cut(desk, reader),
        }
    }

    fn part(&self, desk: &Desk, number: usize) -> Result<FileWriter, TaskError> {
        if number >= self.files_max {
            let message = format!("the file has more parts than {}, which a step may have", self.files_max);
            return Err(TaskError { code: "too_many_files", message });
        }
        let ending = extension(&self.from).unwrap_or(".tmp");
        Ok(desk.create(&named(&format!("part-{number:05}"), Some(ending)))?)
    }

    /// One part after the other.
    fn cut(&self, desk: &Desk, reader: FileReader) -> Result<Vec<String>, TaskError> {
        let mut uris = Vec::new();
        let mut open: Option<(FileWriter, u64)> = None;
        rows(reader, |row| {
            let full = open.as_ref().is_some_and(|(part, rows)| match self.size {
                Size::Bytes(bytes) => part.bytes() >= bytes,
                Size::Rows(most) => *rows >= most,
                Size::Partitions(_) => false,
            });
            if full && let Some((part, _)) = open.take() {
                uris.push(part.finish()?);
            }
            let (part, rows) = match &mut open {
                Some(open) => open,
                none => none.insert((self.part(desk, uris.len())?, 0)),
            };
            part.write(row)?;
            part.write(self.separator.as_bytes())?;
            *rows += 1;
            Ok(())
        })?;
        if let Some((part, _)) = open {
            uris.push(part.finish()?);
        }
        Ok(uris)
    }

    /// Row by row to each in turn. Parts that get none are not made.
    fn deal(&self, desk: &Desk, reader: FileReader, count: usize) -> Result<Vec<String>, TaskError> {
        let mut parts: Vec<FileWriter> = Vec::new();
        let mut next = 0;
        rows(reader, |row| {
            if next == parts.len() {
                parts.push(self.part(desk, next)?);
            }
            parts[next].write(row)?;
            parts[next].write(self.separator.as_bytes())?;
            next = if next + 1 >= count { 0 } else { next + 1 };
            Ok(())
        })?;
        parts.into_iter().map(|part| Ok(part.finish()?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_are_read() {
        for (config, size) in [
            (json!({"bytes": "10MB"}), Size::Bytes(10 << 20)),
            (json!({"bytes": 512}), Size::Bytes(512)),
            (json!({"bytes": "2 kb", "rows": 1}), Size::Bytes(2048)),
            (json!({"partitions": 3, "rows": 1}), Size::Partitions(3)),
            (json!({"rows": "7"}), Size::Rows(7)),
        ] {
            assert_eq!(Size::read(&config), Ok(size), "{config}");
        }
        for config in [json!({}), json!({"rows": 0}), json!({"bytes": "many"}), json!({"partitions": -1})] {
            assert!(Size::read(&config).is_err(), "{config}");
        }
    }

    #[test]
    fn an_ending_may_lack_its_dot() {
        assert_eq!([named("a", None), named("a", Some("txt")), named("a", Some(".txt"))], ["a", "a.txt", "a.txt"]);
    }
}
