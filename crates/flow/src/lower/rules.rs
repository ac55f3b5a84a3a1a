//! `sla:` and `checks:`, the rules about a whole run.

use super::fields::{Fields, Names};
use super::labels::Owner;
use super::{Context, Moment};
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use semel_core::ir::{CheckBehavior, CheckStyle, FlowCheck, Sla, SlaBehavior, SlaRule};
use std::collections::HashSet;

const SLA: &[&str] = &["id", "type", "behavior", "labels"];
const CHECK: Names = Names {
    what: "a check",
    // `when` is the name of `condition` in Kestra 2.
    allowed: &[&["condition", "when", "message", "style", "behavior"]],
    not_built: &[],
};

impl<'a> Context<'a> {
    pub fn slas(&mut self, flow: &Fields<'a>) -> Vec<Sla> {
        let Some(items) = flow.get("sla").and_then(|node| self.list(node, "sla")) else { return Vec::new() };
        let slas: Vec<Sla> = items.iter().filter_map(|item| self.sla(item)).collect();
        let mut seen = HashSet::new();
        for (sla, item) in slas.iter().zip(items) {
            if !seen.insert(sla.id.clone()) {
                // Nothing refers to them by their ids but people.
                let message = format!("two SLAs have the id `{}`; their messages cannot be told apart", sla.id);
                self.report(Finding::warning(codes::DUPLICATE_ID, item.at.clone(), message));
            }
        }
        slas
    }

    fn sla(&mut self, node: &'a Node) -> Option<Sla> {
        let raw = self.map(node, "an SLA")?;
        let kind = self.required(&raw, "an SLA", "type")?;
        let kind = self.word(kind, "type", &["MAX_DURATION", "EXECUTION_ASSERTION"])?;
        let own: &[&str] = if kind == "MAX_DURATION" { &["duration"] } else { &["assert"] };
        let fields = self.fields(node, Names { what: "an SLA", allowed: &[SLA, own], not_built: &[] })?;
        let id = self.required(&fields, "an SLA", "id").and_then(|node| self.text(node, "id")).map(str::to_owned);
        let rule = match kind {
            "MAX_DURATION" => {
                let node = self.required(&fields, "an SLA", "duration");
                node.and_then(|node| self.positive_duration(node, "duration")).map(|ms| SlaRule::MaxDuration { ms })
            }
            _ => {
                let node = self.required(&fields, "an SLA", "assert");
                let assert =
                    node.and_then(|node| self.during(Moment::Whole, |context| context.template(node, "assert")));
                assert.map(|assert| SlaRule::Assertion { assert })
            }
        };
        let behavior = self.required(&fields, "an SLA", "behavior");
        let behavior =
            behavior.and_then(|node| self.choice::<SlaBehavior>(node, "behavior", &["FAIL", "CANCEL", "NONE"]));
        let labels = fields.get("labels").map(|node| self.labels(node, Owner::Flow)).unwrap_or_default();
        Some(Sla { id: id?, rule: rule?, behavior: behavior?, labels })
    }

    pub fn checks(&mut self, flow: &Fields<'a>) -> Vec<FlowCheck> {
        let Some(items) = flow.get("checks").and_then(|node| self.list(node, "checks")) else { return Vec::new() };
        items.iter().filter_map(|item| self.flow_check(item)).collect()
    }

    fn flow_check(&mut self, node: &'a Node) -> Option<FlowCheck> {
        let fields = self.fields(node, CHECK)?;
        let condition = match fields.get("when") {
            Some(node) => Some(node),
            None => self.required(&fields, "a check", "condition"),
        };
        // Evaluated where the run is asked for, before there is one.
        let condition =
            condition.and_then(|node| self.during(Moment::Admission, |context| context.template(node, "condition")));
        let message = self.required(&fields, "a check", "message").and_then(|node| self.text(node, "message"));
        let style = match fields.get("style") {
            Some(node) => self.choice(node, "style", &["ERROR", "SUCCESS", "WARNING", "INFO"])?,
            None => CheckStyle::Info,
        };
        let behavior = match fields.get("behavior") {
            Some(node) => self.choice(node, "behavior", &["BLOCK_EXECUTION", "FAIL_EXECUTION", "CREATE_EXECUTION"])?,
            None => CheckBehavior::BlockExecution,
        };
        Some(FlowCheck { condition: condition?, message: message?.to_owned(), style, behavior })
    }
}
