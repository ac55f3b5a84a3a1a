//! A map whose field names have been checked.

use super::Context;
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::{Entry, Node};
use std::ops::Range;

/// The fields of one map. A field without a value counts as absent.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub node: &'a Node,
    entries: &'a [Entry],
}

/// Which names a map may have.
#[derive(Clone, Copy)]
pub(crate) struct Names<'n> {
    /// What the map is, with its article: "a flow", "flow.If".
    pub what: &'n str,
    pub allowed: &'n [&'n [&'n str]],
    /// Names Kestra knows and this build does not.
    pub not_built: &'n [&'n str],
}

/// Of what this build does not have, the fields without which a flow does the same, and why.
const IDLE: &[(&str, &str)] = &[
    ("workerGroup", "one server runs all tasks"),
    ("logToFile", "lines of the log are kept with the run, and are downloaded from there"),
    ("assets", "no catalogue of assets is kept"),
    ("backfill", "backfills are begun through the API"),
];

impl<'n> Names<'n> {
    fn all(&self) -> impl Iterator<Item = &'n str> + use<'n> {
        self.allowed.iter().flat_map(|group| group.iter().copied())
    }
}

impl<'a> Fields<'a> {
    pub fn get(&self, name: &str) -> Option<&'a Node> {
        self.entry(name).map(|entry| &entry.value).filter(|node| !node.is_null())
    }

    pub fn entry(&self, name: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    /// Where a field's name stands, or the map when it has no such field.
    pub fn key_at(&self, name: &str) -> Range<usize> {
        self.entry(name).map_or_else(|| self.place(), |entry| entry.key_at.clone())
    }

    pub fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// Where something that is missing from this map is reported: its first key.
    pub fn place(&self) -> Range<usize> {
        self.entries.first().map_or_else(|| self.node.at.clone(), |entry| entry.key_at.clone())
    }
}

impl<'a> Context<'a> {
    /// The fields of a map, all names checked.
    pub fn fields(&mut self, node: &'a Node, names: Names) -> Option<Fields<'a>> {
        let fields = self.map(node, names.what)?;
        for entry in fields.entries {
            self.check_name(&fields, entry, names);
        }
        Some(fields)
    }

    /// The fields of a map with names of the author's own.
    pub fn map(&mut self, node: &'a Node, what: &str) -> Option<Fields<'a>> {
        match node.entries() {
            Some(entries) => Some(Fields { node, entries }),
            None => {
                let message = format!("{what} must be a map, not {}", node.shape());
                self.report(Finding::error(codes::WRONG_TYPE, node.at.clone(), message).expected("a map"));
                None
            }
        }
    }

    fn check_name(&mut self, fields: &Fields<'a>, entry: &Entry, names: Names) {
        let key = entry.key.as_str();
        if names.all().any(|name| name == key) {
            return;
        }
        if names.not_built.contains(&key) {
            if let Some((_, why)) = IDLE.iter().find(|(name, _)| *name == key) {
                let message = format!("`{key}` changes nothing here: {why}");
                return self.report(Finding::warning(codes::NO_EFFECT, entry.key_at.clone(), message));
            }
            let message = format!("`{key}` is known in Kestra, and this build does not have it");
            let finding = Finding::error(codes::NOT_BUILT, entry.key_at.clone(), message);
            return self.report(finding.suggest("remove it, or leave this flow on Kestra until it is built"));
        }
        let message = format!("{} has no field `{key}`", names.what);
        let allowed: Vec<&str> = names.all().collect();
        let near = suggest::nearest(key, allowed.iter().copied());
        if let Some(name) = near {
            self.misspelt.insert((fields.node.at.start, name.to_owned()));
        }
        let finding = Finding::error(codes::UNKNOWN_FIELD, entry.key_at.clone(), message)
            .expected(format!("one of: {}", allowed.join(", ")))
            .maybe_suggest(near.map(|name| format!("did you mean `{name}`?")));
        self.report(finding);
    }

    /// A field that must be there.
    pub fn required(&mut self, fields: &Fields<'a>, what: &str, name: &str) -> Option<&'a Node> {
        if let Some(node) = fields.get(name) {
            return Some(node);
        }
        match fields.entry(name) {
            Some(entry) => self.error(codes::MISSING_FIELD, &entry.key_at, format!("`{name}` has no value")),
            None => self.missing(fields, what, name),
        }
        None
    }

    /// Reports a field that is not there, unless a misspelt one stands for it.
    pub fn missing(&mut self, fields: &Fields<'a>, what: &str, name: &str) {
        if !self.misspelt.contains(&(fields.node.at.start, name.to_owned())) {
            self.error(codes::MISSING_FIELD, &fields.place(), format!("{what} needs `{name}`"));
        }
    }
}
