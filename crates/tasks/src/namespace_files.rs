//! The property `namespaceFiles`: which files of which namespaces a working directory begins with.

use crate::TaskError;
use crate::config::{self, texts};
use crate::files::{Desk, FileAt};
use crate::script::glob::in_namespace;
use serde_json::Value as Json;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceFiles {
    include: Vec<String>,
    exclude: Vec<String>,
    /// None is the flow's own.
    namespaces: Vec<String>,
    /// Each namespace's files in a folder of its name.
    by_folder: bool,
    pub if_exists: IfExists,
}

/// What is done about a name that is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IfExists {
    #[default]
    Overwrite,
    Fail,
    Warn,
    Ignore,
}

impl NamespaceFiles {
    /// `None`: there are to be none.
    pub fn read(config: &Json) -> Result<Option<NamespaceFiles>, TaskError> {
        let Some(given) = config::present(config, "namespaceFiles") else { return Ok(None) };
        if !config::flag(given, "enabled", true)? {
            return Ok(None);
        }
        let word = config::text(given, "ifExists").unwrap_or_default().to_ascii_uppercase();
        Ok(Some(NamespaceFiles {
            include: patterns(given, "include")?,
            exclude: patterns(given, "exclude")?,
            namespaces: texts(given, "namespaces")?,
            by_folder: config::flag(given, "folderPerNamespace", false)?,
            if_exists: match word.as_str() {
                "" | "OVERWRITE" => IfExists::Overwrite,
                "FAIL" => IfExists::Fail,
                "WARN" => IfExists::Warn,
                "IGNORE" => IfExists::Ignore,
                _ => return Err(TaskError::config("`ifExists` must be OVERWRITE, FAIL, WARN or IGNORE")),
            },
        }))
    }

    /// The files, with the names that they have in the working directory. Of two namespaces with one name the later
    /// counts, as it would if they were written one after the other.
    pub fn list(&self, desk: &Desk, files_max: usize) -> Result<Vec<(String, FileAt)>, TaskError> {
        let own = [desk.home.namespace.clone()];
        let namespaces = if self.namespaces.is_empty() { &own[..] } else { &self.namespaces };
        let mut found = Vec::new();
        for namespace in namespaces {
            let files = desk.of_namespace(namespace, files_max)?;
            let wanted = files.into_iter().filter(|(name, _)| self.means(name));
            found.extend(wanted.map(|(name, at)| match self.by_folder {
                true => (format!("{namespace}/{name}"), at),
                false => (name, at),
            }));
        }
        Ok(found)
    }

    fn means(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| in_namespace(pattern, name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Patterns of files of a namespace.
pub(crate) fn patterns(config: &Json, name: &str) -> Result<Vec<String>, TaskError> {
    let found = texts(config, name)?;
    match found.iter().any(|pattern| pattern.starts_with("regex:")) {
        true => Err(TaskError::not_built(format!(
            "`{name}`: patterns with `regex:` are not offered, those with `glob:` are"
        ))),
        false => Ok(found),
    }
}
