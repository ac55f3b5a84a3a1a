//! The shape of `pluginDefaults:`. What they do to the tasks is done before: see `crate::defaults`.

use super::Context;
use super::fields::{Fields, Names};
use crate::defaults::BLOCKS;
use crate::yaml::Node;

const NAMES: Names =
    Names { what: "a plugin default", allowed: &[&["type", "values", "forced"], &["version"]], not_built: &[] };

impl<'a> Context<'a> {
    pub fn plugin_defaults(&mut self, flow: &Fields<'a>) {
        for name in BLOCKS {
            let Some(node) = flow.get(name) else { continue };
            match node.items() {
                Some(items) => items.iter().for_each(|item| self.plugin_default(item)),
                None => self.wrong_type(node, name, "a list of defaults"),
            }
        }
    }

    fn plugin_default(&mut self, node: &'a Node) {
        let Some(fields) = self.fields(node, NAMES) else { return };
        if let Some(node) = self.required(&fields, NAMES.what, "type") {
            self.literal(node, "type");
        }
        if let Some(node) = self.required(&fields, NAMES.what, "values") {
            self.map(node, "`values`");
        }
        self.flag(&fields, "forced", false);
    }
}
