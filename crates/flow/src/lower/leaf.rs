//! Properties of leaf tasks, checked against what their type declares.

use super::Context;
use super::fields::{Fields, Names};
use super::values::short;
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::{Node, Typed};
use semel_core::ir::{FieldKind, FieldSpec, TaskSpec};
use serde_json::{Map, Value as Json};

impl<'a> Context<'a> {
    pub fn leaf_config(&mut self, fields: &Fields<'a>, spec: &TaskSpec) -> Json {
        Json::Object(self.object(fields, spec.name, spec.fields))
    }

    pub fn object(&mut self, fields: &Fields<'a>, what: &str, specs: &[FieldSpec]) -> Map<String, Json> {
        let mut object = Map::new();
        // The author's order, so that what is stored reads like what was written.
        for entry in fields.entries().iter().filter(|entry| !entry.value.is_null()) {
            if let Some(spec) = specs.iter().find(|spec| spec.name == entry.key)
                && let Some(value) = self.value(&entry.value, spec.name, spec.kind)
            {
                object.insert(entry.key.clone(), value);
            }
        }
        for spec in specs.iter().filter(|spec| spec.required) {
            self.required(fields, what, spec.name);
        }
        object
    }

    pub fn value(&mut self, node: &'a Node, name: &str, kind: FieldKind) -> Option<Json> {
        let is_template = node.scalar().is_some_and(|scalar| scalar.is_template());
        match kind {
            FieldKind::DurationOr(specs) => {
                let kind = if node.entries().is_some() { FieldKind::Object(specs) } else { FieldKind::Duration };
                self.value(node, name, kind)
            }
            FieldKind::Text => self.template(node, name).map(Json::String),
            FieldKind::TextOrList => match node.items() {
                Some(items) => {
                    Some(items.iter().filter_map(|item| self.template(item, name)).map(Json::String).collect())
                }
                None => self.template(node, name).map(Json::String),
            },
            FieldKind::Expression => self.item_expression(node, name).map(Json::String),
            FieldKind::Any => Some(self.tree(node)),
            FieldKind::TextMap => self.text_map(node, name),
            FieldKind::Object(specs) => {
                let own: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
                let what = format!("`{name}`");
                let fields = self.fields(node, Names { what: &what, allowed: &[&own], not_built: &[] })?;
                Some(Json::Object(self.object(&fields, &what, specs)))
            }
            FieldKind::Bool | FieldKind::Only(..) | FieldKind::Int | FieldKind::Duration | FieldKind::Choice(_)
                if is_template =>
            {
                self.template(node, name).map(Json::String)
            }
            FieldKind::Bool => self.bool(node, name).map(Json::Bool),
            FieldKind::Only(offered, why) => {
                let given = self.bool(node, name)?;
                if given != offered {
                    self.report(Finding::error(codes::NOT_BUILT, node.at.clone(), format!("`{name}: {given}` {why}")));
                }
                Some(Json::Bool(given))
            }
            FieldKind::Int => self.int(node, name, i64::MIN, i64::MAX).map(Json::from),
            FieldKind::Duration => {
                self.duration(node, name)?;
                self.text(node, name).map(Json::from)
            }
            FieldKind::Choice(words) => self.chosen(node, name, words).map(Json::from),
        }
    }

    /// Its variables are known only when it is evaluated; that it can be read is known now.
    fn item_expression(&mut self, node: &'a Node, name: &str) -> Option<String> {
        let text = self.text(node, name)?;
        if let Err(error) = crate::templates::parse(text) {
            self.error(codes::BAD_TEMPLATE, &node.at, error.message);
            return None;
        }
        Some(text.to_owned())
    }

    fn chosen(&mut self, node: &'a Node, name: &str, words: &[&'static str]) -> Option<&'static str> {
        let text = self.text(node, name)?;
        let found = words.iter().find(|word| word.eq_ignore_ascii_case(text)).copied();
        if found.is_none() {
            let message = format!("`{}` is not a value of `{name}`", short(text));
            let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), message)
                .expected(format!("one of: {}", words.join(", ")))
                .maybe_suggest(suggest::did_you_mean(text, words.iter().copied()));
            self.report(finding);
        }
        found
    }

    fn text_map(&mut self, node: &'a Node, name: &str) -> Option<Json> {
        let map = self.map(node, &format!("`{name}`"))?;
        let mut texts = Map::new();
        for entry in map.entries() {
            // A key without a value is left out rather than sent as the text "null".
            if entry.value.scalar().is_some_and(|scalar| scalar.typed == Typed::Null) {
                continue;
            }
            if let Some(text) = self.template(&entry.value, &format!("{name}.{}", short(&entry.key))) {
                texts.insert(entry.key.clone(), Json::String(text));
            }
        }
        Some(Json::Object(texts))
    }
}
