//! What an import says of a folder, whatever engine its files are for.

use crate::failure::Failure;
use crate::output::{Reply, Shell};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// One flow or definition of a file, as the report shows it.
pub trait Entry {
    /// Whether something keeps it from running, and whether it differs here.
    fn verdict(&self) -> (bool, bool);
    fn pushed(&self) -> bool;
    fn json(&self) -> Json;
    /// Where it stands and what it is called.
    fn title(&self) -> String;
    /// A line for each thing that is missing or differs.
    fn remarks(&self) -> Vec<String>;

    fn word(&self) -> &'static str {
        match self.verdict() {
            (true, _) => "missing",
            (false, true) => "differs",
            (false, false) => "unchanged",
        }
    }
}

/// What the entries are called, in the data and in the summary, and the page about them.
pub struct Naming {
    pub entries: &'static str,
    pub page: &'static str,
}

/// Files with one of these endings below a directory, in order of their names.
pub fn collect(directory: &Path, endings: &[&str], files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", directory.display()));
    let mut entries =
        std::fs::read_dir(directory).map_err(unreadable)?.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(unreadable)?);
        let wanted = path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one));
        // A link may lead out of the folder, or back into it.
        if kind.is_dir() {
            collect(&path, endings, files)?;
        } else if kind.is_file() && wanted {
            files.push(path);
        }
    }
    Ok(())
}

/// The text of a file; one that is no text is noted as skipped.
pub fn text_of(path: &Path, skipped: &mut Vec<String>) -> Result<Option<String>, Failure> {
    let file = path.display();
    let bytes = std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
    let text = String::from_utf8(bytes).ok();
    if text.is_none() {
        skipped.push(format!("{file}: not UTF-8"));
    }
    Ok(text)
}

pub fn report<E: Entry>(naming: &Naming, found: &[E], skipped: &[String], shell: &Shell) -> Result<Reply, Failure> {
    let count = |word: &str| found.iter().filter(|one| one.word() == word).count();
    let (unchanged, differs, missing) = (count("unchanged"), count("differs"), count("missing"));
    let pushed = found.iter().filter(|one| one.pushed()).count();
    let summary = format!(
        "{} {}: {unchanged} unchanged, {differs} with differences, {missing} missing something; {pushed} pushed",
        found.len(),
        naming.entries,
    );
    let mut text: Vec<String> = found.iter().map(|one| lines(one, shell)).collect();
    text.extend(skipped.iter().map(|line| format!("{}   {line}", shell.out.dim("skipped"))));
    text.push(summary.clone());
    let data = json!({
        (naming.entries): found.iter().map(Entry::json).collect::<Vec<_>>(),
        "skipped": skipped,
        "unchanged": unchanged,
        "differs": differs,
        "missing": missing,
        "pushed": pushed,
    });
    if missing == 0 {
        return Ok(Reply::new(data, text.join("\n")));
    }
    let hint = format!("{} says what is there, what differs and what is not", naming.page);
    Err(Failure::refused("not_all_run", summary).details(data).text(text.join("\n")).hint(hint))
}

fn lines(one: &impl Entry, shell: &Shell) -> String {
    let word = match one.word() {
        "missing" => shell.out.red("missing  "),
        "differs" => shell.out.yellow("differs  "),
        _ => shell.out.green("unchanged"),
    };
    let mut out = format!("{word} {}", one.title());
    for remark in one.remarks() {
        out.push_str("\n  ");
        out.push_str(&remark);
    }
    out
}
