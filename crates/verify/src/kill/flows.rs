//! The flows under load, and what each of them owes.

use super::records::Receiver;

pub const NAMESPACE: &str = "kill";
pub const HOOK_KEY: &str = "hook-key";
/// Between the first and the second call of `steps`.
pub const NAP_MS: i64 = 200;

/// One effect that a completed run of a flow must have had, by the name the ledger knows it under.
pub type Owed = (&'static str, Receiver);

pub struct Flow {
    pub id: &'static str,
    /// How many of a hundred events are for it; none for flows that others start.
    pub share: u32,
    pub owes: &'static [Owed],
    /// How its runs may end. What failed was never sent: there was no free place for the call.
    pub ends: &'static [&'static str],
    /// Another payload under a known key must be refused.
    pub refuses_altered: bool,
}

impl Flow {
    /// Several events may lead to one run.
    pub fn gathers(&self) -> bool {
        self.id == "gather"
    }

    /// A failed run goes on when its event comes again, as the next generation.
    pub fn resumes(&self) -> bool {
        self.id == "limp"
    }
}

pub const FLOWS: &[Flow] = &[
    Flow { id: "pay", share: 20, owes: &[("charge", Receiver::Dedupe)], ends: &["completed"], refuses_altered: true },
    Flow {
        id: "once",
        share: 12,
        owes: &[("send", Receiver::Naive)],
        ends: &["completed", "held"],
        refuses_altered: false,
    },
    Flow { id: "cut", share: 3, owes: &[("send", Receiver::Cut)], ends: &["held", "failed"], refuses_altered: false },
    Flow {
        id: "upsert",
        share: 10,
        owes: &[("put", Receiver::Repeat), ("look", Receiver::Read)],
        ends: &["completed"],
        refuses_altered: false,
    },
    Flow {
        id: "steps",
        share: 12,
        owes: &[
            ("first", Receiver::Flaky),
            ("second", Receiver::Dedupe),
            ("each-x", Receiver::Dedupe),
            ("each-y", Receiver::Dedupe),
        ],
        ends: &["completed"],
        refuses_altered: false,
    },
    Flow {
        id: "family",
        share: 10,
        owes: &[("after", Receiver::Dedupe)],
        ends: &["completed"],
        refuses_altered: false,
    },
    Flow { id: "child", share: 0, owes: &[("below", Receiver::Dedupe)], ends: &["completed"], refuses_altered: false },
    Flow {
        id: "line",
        share: 10,
        owes: &[("enter", Receiver::Dedupe), ("leave", Receiver::Dedupe)],
        ends: &["completed"],
        refuses_altered: false,
    },
    Flow {
        id: "swap",
        share: 5,
        owes: &[("work", Receiver::Dedupe)],
        ends: &["completed", "cancelled"],
        refuses_altered: false,
    },
    Flow { id: "hook", share: 10, owes: &[("take", Receiver::Dedupe)], ends: &["completed"], refuses_altered: true },
    Flow { id: "gather", share: 4, owes: &[("work", Receiver::Dedupe)], ends: &["completed"], refuses_altered: false },
    Flow {
        id: "limp",
        share: 4,
        owes: &[("first", Receiver::Dedupe), ("second", Receiver::Flaky)],
        // It fails if the second call is answered badly; the next twin resumes it. A call whose answer was lost and
        // whose repeat is refused stays unknown, and is held.
        ends: &["completed", "failed", "held"],
        refuses_altered: true,
    },
    Flow { id: "tick", share: 0, owes: &[("work", Receiver::Dedupe)], ends: &["completed"], refuses_altered: false },
];

pub fn named(id: &str) -> Option<&'static Flow> {
    FLOWS.iter().find(|flow| flow.id == id)
}

/// The lane an event of `line` and `swap` belongs to: it is part of the event's name.
pub fn lane_of(event: &str) -> &str {
    event.rsplit('-').next().unwrap_or_default()
}

struct Author<'a> {
    ledger: &'a str,
    flow: &'a str,
    event: &'a str,
}

impl Author<'_> {
    fn call(&self, id: &str, method: &str, receiver: &str, step: &str, more: &str) -> String {
        let Author { ledger, flow, event } = self;
        let uri = format!("{ledger}/{receiver}/{flow}/{{{{ {event} }}}}/{{{{ run.id }}}}/{step}");
        format!("- {{id: {id}, type: http.Request, method: {method}, uri: '{uri}'{more}}}")
    }

    fn keyed(&self, step: &str) -> String {
        self.call(step, "POST", "dedupe", step, ", effect: keyed")
    }

    fn flow(&self, tasks: &[String], rest: &str) -> String {
        let tasks: String = tasks.iter().map(|task| format!("  {task}\n")).collect();
        format!("id: {}\nnamespace: {NAMESPACE}\ntasks:\n{tasks}{rest}\n", self.flow)
    }
}

/// The YAML of every flow, children first; `ledger` is the ledger's address.
pub fn sources(ledger: &str) -> Vec<String> {
    let of = |flow, event| Author { ledger, flow, event };
    let data = "trigger.data.event";
    let (pay, once, cut, upsert) = (of("pay", data), of("once", data), of("cut", data), of("upsert", data));
    let (steps, family, child) = (of("steps", data), of("family", data), of("child", "inputs.event"));
    let (gather, limp) = (of("gather", data), of("limp", data));
    let (line, swap, hook) = (of("line", data), of("swap", data), of("hook", "trigger.body.id"));
    let flaky = ", effect: keyed, timeout: PT0.6S, retry: {type: constant, interval: PT0.05S, maxAttempts: 30}";
    let each = steps.call("item", "POST", "dedupe", "each-{{ taskrun.value }}", ", effect: keyed");
    vec![
        child.flow(&[child.keyed("below")], "inputs:\n  - {id: event, type: STRING}"),
        pay.flow(
            &[
                pay.keyed("charge"),
                // Fails the run if it is ever done twice.
                "- {id: note, type: kv.Set, key: '{{ trigger.data.event }}', value: '{{ run.id }}', overwrite: false}"
                    .to_owned(),
            ],
            "idempotency: {preset: semel}",
        ),
        once.flow(&[once.call("send", "POST", "naive", "send", "")], ""),
        cut.flow(&[cut.call("send", "POST", "cut", "send", ", timeout: PT0.5S")], ""),
        upsert.flow(
            &[upsert.call("put", "PUT", "repeat", "put", ""), upsert.call("look", "GET", "read", "look", "")],
            "",
        ),
        steps.flow(
            &[
                steps.call("first", "POST", "flaky", "first", flaky),
                format!("- {{id: nap, type: flow.Sleep, duration: PT0.{NAP_MS}S}}"),
                steps.keyed("second"),
                format!("- id: each\n    type: flow.ForEach\n    values: [x, y]\n    concurrencyLimit: 2\n    tasks:\n      {each}"),
            ],
            "",
        ),
        family.flow(
            &[
                format!("- {{id: sub, type: flow.Subflow, namespace: {NAMESPACE}, flowId: child, inputs: {{event: '{{{{ {data} }}}}'}}}}"),
                family.keyed("after"),
            ],
            "",
        ),
        line.flow(&[line.keyed("enter"), line.keyed("leave")], "lane: {key: '{{ trigger.data.lane }}', busy: queue}"),
        swap.flow(
            &["- {id: nap, type: flow.Sleep, duration: PT0.1S}".to_owned(), swap.keyed("work")],
            "lane: {key: '{{ trigger.data.lane }}', busy: replace}",
        ),
        hook.flow(
            &[hook.keyed("take")],
            &format!(
                "triggers:\n  - {{id: door, type: trigger.Webhook, key: {HOOK_KEY}}}\nidempotency: {{key: '{{{{ trigger.body.id }}}}'}}"
            ),
        ),
        gather.flow(
            &[gather.keyed("work")],
            "lane: {key: '{{ trigger.data.lane }}', busy: {coalesce: {quiet: PT0.3S, max: PT2S}}}",
        ),
        limp.flow(
            &[
                limp.keyed("first"),
                limp.call("second", "POST", "flaky", "second", ", effect: keyed, timeout: PT0.6S"),
            ],
            "idempotency: {preset: semel}",
        ),
        tick(ledger, false),
    ]
}

/// Fires every second; disabled at the end, so that there is an end.
pub fn tick(ledger: &str, disabled: bool) -> String {
    let tick = Author { ledger, flow: "tick", event: "trigger.date" };
    let trigger = "triggers:\n  - {id: second, type: trigger.Schedule, cron: '* * * * * *', withSeconds: true}";
    tick.flow(&[tick.keyed("work")], &format!("{trigger}\ndisabled: {disabled}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_make_a_hundred_and_every_flow_has_its_source() {
        assert_eq!(FLOWS.iter().map(|flow| flow.share).sum::<u32>(), 100);
        let sources = sources("http://ledger");
        for flow in FLOWS {
            let source = sources.iter().find(|source| source.starts_with(&format!("id: {}\n", flow.id)));
            let source = source.unwrap_or_else(|| panic!("no source of {}", flow.id));
            for (step, _) in flow.owes {
                let step = step.split('-').next().unwrap_or(step);
                assert!(source.contains(&format!("}}}}/{step}")), "{}: {step}", flow.id);
            }
        }
    }
}
