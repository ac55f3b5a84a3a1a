//! `dependsOn` and `expression` of inputs: what they need of each other.

use super::fields::{Fields, Names};
use super::{Context, Moment};
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::Node;
use indexmap::IndexMap;
use semel_core::ir::{DependsOn, InputDef};
use std::ops::Range;

const DEPENDS_ON: Names = Names { what: "`dependsOn`", allowed: &[&["inputs", "condition"]], not_built: &[] };

impl<'a> Context<'a> {
    pub fn input_depends_on(&mut self, node: &'a Node) -> Option<DependsOn> {
        let fields = self.fields(node, DEPENDS_ON)?;
        let inputs = match fields.get("inputs").and_then(|node| self.list(node, "inputs")) {
            Some(items) => items.iter().filter_map(|item| self.literal(item, "inputs")).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let condition = fields.get("condition").and_then(|node| self.between_inputs(node, "condition"));
        Some(DependsOn { inputs, condition })
    }

    pub fn computed_choices(&mut self, fields: &Fields<'a>) -> Option<String> {
        fields.get("expression").and_then(|node| self.between_inputs(node, "expression"))
    }

    /// An expression that sees the inputs it depends on. Those of a pause are no inputs of the flow, so that only the
    /// run can tell whether a name is right.
    fn between_inputs(&mut self, node: &'a Node, name: &str) -> Option<String> {
        match self.moment {
            Moment::Task(_) => self.only_parsed(node, name),
            _ => self.at_admission(|context| context.template(node, name)),
        }
    }

    /// What depends on inputs that are not there is told so, as Kestra leaves them out; what depends on itself is wrong.
    pub fn dependencies(&mut self, inputs: &mut [(&'a Node, InputDef)]) {
        let known: Vec<String> = inputs.iter().map(|(_, input)| input.id.clone()).collect();
        for (node, input) in inputs.iter_mut() {
            let own = input.id.clone();
            let Some(depends) = &mut input.depends_on else { continue };
            let at = place_of(node);
            for name in depends.inputs.iter().filter(|name| !known.contains(name) || **name == own) {
                let message = format!("there is no other input `{name}`; it is left out");
                let finding = Finding::warning(codes::UNKNOWN_INPUT, at.clone(), message);
                let near = suggest::did_you_mean(name, known.iter().map(String::as_str).filter(|id| *id != own));
                self.report(finding.maybe_suggest(near));
            }
            depends.inputs.retain(|name| known.contains(name) && *name != own);
        }
        let edges: IndexMap<&str, &[String]> = inputs
            .iter()
            .filter_map(|(_, input)| Some((input.id.as_str(), input.depends_on.as_ref()?.inputs.as_slice())))
            .collect();
        let circular: Vec<&str> = edges.keys().copied().filter(|id| comes_back(id, &edges)).collect();
        let first = inputs.iter().find(|(_, input)| circular.contains(&input.id.as_str()));
        if let Some((node, _)) = first {
            let message = format!("these inputs depend on each other in a circle: {}", circular.join(", "));
            self.error(codes::CONFLICT, &place_of(node), message);
        }
    }
}

fn comes_back(start: &str, edges: &IndexMap<&str, &[String]>) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    let mut next: Vec<&str> = vec![start];
    while let Some(id) = next.pop() {
        for target in edges.get(id).copied().unwrap_or_default() {
            if target == start {
                return true;
            }
            if !seen.contains(&target.as_str()) {
                seen.push(target);
                next.push(target);
            }
        }
    }
    false
}

/// Where `dependsOn` of an input stands.
fn place_of(input: &Node) -> Range<usize> {
    let entry = input.entries().and_then(|entries| entries.iter().find(|entry| entry.key == "dependsOn"));
    entry.map_or_else(|| input.at.clone(), |entry| entry.value.at.clone())
}
