//! `lane:` and Kestra's `concurrency:`.

use super::fields::{Fields, Names};
use super::{Context, Moment};
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use semel_core::admission::Busy;
use semel_core::ir::LaneSpec;

const LANE: Names = Names { what: "`lane`", allowed: &[&["key", "limit", "busy"]], not_built: &[] };
const CONCURRENCY: Names = Names { what: "`concurrency`", allowed: &[&["limit", "behavior"]], not_built: &[] };
const QUEUE: Names = Names { what: "`queue`", allowed: &[&["max"]], not_built: &[] };
const COALESCE: Names = Names { what: "`coalesce`", allowed: &[&["quiet", "max"]], not_built: &[] };
const WORDS: &[&str] = &["queue", "replace", "coalesce", "deliver", "reject", "parallel"];

const QUEUE_MAX: u32 = 100_000;
const QUIET_MS: i64 = 5_000;
const COALESCE_MAX_MS: i64 = 60_000;
/// More runs at once than this in one lane is no limit at all.
const LIMIT_MAX: u32 = 1_000_000;

impl<'a> Context<'a> {
    /// The flow's lane, from whichever of the two fields it has.
    pub fn lane_of(&mut self, flow: &Fields<'a>) -> Option<LaneSpec> {
        match (flow.get("lane"), flow.get("concurrency")) {
            (Some(lane), Some(_)) => {
                let finding = Finding::error(
                    codes::CONFLICT,
                    flow.key_at("concurrency"),
                    "`concurrency` and `lane` both say what may run at the same time; give one of them",
                );
                self.report(finding.related(flow.key_at("lane"), "the other one"));
                self.lane(lane)
            }
            (Some(lane), None) => self.lane(lane),
            (None, Some(concurrency)) => self.concurrency(concurrency),
            (None, None) => None,
        }
    }

    fn concurrency(&mut self, node: &'a Node) -> Option<LaneSpec> {
        let fields = self.fields(node, CONCURRENCY)?;
        let limit = self.required(&fields, "`concurrency`", "limit");
        let limit = limit.and_then(|node| self.count(node, "limit", 1, LIMIT_MAX));
        let behavior = fields.get("behavior").map(|node| self.word(node, "behavior", &["QUEUE", "CANCEL", "FAIL"]));
        let busy = match behavior {
            None | Some(Some("QUEUE")) => Busy::Queue { max: QUEUE_MAX },
            Some(Some("CANCEL")) => Busy::Cancel,
            Some(Some(_)) => Busy::Fail,
            Some(None) => return None,
        };
        Some(LaneSpec { key: None, limit: limit?, busy })
    }

    fn lane(&mut self, node: &'a Node) -> Option<LaneSpec> {
        let fields = self.fields(node, LANE)?;
        let key = fields
            .get("key")
            .and_then(|node| self.during(Moment::Admission, |context| context.template(node, "lane.key")));
        let limit = match fields.get("limit") {
            Some(node) => self.count(node, "limit", 1, LIMIT_MAX),
            None => Some(1),
        };
        let busy = match fields.get("busy") {
            Some(node) => self.busy(node),
            None => Some(Busy::Queue { max: QUEUE_MAX }),
        };
        Some(LaneSpec { key, limit: limit?, busy: busy? })
    }

    /// A word, or a map of one word to its settings.
    fn busy(&mut self, node: &'a Node) -> Option<Busy> {
        let (word, settings) = match node.entries() {
            Some([only]) => {
                let key = Node { at: only.key_at.clone(), value: node.value.clone() };
                match WORDS.iter().find(|word| **word == only.key) {
                    Some(word) => (*word, Some(&only.value)),
                    None => {
                        self.bad_busy(&key, &only.key);
                        return None;
                    }
                }
            }
            Some(_) => {
                self.wrong_type(node, "busy", "one word, or a map of one word to its settings");
                return None;
            }
            None => (self.word(node, "busy", WORDS)?, None),
        };
        match (word, settings.filter(|settings| !settings.is_null())) {
            ("queue", None) => Some(Busy::Queue { max: QUEUE_MAX }),
            ("queue", Some(settings)) => {
                let fields = self.fields(settings, QUEUE)?;
                let max = fields.get("max").map_or(Some(QUEUE_MAX), |node| self.count(node, "max", 1, QUEUE_MAX));
                Some(Busy::Queue { max: max? })
            }
            ("coalesce", None) => Some(Busy::Coalesce { quiet_ms: QUIET_MS, max_ms: COALESCE_MAX_MS }),
            ("coalesce", Some(settings)) => self.coalesce(settings),
            (word, Some(settings)) => {
                self.error(codes::WRONG_TYPE, &settings.at, format!("`{word}` has no settings"));
                None
            }
            ("replace", None) => Some(Busy::Replace),
            ("deliver", None) => Some(Busy::Deliver),
            ("reject", None) => Some(Busy::Reject),
            (_, None) => Some(Busy::Parallel),
        }
    }

    fn bad_busy(&mut self, node: &Node, word: &str) {
        let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), format!("`{word}` is not a value of `busy`"))
            .expected(format!("one of: {}", WORDS.join(", ")))
            .maybe_suggest(crate::suggest::did_you_mean(word, WORDS.iter().copied()));
        self.report(finding);
    }

    fn coalesce(&mut self, node: &'a Node) -> Option<Busy> {
        let fields = self.fields(node, COALESCE)?;
        let quiet_ms = fields.get("quiet").map_or(Some(QUIET_MS), |node| self.positive_duration(node, "quiet"))?;
        let max_ms = match fields.get("max") {
            Some(node) => self.positive_duration(node, "max")?,
            None => COALESCE_MAX_MS.max(quiet_ms),
        };
        self.ordered(&fields, "quiet", quiet_ms, "max", max_ms);
        Some(Busy::Coalesce { quiet_ms, max_ms })
    }
}
