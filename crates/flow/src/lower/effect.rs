//! `effect:` and `on_doubt:` of a task.

use super::Context;
use super::fields::{Fields, Names};
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use semel_core::ir::{EffectClass, EffectSpec, OnDoubt};

const NAMES: Names = Names { what: "`effect`", allowed: &[&["class", "window", "key"]], not_built: &[] };

impl<'a> Context<'a> {
    pub fn effect(&mut self, task: &Fields<'a>) -> EffectSpec {
        let mut effect = match task.get("effect") {
            None => EffectSpec::default(),
            Some(node) if node.entries().is_some() => self.effect_map(node),
            Some(node) => EffectSpec { class: self.effect_class(node), ..EffectSpec::default() },
        };
        if let (Some(_), Some(_)) = (task.get("on_doubt"), task.get("onDoubt")) {
            let message = "`onDoubt` is another spelling of `on_doubt`; give one of them";
            self.error(codes::CONFLICT, &task.key_at("onDoubt"), message);
        }
        if let Some(node) = task.get("on_doubt").or_else(|| task.get("onDoubt")) {
            let on_doubt: Option<OnDoubt> = self.choice(node, "on_doubt", &["hold", "fail", "repeat"]);
            effect.on_doubt = on_doubt.unwrap_or_default();
        }
        effect
    }

    fn effect_map(&mut self, node: &'a Node) -> EffectSpec {
        let Some(fields) = self.fields(node, NAMES) else { return EffectSpec::default() };
        let class = self.required(&fields, "`effect`", "class").and_then(|node| self.effect_class(node));
        let window_ms = fields.get("window").and_then(|node| self.positive_duration(node, "window"));
        let key = fields.get("key").and_then(|node| self.template(node, "effect.key"));
        if class.is_some_and(|class| class != EffectClass::Keyed) {
            for name in ["window", "key"].into_iter().filter(|name| fields.get(name).is_some()) {
                let message = format!("`{name}` belongs to the class `keyed`");
                self.error(codes::BAD_VALUE, &fields.key_at(name), message);
            }
        }
        EffectSpec { class, window_ms, key, on_doubt: OnDoubt::default() }
    }

    fn effect_class(&mut self, node: &'a Node) -> Option<EffectClass> {
        let class: EffectClass = self.choice(node, "effect", &EffectClass::ALL.map(EffectClass::word))?;
        if matches!(class, EffectClass::Transactional | EffectClass::Probed) {
            let message = format!("the effect class `{}` is not in this build", class.word());
            let finding = Finding::error(codes::NOT_BUILT, node.at.clone(), message);
            self.report(finding.suggest("use `keyed` if the far side honours a key, else `naked`"));
            return None;
        }
        Some(class)
    }
}
