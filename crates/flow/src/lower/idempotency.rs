//! `idempotency:`, the flow's own rules for twins.

use super::fields::{Fields, Names};
use super::ids::GROUP;
use super::{Context, Moment};
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::Node;
use semel_core::Door;
use semel_core::admission::{PresetName, Window, WindowFrom};
use semel_core::ir::{IdempotencySpec, KeyScope};

const NAMES: Names = Names {
    what: "`idempotency`",
    allowed: &[&[
        "key",
        "scope",
        "preset",
        "live",
        "done",
        "failed",
        "cancelled",
        "mismatch",
        "window",
        "late",
        "require_key",
        "doors",
        "strict",
        "expire_live",
    ]],
    not_built: &[],
};
const WINDOW: Names = Names { what: "`window`", allowed: &[&["from", "duration"]], not_built: &[] };
const ENDED: &[&str] = &["resume", "rerun", "replay", "reject"];

/// The words of [`PresetName`], in its order.
pub(crate) const PRESETS: &[&str] = &[
    "semel",
    "trigger",
    "ietf",
    "stripe_v1",
    "stripe_v2",
    "conductor_fail",
    "conductor_return_existing",
    "conductor_fail_on_running",
    "temporal_allow_duplicate",
    "temporal_failed_only",
    "temporal_reject",
    "temporal_use_existing",
    "restate_call",
    "restate_workflow",
    "dbos_id",
    "dbos_dedup",
    "inngest",
    "inngest_singleton",
    "trigger_dev",
    "step_functions",
    "lambda_durable",
    "powertools",
    "hatchet_ttl",
    "hatchet_status",
    "breyta_keyed",
    "kestra_guard",
    "outbox_consumer",
];

impl<'a> Context<'a> {
    pub fn idempotency(&mut self, node: &'a Node) -> Option<IdempotencySpec> {
        let fields = self.fields(node, NAMES)?;
        let preset: Option<PresetName> = fields.get("preset").and_then(|node| self.choice(node, "preset", PRESETS));
        Some(IdempotencySpec {
            key: self.event_key(&fields),
            scope: fields.get("scope").and_then(|node| self.key_scope(node)).unwrap_or_default(),
            preset,
            live: fields.get("live").and_then(|node| self.choice(node, "live", &["attach", "reject"])),
            done: fields.get("done").and_then(|node| self.choice(node, "done", &["replay", "reject", "rerun"])),
            failed: fields.get("failed").and_then(|node| self.choice(node, "failed", ENDED)),
            cancelled: fields.get("cancelled").and_then(|node| self.choice(node, "cancelled", ENDED)),
            mismatch: fields
                .get("mismatch")
                .and_then(|node| self.choice(node, "mismatch", &["reject", "ignore", "split"])),
            window: fields.get("window").and_then(|node| self.window(node, preset)),
            late: fields.get("late").and_then(|node| self.choice(node, "late", &["start", "warn", "reject"])),
            require_key: self.flag(&fields, "require_key", false),
            doors: fields.get("doors").and_then(|node| self.doors(node)),
            strict: self.flag(&fields, "strict", false),
            expire_live: self.flag(&fields, "expire_live", false),
        })
    }

    pub fn flag(&mut self, fields: &Fields<'a>, name: &str, default: bool) -> bool {
        fields.get(name).and_then(|node| self.bool(node, name)).unwrap_or(default)
    }

    fn event_key(&mut self, fields: &Fields<'a>) -> Option<String> {
        let node = fields.get("key")?;
        let key = self.during(Moment::Admission, |context| context.template(node, "idempotency.key"))?;
        if key.trim().is_empty() {
            self.error(codes::BAD_VALUE, &node.at, "an empty key would make all events twins of each other");
        } else if !node.scalar().is_some_and(|scalar| scalar.is_template()) {
            let message = "this key is the same for every event, so only the first one would ever run";
            let finding = Finding::warning(codes::CONSTANT_KEY, node.at.clone(), message);
            self.report(finding.suggest("take it from the event, such as \"{{ trigger.body.id }}\""));
        }
        Some(key)
    }

    fn key_scope(&mut self, node: &'a Node) -> Option<KeyScope> {
        let text = self.literal(node, "scope")?;
        if let Some(name) = text.strip_prefix("group:") {
            return self.check_id(node, name.trim(), GROUP).map(KeyScope::Group);
        }
        match text {
            "flow" => Some(KeyScope::Flow),
            "namespace" => Some(KeyScope::Namespace),
            "workspace" => Some(KeyScope::Workspace),
            other => {
                let words = ["flow", "namespace", "workspace"];
                let message = format!("`{other}` is not a value of `scope`");
                let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), message)
                    .expected("flow, namespace, workspace or group:NAME")
                    .maybe_suggest(suggest::did_you_mean(other, words));
                self.report(finding);
                None
            }
        }
    }

    fn window(&mut self, node: &'a Node, preset: Option<PresetName>) -> Option<Window> {
        if node.entries().is_some() {
            let fields = self.fields(node, WINDOW)?;
            let from = self.required(&fields, "`window`", "from");
            let from = from.and_then(|node| self.choice(node, "from", &["first_seen", "completed"]));
            let duration = self.required(&fields, "`window`", "duration");
            let duration_ms = duration.and_then(|node| self.positive_duration(node, "duration"));
            return Some(Window::For { from: from?, duration_ms: duration_ms? });
        }
        match node.scalar().map(|scalar| scalar.text.as_str()) {
            Some("forever") => Some(Window::Forever),
            Some("while_live") => Some(Window::WhileLive),
            _ => {
                let duration_ms = self.positive_duration(node, "window")?;
                Some(Window::For { from: start_point(preset), duration_ms })
            }
        }
    }

    fn doors(&mut self, node: &'a Node) -> Option<Vec<Door>> {
        let items = self.list(node, "doors")?;
        if items.is_empty() {
            self.error(codes::BAD_VALUE, &node.at, "an empty list of doors would leave the key unused");
        }
        let words = Door::ALL.map(Door::word);
        let mut doors = Vec::new();
        for item in items {
            let Some(text) = self.literal(item, "doors") else { continue };
            // `start-task` is how the prose spells it.
            match text.replace('-', "_").parse::<Door>() {
                Ok(door) => doors.push(door),
                Err(()) => {
                    let finding = Finding::error(codes::BAD_VALUE, item.at.clone(), format!("`{text}` is not a door"))
                        .expected(format!("one of: {}", words.join(", ")))
                        .maybe_suggest(suggest::did_you_mean(text, words));
                    self.report(finding);
                }
            }
        }
        Some(doors)
    }
}

/// Where a bare duration counts from: HTTP contracts count from the first request, the others from the end of the run.
fn start_point(preset: Option<PresetName>) -> WindowFrom {
    match preset {
        Some(PresetName::Trigger | PresetName::Ietf | PresetName::StripeV1) => WindowFrom::FirstSeen,
        _ => WindowFrom::Completed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_word_is_a_preset() {
        for word in PRESETS {
            let preset: PresetName =
                serde_json::from_value((*word).into()).unwrap_or_else(|error| panic!("{word}: {error}"));
            assert_eq!(serde_json::to_value(preset).ok(), Some((*word).into()));
        }
    }
}
