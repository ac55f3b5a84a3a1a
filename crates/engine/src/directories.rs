//! What a `flow.WorkingDirectory` shows of itself: files that its tasks have left in it.

use crate::away;
use crate::evaluate::Evaluator;
use semel_core::files::address;
use semel_core::run::{Evaluated, Failure, Payload, StepKey};
use semel_tasks::{glob_matches, name_in_directory};
use serde_json::{Map, Value as Json, json};

impl Evaluator<'_> {
    pub(crate) fn directory_files(&self, key: &StepKey, patterns: &[String]) -> Result<Evaluated, Failure> {
        let mut wanted = Vec::new();
        for pattern in patterns {
            wanted.push(self.text(pattern)?.to_text());
        }
        let (home, most) = (self.base(key), self.limits.step_files_max);
        let prefix = format!("{home}/dir/");
        let limit = u32::try_from(most + 1).unwrap_or(u32::MAX);
        let rows =
            self.services.store.files(self.workspace, self.family.run, Some(&prefix), limit).map_err(|error| {
                away::note(&error);
                Failure::new("file_store", error.to_string())
            })?;
        let rows: Vec<_> = rows.into_iter().take_while(|row| row.path.starts_with(&prefix)).collect();
        if rows.len() > most {
            return Err(Failure::new("too_many_files", format!("a working directory may have {most} files")));
        }
        let named = rows.iter().filter_map(|row| Some((name_in_directory(&home, &row.path)?, address(&row.path))));
        let kept = named.filter(|(name, _)| wanted.iter().any(|pattern| glob_matches(pattern, name)));
        let files: Map<String, Json> = kept.map(|(name, uri)| (name, json!(uri))).collect();
        let output = Some(Payload::new(json!({ "outputFiles": files })));
        Ok(Evaluated::Answered { output, failure: None, stop: false })
    }
}
