//! `triggers:`, one reader per trigger type.

use super::cron;
use super::fields::{Fields, Names};
use super::ids::TRIGGER_ID;
use super::labels::Owner;
use super::preconditions::Depends;
use super::tasks::LOG_LEVELS;
use super::values::short;
use super::{Context, Moment};
use crate::check::KESTRA_TYPES;
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::Node;
use indexmap::IndexMap;
use jiff::tz::TimeZone;
use semel_core::Millis;
use semel_core::ir::{
    Condition, HEARD_STATES, RecoverMissed, SignatureScheme, SignatureSpec, TaskSpec, Trigger, TriggerKind,
};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::ops::Range;

const COMMON: &[&str] = &[
    "id",
    "type",
    "description",
    "disabled",
    "inputs",
    "labels",
    "conditions",
    "when",
    "logLevel",
    "stopAfter",
    "allowConcurrent",
];
const NOT_BUILT: &[&str] =
    &["workerGroup", "version", "backfill", "logToFile", "failOnTriggerError", "recoverLateSchedules", "fetchType"];
const WEBHOOK: &[&str] =
    &["key", "wait", "returnOutputs", "responseCode", "responseContentType", "fetchType", "signature"];
const SCHEDULE: &[&str] =
    &["cron", "timezone", "withSeconds", "recoverMissedSchedules", "lateMaximumDelay", "scheduleConditions"];
/// Beside the fields of http.Request.
const HTTP: &[&str] = &["interval", "responseCondition"];
const FLOW: &[&str] = &["states", "preconditions", "dependsOn", "window", "mode", "minSatisfied"];
const ON_DATES: &[&str] = &["dates", "timezone", "recoverMissedSchedules"];
const SIGNATURE: Names =
    Names { what: "`signature`", allowed: &[&["scheme", "secret", "secrets", "header", "tolerance"]], not_built: &[] };
/// Every trigger type with its own fields.
const TYPES: &[(&str, &[&str])] = &[
    ("trigger.Webhook", WEBHOOK),
    ("trigger.Schedule", SCHEDULE),
    ("trigger.ScheduleOnDates", ON_DATES),
    ("trigger.Flow", FLOW),
    ("http.Trigger", HTTP),
];
const INTERVAL_MS: i64 = 60_000;
const INTERVAL_MS_MIN: i64 = 1_000;
/// Dates of one trigger.
const DATES_MAX: usize = 1_000;
const PREFIXES: &[&str] = &["io.kestra.plugin.core.", "io.kestra.core.models.", "io.kestra.plugin.fs."];
/// What Kestra allows for the secret part of a webhook URL.
const KEY_CHARS_MAX: usize = 256;
const TOLERANCE_MS: i64 = 5 * 60_000;

/// `a` of the nested input `a.b`.
fn first_part(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl<'a> Context<'a> {
    pub fn triggers(&mut self, node: &'a Node) -> Vec<Trigger> {
        let Some(items) = self.list(node, "triggers") else { return Vec::new() };
        let mut seen = IndexMap::new();
        let mut triggers = Vec::new();
        for item in items {
            let Some(trigger) = self.during(Moment::Admission, |context| context.trigger(item)) else { continue };
            let id = item.entries().and_then(|entries| entries.iter().find(|entry| entry.key == "id"));
            let at = id.map_or_else(|| item.at.clone(), |entry| entry.value.at.clone());
            self.unique("trigger", &trigger.id, at, &mut seen);
            triggers.push(trigger);
        }
        triggers
    }

    fn trigger(&mut self, node: &'a Node) -> Option<Trigger> {
        let raw = self.map(node, "a trigger")?;
        let id = self.required(&raw, "a trigger", "id").and_then(|node| self.id(node, TRIGGER_ID));
        let type_node = self.required(&raw, "a trigger", "type")?;
        let (name, own) = self.trigger_type(type_node)?;
        if name == "trigger.Flow" {
            // Until this trigger has been read.
            self.moment = Moment::Upstream;
        }
        let request = self.catalog.find("http.Request").filter(|_| name == "http.Trigger");
        let sent: Vec<&str> =
            request.map(|spec| spec.fields.iter().map(|field| field.name).collect()).unwrap_or_default();
        let fields = self.fields(node, Names { what: name, allowed: &[COMMON, own, &sent], not_built: NOT_BUILT })?;
        let disabled = self.flag(&fields, "disabled", false);
        let inputs = self.trigger_inputs(&fields, disabled);
        let labels = fields.get("labels").map(|node| self.labels(node, Owner::Run)).unwrap_or_default();
        let mut conditions = self.trigger_conditions(&fields, name == "trigger.Flow");
        if let Some(node) = fields.get("logLevel") {
            self.word(node, "logLevel", LOG_LEVELS);
        }
        let kind = match name {
            "trigger.Webhook" => self.webhook(&fields),
            "trigger.Schedule" => self.schedule(&fields),
            "trigger.Flow" => self.upstream(&fields, id.as_deref().unwrap_or_default(), &mut conditions),
            "http.Trigger" => request.and_then(|spec| self.polling(&fields, spec)),
            _ => self.on_dates(&fields),
        };
        let stop_after = fields.get("stopAfter").map(|node| self.states(node, "stopAfter")).unwrap_or_default();
        let allow_concurrent = self.flag(&fields, "allowConcurrent", false);
        if name == "trigger.Webhook" && fields.get("stopAfter").is_some() {
            let message = "a webhook is not switched off by its runs, so `stopAfter` changes nothing here";
            self.report(Finding::warning(codes::NO_EFFECT, fields.key_at("stopAfter"), message));
        }
        Some(Trigger { id: id?, disabled, inputs, labels, kind: kind?, conditions, stop_after, allow_concurrent })
    }

    fn trigger_type(&mut self, node: &'a Node) -> Option<(&'static str, &'static [&'static str])> {
        let text = self.literal(node, "type")?;
        let short_name = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        let short_name = short_name.replace("triggers.types.", "trigger.");
        let found = TYPES.iter().find(|(name, _)| **name == short_name).copied();
        if found.is_none() {
            let names = || TYPES.iter().map(|(name, _)| *name);
            let near = suggest::nearest(&short_name, names()).map(|name| format!("did you mean `{name}`?"));
            let finding =
                Finding::error(codes::UNKNOWN_TYPE, node.at.clone(), format!("no trigger type `{}`", short(text)));
            let expected = format!("one of: {}", names().collect::<Vec<_>>().join(", "));
            self.report(finding.expected(expected).maybe_suggest(near));
        }
        found
    }

    fn trigger_inputs(&mut self, fields: &Fields<'a>, disabled: bool) -> IndexMap<String, Json> {
        let mut inputs = IndexMap::new();
        if let Some(map) = fields.get("inputs").and_then(|node| self.map(node, "`inputs`")) {
            for entry in map.entries() {
                self.declared_input(&entry.key, &entry.key_at);
                inputs.insert(entry.key.clone(), self.tree(&entry.value));
            }
        }
        let given: HashSet<&str> = inputs.keys().map(|name| first_part(name)).collect();
        let needed = self.inputs.iter().find(|(name, needed)| **needed && !given.contains(first_part(name)));
        if let Some((name, _)) = needed.filter(|_| !disabled) {
            let message =
                format!("this trigger sets no value for the required input `{name}`, so its runs will be refused");
            let finding = Finding::warning(codes::MISSING_INPUT, fields.place(), message);
            self.report(finding.suggest("set it under the trigger's `inputs`, or give the input a default"));
        }
        inputs
    }

    /// Reports an input name that the flow does not declare.
    pub fn declared_input(&mut self, name: &str, at: &Range<usize>) {
        if let Some((message, help)) = self.undeclared_input(name) {
            // Kestra passes over such a value, and so does a run here.
            let finding = match self.source.text.contains(KESTRA_TYPES) {
                true => Finding::warning(codes::UNKNOWN_INPUT, at.clone(), message),
                false => Finding::error(codes::UNKNOWN_INPUT, at.clone(), message),
            };
            self.report(finding.maybe_suggest(help));
        }
    }

    /// What to say about an input that the flow does not declare, and what may help.
    pub fn undeclared_input(&self, name: &str) -> Option<(String, Option<String>)> {
        if self.input_roots.contains(first_part(name)) || self.is_full() {
            return None;
        }
        let help = match self.inputs.is_empty() {
            true => Some("the flow declares no inputs".to_owned()),
            false => suggest::did_you_mean(name, self.inputs.keys().map(String::as_str)),
        };
        Some((format!("the flow has no input `{}`", short(name)), help))
    }

    fn webhook(&mut self, fields: &Fields<'a>) -> Option<TriggerKind> {
        let key_node = self.required(fields, "trigger.Webhook", "key");
        let key = key_node.and_then(|node| self.template(node, "key"));
        if let (Some(node), Some(text)) = (key_node, &key)
            && text.chars().count() > KEY_CHARS_MAX
        {
            self.error(codes::LIMIT, &node.at, format!("a webhook key has at most {KEY_CHARS_MAX} characters"));
        }
        let wait = self.flag(fields, "wait", false);
        let return_outputs = self.flag(fields, "returnOutputs", false);
        if return_outputs && !wait {
            let finding = Finding::error(
                codes::CONFLICT,
                fields.key_at("returnOutputs"),
                "outputs exist only when the run has ended, so `returnOutputs` needs `wait: true`",
            );
            self.report(finding);
        }
        let signature = match fields.get("signature") {
            Some(node) => Some(self.signature(node)?),
            None => None,
        };
        let response_code = fields.get("responseCode").and_then(|node| self.count(node, "responseCode", 200, 599));
        let response_code = response_code.and_then(|code| u16::try_from(code).ok());
        let types = ["application/json", "text/plain"];
        let response_type =
            fields.get("responseContentType").and_then(|node| self.choice(node, "responseContentType", &types));
        for name in ["responseCode", "responseContentType"].into_iter().filter(|name| fields.get(name).is_some()) {
            if !(wait && return_outputs) {
                let message = format!("`{name}` shapes the answer with the outputs: it needs `returnOutputs: true`");
                self.error(codes::CONFLICT, &fields.key_at(name), message);
            }
        }
        let fetch = fields.get("fetchType").and_then(|node| self.word(node, "fetchType", &["FETCH", "STORE"]));
        Some(TriggerKind::Webhook {
            key: key?,
            wait,
            return_outputs,
            signature,
            response_code,
            response_type,
            store_body: fetch == Some("STORE"),
        })
    }

    fn signature(&mut self, node: &'a Node) -> Option<SignatureSpec> {
        let fields = self.fields(node, SIGNATURE)?;
        let words = ["hmac_sha256", "standard_webhooks", "stripe", "github"];
        let scheme = self.required(&fields, "`signature`", "scheme");
        let scheme: Option<SignatureScheme> = scheme.and_then(|node| self.choice(node, "scheme", &words));
        let secrets = self.signature_secrets(&fields);
        let header = fields.get("header").and_then(|node| self.literal(node, "header")).map(str::to_owned);
        if header.is_some() && scheme.is_some_and(|scheme| scheme != SignatureScheme::HmacSha256) {
            let message = "this scheme has headers of its own; `header` belongs to `hmac_sha256`";
            self.error(codes::BAD_VALUE, &fields.key_at("header"), message);
        }
        let tolerance_ms = match fields.get("tolerance") {
            Some(node) => self.positive_duration(node, "tolerance"),
            None => Some(TOLERANCE_MS),
        };
        Some(SignatureSpec { scheme: scheme?, secrets: secrets?, header, tolerance_ms: tolerance_ms? })
    }

    fn signature_secrets(&mut self, fields: &Fields<'a>) -> Option<Vec<String>> {
        let secrets = match (fields.get("secret"), fields.get("secrets")) {
            (Some(_), Some(_)) => {
                self.error(codes::CONFLICT, &fields.key_at("secrets"), "give `secret` or `secrets`, not both");
                return None;
            }
            (Some(one), None) => vec![self.template(one, "secret")?],
            (None, Some(many)) => {
                let items = self.list(many, "secrets")?;
                items.iter().filter_map(|item| self.template(item, "secrets")).collect()
            }
            (None, None) => Vec::new(),
        };
        if secrets.is_empty() || secrets.iter().any(|secret| secret.trim().is_empty()) {
            self.error(codes::MISSING_FIELD, &fields.place(), "a signature needs a `secret`");
            return None;
        }
        Some(secrets)
    }

    fn schedule(&mut self, fields: &Fields<'a>) -> Option<TriggerKind> {
        let with_seconds = self.flag(fields, "withSeconds", false);
        let timezone = match fields.get("timezone") {
            None => Some("UTC".to_owned()),
            Some(node) => self.timezone(node),
        };
        let cron = self.required(fields, "trigger.Schedule", "cron");
        let cron = cron.and_then(|node| self.cron(node, with_seconds));
        let recover = self.recover(fields)?;
        let late_max_ms =
            fields.get("lateMaximumDelay").and_then(|node| self.positive_duration(node, "lateMaximumDelay"));
        Some(TriggerKind::Schedule { cron: cron?, timezone: timezone?, with_seconds, recover, late_max_ms })
    }

    fn polling(&mut self, fields: &Fields<'a>, spec: &TaskSpec) -> Option<TriggerKind> {
        let interval_ms = match fields.get("interval") {
            Some(node) => self.positive_duration(node, "interval")?,
            None => INTERVAL_MS,
        };
        if interval_ms < INTERVAL_MS_MIN {
            self.error(codes::LIMIT, &fields.key_at("interval"), "a poll is made once a second at most");
        }
        let request = self.leaf_config(fields, spec);
        let response_condition = match fields.get("responseCondition") {
            // It sees `response`, which nothing else in a flow does.
            Some(node) => self.only_parsed(node, "responseCondition")?,
            None => "{{ response.statusCode < 400 }}".to_owned(),
        };
        Some(TriggerKind::Http { interval_ms, request, response_condition })
    }

    fn upstream(&mut self, fields: &Fields<'a>, id: &str, conditions: &mut Vec<Condition>) -> Option<TriggerKind> {
        let states = match fields.get("states") {
            Some(node) => self.states(node, "states"),
            None => HEARD_STATES.iter().map(|state| (*state).to_owned()).collect(),
        };
        let mut preconditions = match fields.get("preconditions") {
            Some(node) => Some(self.preconditions(node)?),
            None => None,
        };
        match self.upstream_dependencies(fields, id) {
            Some(Depends::All(all)) => preconditions = Some(all),
            Some(Depends::Any(any)) => conditions.push(any),
            None => {}
        }
        Some(TriggerKind::Flow { states, preconditions })
    }

    fn on_dates(&mut self, fields: &Fields<'a>) -> Option<TriggerKind> {
        let timezone = match fields.get("timezone") {
            None => Some("UTC".to_owned()),
            Some(node) => self.timezone(node),
        };
        let node = self.required(fields, "trigger.ScheduleOnDates", "dates")?;
        let items = self.list(node, "dates")?;
        if items.len() > DATES_MAX {
            self.error(codes::LIMIT, &node.at, format!("a trigger has at most {DATES_MAX} dates"));
        }
        let (timezone, recover) = (timezone?, self.recover(fields)?);
        let mut dates: Vec<Millis> = items.iter().filter_map(|item| self.instant(item, &timezone)).collect();
        dates.sort();
        dates.dedup();
        Some(TriggerKind::ScheduleOnDates { dates, timezone, recover })
    }

    /// A date, in whole seconds; one without an offset is in the trigger's zone.
    fn instant(&mut self, node: &'a Node, timezone: &str) -> Option<Millis> {
        let text = self.literal(node, "dates")?;
        let local = || {
            let civil = text.parse::<jiff::civil::DateTime>().ok()?;
            Some(civil.to_zoned(TimeZone::get(timezone).ok()?).ok()?.timestamp())
        };
        let read = text.parse::<jiff::Timestamp>().ok().or_else(local);
        if read.is_none() {
            let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), format!("`{}` is not a date", short(text)));
            self.report(finding.expected("a date such as 2026-01-31T08:00:00Z"));
        }
        read.map(|at| Millis(at.as_second() * 1_000))
    }

    fn recover(&mut self, fields: &Fields<'a>) -> Option<RecoverMissed> {
        match fields.get("recoverMissedSchedules") {
            Some(node) => self.choice(node, "recoverMissedSchedules", &["ALL", "LAST", "NONE"]),
            None => Some(RecoverMissed::All),
        }
    }

    pub fn timezone(&mut self, node: &'a Node) -> Option<String> {
        let text = self.literal(node, "timezone")?;
        if let Ok(zone) = TimeZone::get(text)
            && zone.iana_name().is_some()
        {
            return Some(text.to_owned());
        }
        let finding =
            Finding::error(codes::BAD_TIMEZONE, node.at.clone(), format!("`{}` is not a time zone", short(text)));
        self.report(finding.expected("an IANA name such as Europe/Berlin or UTC"));
        None
    }

    fn cron(&mut self, node: &'a Node, with_seconds: bool) -> Option<String> {
        let text = self.literal(node, "cron")?;
        match cron::parse_cron(text, with_seconds) {
            Ok(parsed) if cron::ever_fires(&parsed) => Some(cron::known_name(text).to_owned()),
            Ok(_) => {
                let message = format!("`{}` never fires", short(text));
                self.error(codes::BAD_CRON, &node.at, message);
                None
            }
            Err(why) => {
                let message = format!("`{}` is not a cron expression: {why}", short(text));
                let mut finding = Finding::error(codes::BAD_CRON, node.at.clone(), message);
                if !with_seconds && text.split_whitespace().count() == 6 {
                    finding = finding.suggest("six fields need `withSeconds: true`");
                }
                self.report(finding);
                None
            }
        }
    }
}
