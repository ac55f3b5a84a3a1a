//! Mistakes in names, shapes and values of fields.

use crate::{codes, shown, tasks, with};
use insta::assert_snapshot;

#[test]
fn typo_in_a_field() {
    assert_snapshot!(shown("id: f\nnamespace: n\ntaks:\n  - id: a\n    type: log.Log\n    message: hi\n"), @r#"
    error[unknown_field]: a flow has no field `taks`
     --> flow.yaml:3:1
      |
    3 | taks:
      | ^^^^
      |
      = note: expected one of: id, namespace, description, labels, inputs, variables, tasks, errors, finally, outputs, triggers, concurrency, retry, disabled, idempotency, lane, afterExecution, pluginDefaults, taskDefaults, sla, checks, revision, tenantId, deleted
      = help: did you mean `tasks`?
    "#);
}

#[test]
fn typo_in_a_task_field() {
    assert_snapshot!(shown(&with("    allowFailur: true\n")), @r#"
    error[unknown_field]: log.Log has no field `allowFailur`
     --> flow.yaml:7:5
      |
    7 |     allowFailur: true
      |     ^^^^^^^^^^^
      |
      = note: expected one of: message, level, id, type, description, retry, timeout, disabled, runIf, allowFailure, allowWarning, logLevel, effect, on_doubt, onDoubt, taskCache
      = help: did you mean `allowFailure`?
    "#);
}

#[test]
fn a_field_that_is_not_built() {
    assert_snapshot!(shown(&with("workerGroup: {}\nlisteners: []\n")), @r#"
    warning[no_effect]: `workerGroup` changes nothing here: one server runs all tasks
     --> flow.yaml:7:1
      |
    7 | workerGroup: {}
      | ^^^^^^^^^^^

    error[not_built]: `listeners` is known in Kestra, and this build does not have it
     --> flow.yaml:8:1
      |
    8 | listeners: []
      | ^^^^^^^^^
      |
      = help: remove it, or leave this flow on Kestra until it is built
    "#);
}

#[test]
fn missing_id_and_type() {
    assert_snapshot!(shown(&tasks("  - type: log.Log\n    message: hi\n  - id: b\n")), @r#"
    error[missing_field]: a task needs `id`
     --> flow.yaml:4:5
      |
    4 |   - type: log.Log
      |     ^^^^

    error[missing_field]: a task needs `type`
     --> flow.yaml:6:5
      |
    6 |   - id: b
      |     ^^
    "#);
}

#[test]
fn missing_namespace() {
    assert_snapshot!(shown("id: f\ntasks:\n  - id: a\n    type: log.Log\n    message: hi\n"), @r#"
    error[missing_field]: a flow needs `namespace`
     --> flow.yaml:1:1
      |
    1 | id: f
      | ^^
    "#);
}

#[test]
fn bad_ids() {
    assert_snapshot!(shown("id: my flow\nnamespace: Company.Team\ntasks:\n  - id: _a\n    type: log.Log\n    message: hi\n"), @r#"
    error[bad_id]: `my flow` is not a flow id
     --> flow.yaml:1:5
      |
    1 | id: my flow
      |     ^^^^^^^
      |
      = note: expected 1 to 100 of letters, digits, `.`, `_` and `-`, beginning with a letter or digit
      = help: `my_flow` would do

    error[bad_id]: `Company.Team` is not a namespace
     --> flow.yaml:2:12
      |
    2 | namespace: Company.Team
      |            ^^^^^^^^^^^^
      |
      = note: expected 1 to 150 of lower-case letters, digits, `.`, `_` and `-`, beginning with a letter or digit
      = help: `company.team` would do

    error[bad_id]: `_a` is not a task id
     --> flow.yaml:4:9
      |
    4 |   - id: _a
      |         ^^
      |
      = note: expected 1 to 256 of letters, digits, `_` and `-`, beginning with a letter or digit
      = help: `a` would do
    "#);
    assert_snapshot!(shown("id: search\nnamespace: n\ntasks:\n  - id: a\n    type: log.Log\n    message: hi\n"), @r#"
    error[reserved_id]: `search` is a word of the HTTP routes, so no flow can have it as its id
     --> flow.yaml:1:5
      |
    1 | id: search
      |     ^^^^^^
    "#);
}

#[test]
fn duplicate_task_id() {
    assert_snapshot!(shown(&with("  - id: s\n    type: flow.Sequential\n    tasks:\n      - id: a\n        type: log.Log\n        message: again\n")), @r#"
    error[duplicate_id]: two tasks have the id `a`; ids are unique in the whole flow
      --> flow.yaml:10:13
       |
     4 |   - id: a
       |         - first used here
    ...
    10 |       - id: a
       |             ^
    "#);
}

#[test]
fn unknown_type() {
    assert_snapshot!(shown(&tasks("  - id: a\n    type: io.kestra.plugin.core.http.Reqest\n    uri: http://x\n")), @r#"
    error[unknown_type]: no task type `io.kestra.plugin.core.http.Reqest`
     --> flow.yaml:5:11
      |
    5 |     type: io.kestra.plugin.core.http.Reqest
      |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: did you mean `http.Request`?
    "#);
    assert_snapshot!(shown(&tasks("  - id: a\n    type: io.kestra.plugin.scripts.python.Script\n")), @r#"
    error[unknown_type]: this build has no task type `io.kestra.plugin.scripts.python.Script` of Kestra
     --> flow.yaml:5:11
      |
    5 |     type: io.kestra.plugin.scripts.python.Script
      |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = note: expected one of: flow.Sequential, flow.Parallel, flow.If, flow.Switch, flow.ForEach, flow.AllowFailure, flow.WorkingDirectory, flow.Dag, flow.LoopUntil, flow.Loop, flow.Sleep, flow.Pause, flow.Approval, flow.Subflow, flow.ForEachItem, execution.Exit, log.Log, debug.Return, http.Request, storage.Write, storage.Split, storage.FilterItems, execution.Labels
    "#);
    assert_snapshot!(shown(&tasks("  - id: a\n    type: Log\n    message: hi\n")), @r#"
    error[unknown_type]: no task type `Log`
     --> flow.yaml:5:11
      |
    5 |     type: Log
      |           ^^^
      |
      = help: did you mean `log.Log`?
    "#);
}

#[test]
fn bad_duration() {
    assert_snapshot!(shown(&tasks("  - id: a\n    type: http.Request\n    uri: http://x\n    timeout: 30s\n  - id: b\n    type: flow.Sleep\n    duration: P1M\n")), @r#"
    error[bad_duration]: `30s` is not an ISO 8601 duration; write for example PT30S, PT5M, PT24H or P30D
     --> flow.yaml:7:14
      |
    7 |     timeout: 30s
      |              ^^^
      |
      = help: did you mean `PT30S`?

    error[bad_duration]: `P1M` uses years, months or weeks, whose length is not fixed; use days (P30D) or hours
      --> flow.yaml:10:15
       |
    10 |     duration: P1M
       |               ^^^
    "#);
}

#[test]
fn bad_choice_and_shape() {
    assert_snapshot!(shown(&tasks("  - id: a\n    type: http.Request\n    uri: http://x\n    method: PSOT\n    headers: [a]\n    options:\n      auth: {type: DIGEST}\n      allowFailed: yes\n")), @r#"
    error[bad_value]: `PSOT` is not a value of `method`
     --> flow.yaml:7:13
      |
    7 |     method: PSOT
      |             ^^^^ expected one of: GET, POST, PUT, DELETE
      |
      = help: did you mean `POST`?

    error[wrong_type]: `headers` must be a map, not a list
     --> flow.yaml:8:14
      |
    8 |     headers: [a]
      |              ^^^ expected a map

    error[bad_value]: `DIGEST` is not a value of `type`
      --> flow.yaml:10:20
       |
    10 |       auth: {type: DIGEST}
       |                    ^^^^^^ expected one of: BASIC, BEARER

    error[wrong_type]: `allowFailed` must be true or false, not `yes`
      --> flow.yaml:11:20
       |
    11 |       allowFailed: yes
       |                    ^^^ expected true or false
       |
       = help: write `true`
    "#);
}

#[test]
fn missing_required_field() {
    assert_snapshot!(shown(&tasks("  - id: a\n    type: http.Request\n    method: GET\n  - id: b\n    type: log.Log\n    message:\n")), @r#"
    error[missing_field]: http.Request needs `uri`
     --> flow.yaml:4:5
      |
    4 |   - id: a
      |     ^^

    error[missing_field]: `message` has no value
     --> flow.yaml:9:5
      |
    9 |     message:
      |     ^^^^^^^
    "#);
}

#[test]
fn tasks_as_a_map() {
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n  id: a\n  type: log.Log\n"), @r#"
    error[wrong_type]: `tasks` must be a list of tasks, not a map
     --> flow.yaml:4:3
      |
    4 |   id: a
      |   ^^^^^ expected a list of tasks
      |
      = help: put `- ` before each task
    "#);
}

#[test]
fn empty_tasks() {
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n"), @r#"
    error[empty_tasks]: `tasks` holds no task
     --> flow.yaml:3:1
      |
    3 | tasks:
      | ^^^^^
    "#);
    assert_eq!(codes(&tasks("  - id: p\n    type: flow.Parallel\n    tasks: []\n")), ["empty_tasks 6:5"]);
    assert_eq!(codes(&tasks("  - id: s\n    type: flow.Switch\n    value: x\n")), ["missing_field 4:5"]);
    assert_eq!(codes(&tasks("  - id: s\n    type: flow.Switch\n    value: x\n    cases: {}\n")), ["empty_tasks 7:5"]);
}

#[test]
fn labels() {
    assert_snapshot!(shown(&with("labels:\n  system.correlationId: x\n  Team: a\n  empty: \"\"\n")), @r#"
    error[system_label]: System labels can only be set by Semel itself, offending label: system.correlationId=x
     --> flow.yaml:8:3
      |
    8 |   system.correlationId: x
      |   ^^^^^^^^^^^^^^^^^^^^

    error[bad_label]: `Team` is not a label key
     --> flow.yaml:9:3
      |
    9 |   Team: a
      |   ^^^^ expected a lower-case letter, then letters, digits, `.`, `_` and `-`

    error[bad_label]: the label `empty` needs a text as its value
      --> flow.yaml:10:10
       |
    10 |   empty: ""
       |          ^^
    "#);
    assert_eq!(codes(&with("labels:\n  system.readOnly: true\n  team: a\n")), [""; 0]);
    assert_eq!(codes(&with("labels:\n  - key: team\n    value: a\n  - key: x\n")), ["missing_field 10:5"]);
}

#[test]
fn bad_cron() {
    assert_snapshot!(shown(&with("triggers:\n  - id: t\n    type: trigger.Schedule\n    cron: \"0 25 * * *\"\n  - id: u\n    type: trigger.Schedule\n    cron: \"0 0 30 2 *\"\n  - id: v\n    type: trigger.Schedule\n    cron: \"0 0 9 * * *\"\n")), @r#"
    error[bad_cron]: `0 25 * * *` is not a cron expression: Number out of bounds
      --> flow.yaml:10:11
       |
    10 |     cron: "0 25 * * *"
       |           ^^^^^^^^^^^^

    error[bad_cron]: `0 0 30 2 *` never fires
      --> flow.yaml:13:11
       |
    13 |     cron: "0 0 30 2 *"
       |           ^^^^^^^^^^^^

    error[bad_cron]: `0 0 9 * * *` is not a cron expression: it has 6 fields, and 5 are needed
      --> flow.yaml:16:11
       |
    16 |     cron: "0 0 9 * * *"
       |           ^^^^^^^^^^^^^
       |
       = help: six fields need `withSeconds: true`
    "#);
}

#[test]
fn bad_timezone_and_trigger_type() {
    assert_snapshot!(shown(&with("triggers:\n  - id: t\n    type: trigger.Schedule\n    cron: \"@daily\"\n    timezone: Berlin\n  - id: w\n    type: io.kestra.plugin.core.trigger.Webhok\n    key: k\n")), @r#"
    error[bad_timezone]: `Berlin` is not a time zone
      --> flow.yaml:11:15
       |
    11 |     timezone: Berlin
       |               ^^^^^^ expected an IANA name such as Europe/Berlin or UTC

    error[unknown_type]: no trigger type `io.kestra.plugin.core.trigger.Webhok`
      --> flow.yaml:13:11
       |
    13 |     type: io.kestra.plugin.core.trigger.Webhok
       |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = note: expected one of: trigger.Webhook, trigger.Schedule, trigger.ScheduleOnDates, trigger.Flow, http.Trigger
       = help: did you mean `trigger.Webhook`?
    "#);
}

#[test]
fn webhook_mistakes() {
    assert_snapshot!(shown(&with("triggers:\n  - id: w\n    type: trigger.Webhook\n    returnOutputs: true\n    logLevel: INFO\n    signature: {scheme: stripe, header: X-Sig}\n")), @r#"
    error[missing_field]: trigger.Webhook needs `key`
     --> flow.yaml:8:5
      |
    8 |   - id: w
      |     ^^

    error[conflict]: outputs exist only when the run has ended, so `returnOutputs` needs `wait: true`
      --> flow.yaml:10:5
       |
    10 |     returnOutputs: true
       |     ^^^^^^^^^^^^^

    error[missing_field]: a signature needs a `secret`
      --> flow.yaml:12:17
       |
    12 |     signature: {scheme: stripe, header: X-Sig}
       |                 ^^^^^^

    error[bad_value]: this scheme has headers of its own; `header` belongs to `hmac_sha256`
      --> flow.yaml:12:33
       |
    12 |     signature: {scheme: stripe, header: X-Sig}
       |                                 ^^^^^^
    "#);
}

#[test]
fn retry_mistakes() {
    assert_snapshot!(shown(&with("    retry:\n      type: constant\n      interval: PT1S\n      maxAttempts: 1000\n      maxInterval: PT2S\n")), @r#"
    error[limit]: `maxAttempts` is 1000; at most 100 is allowed
      --> flow.yaml:10:20
       |
    10 |       maxAttempts: 1000
       |                    ^^^^

    error[unknown_field]: a constant retry has no field `maxInterval`
      --> flow.yaml:11:7
       |
    11 |       maxInterval: PT2S
       |       ^^^^^^^^^^^
       |
       = note: expected one of: interval, type, maxAttempts, maxAttempt, maxDuration, warningOnRetry, behavior
       = help: did you mean `interval`?
    "#);
}

#[test]
fn effect_mistakes() {
    assert_snapshot!(shown(&with("    effect: probed\n    on_doubt: maybe\n  - id: b\n    type: log.Log\n    message: x\n    effect: {class: naked, window: PT1H}\n")), @r#"
    error[not_built]: the effect class `probed` is not in this build
     --> flow.yaml:7:13
      |
    7 |     effect: probed
      |             ^^^^^^
      |
      = help: use `keyed` if the far side honours a key, else `naked`

    error[bad_value]: `maybe` is not a value of `on_doubt`
     --> flow.yaml:8:15
      |
    8 |     on_doubt: maybe
      |               ^^^^^ expected one of: hold, fail, repeat

    error[bad_value]: `window` belongs to the class `keyed`
      --> flow.yaml:12:28
       |
    12 |     effect: {class: naked, window: PT1H}
       |                            ^^^^^^
    "#);
}

#[test]
fn lane_and_concurrency() {
    assert_snapshot!(shown(&with("lane: {busy: {coalesce: {quiet: PT1M, max: PT5S}}}\nconcurrency: {limit: 0}\n")), @r#"
    error[bad_value]: `max` is shorter than `quiet`
     --> flow.yaml:7:44
      |
    7 | lane: {busy: {coalesce: {quiet: PT1M, max: PT5S}}}
      |                                            ^^^^

    error[conflict]: `concurrency` and `lane` both say what may run at the same time; give one of them
     --> flow.yaml:8:1
      |
    7 | lane: {busy: {coalesce: {quiet: PT1M, max: PT5S}}}
      | ---- the other one
    8 | concurrency: {limit: 0}
      | ^^^^^^^^^^^
    "#);
    assert_eq!(codes(&with("lane: {busy: quue}\n")), ["bad_value 7:14"]);
    assert_eq!(codes(&with("lane: {busy: {reject: {max: 1}}}\n")), ["wrong_type 7:23"]);
    assert_eq!(codes(&with("concurrency: {limit: 1, behavior: WAIT}\n")), ["bad_value 7:35"]);
}

#[test]
fn idempotency_mistakes() {
    assert_snapshot!(shown(&with("idempotency:\n  key: fixed\n  scope: flw\n  preset: semmel\n  live: replay\n  window: {from: start, duration: PT1H}\n  doors: [webhook, fax]\n")), @r#"
    warning[constant_key]: this key is the same for every event, so only the first one would ever run
     --> flow.yaml:8:8
      |
    8 |   key: fixed
      |        ^^^^^
      |
      = help: take it from the event, such as "{{ trigger.body.id }}"

    error[bad_value]: `flw` is not a value of `scope`
     --> flow.yaml:9:10
      |
    9 |   scope: flw
      |          ^^^ expected flow, namespace, workspace or group:NAME
      |
      = help: did you mean `flow`?

    error[bad_value]: `semmel` is not a value of `preset`
      --> flow.yaml:10:11
       |
    10 |   preset: semmel
       |           ^^^^^^
       |
       = note: expected one of: semel, trigger, ietf, stripe_v1, stripe_v2, conductor_fail, conductor_return_existing, conductor_fail_on_running, temporal_allow_duplicate, temporal_failed_only, temporal_reject, temporal_use_existing, restate_call, restate_workflow, dbos_id, dbos_dedup, inngest, inngest_singleton, trigger_dev, step_functions, lambda_durable, powertools, hatchet_ttl, hatchet_status, breyta_keyed, kestra_guard, outbox_consumer
       = help: did you mean `semel`?

    error[bad_value]: `replay` is not a value of `live`
      --> flow.yaml:11:9
       |
    11 |   live: replay
       |         ^^^^^^ expected one of: attach, reject

    error[bad_value]: `start` is not a value of `from`
      --> flow.yaml:12:18
       |
    12 |   window: {from: start, duration: PT1H}
       |                  ^^^^^ expected one of: first_seen, completed

    error[bad_value]: `fax` is not a door
      --> flow.yaml:13:20
       |
    13 |   doors: [webhook, fax]
       |                    ^^^
       |
       = note: expected one of: trigger, kestra, conductor, webhook, schedule, subflow, start_task, callback, queue, cli, flow
    "#);
}

#[test]
fn input_mistakes() {
    assert_snapshot!(shown(&with("inputs:\n  - id: n\n    type: INT\n    max: 5\n    defaults: 7\n  - id: n\n    type: STRNG\n  - id: s\n    type: SELECT\n    values: [a, b]\n    defaults: c\n  - id: f\n    type: FORM\n  - id: v\n    type: STRING\n    validator: \"(?=x)\"\n")), @r#"
    error[bad_default]: the default of `n` does not fit its type INT: it is above `max`
      --> flow.yaml:11:15
       |
    11 |     defaults: 7
       |               ^

    error[bad_value]: `STRNG` is not a value of `type`
      --> flow.yaml:13:11
       |
    13 |     type: STRNG
       |           ^^^^^
       |
       = note: expected one of: STRING, INT, FLOAT, BOOL, SELECT, MULTISELECT, DATETIME, DATE, TIME, DURATION, JSON, YAML, URI, SECRET, ARRAY, EMAIL, FILE
       = help: did you mean `STRING`?

    error[bad_default]: the default of `s` does not fit its type SELECT: it must be one of: a, b
      --> flow.yaml:17:15
       |
    17 |     defaults: c
       |               ^

    error[missing_field]: an input of type FORM needs `inputs`
      --> flow.yaml:18:5
       |
    18 |   - id: f
       |     ^^

    error[bad_regex]: this pattern cannot be used: look-around, including look-ahead and look-behind, is not supported
      --> flow.yaml:22:16
       |
    22 |     validator: "(?=x)"
       |                ^^^^^^^
       |
       = help: look-around and back-references are not available: patterns run in linear time
    "#);
}

#[test]
fn a_flow_that_starts_itself() {
    assert_snapshot!(shown(&tasks("  - id: again\n    type: flow.Subflow\n    namespace: n\n    flowId: f\n")), @r#"
    error[cyclic_subflow]: this flow starts itself every time it runs, without end
     --> flow.yaml:7:13
      |
    7 |     flowId: f
      |             ^
      |
      = help: put the task under a condition (`runIf` or flow.If)
    "#);
    let templated =
        tasks("  - id: again\n    type: flow.Subflow\n    namespace: \"{{ flow.namespace }}\"\n    flowId: f\n");
    assert_eq!(codes(&templated), ["cyclic_subflow 7:13"]);
    let guarded = tasks(
        "  - id: again\n    type: flow.Subflow\n    namespace: n\n    flowId: f\n    runIf: \"{{ inputs.more }}\"\n",
    );
    assert_eq!(codes(&format!("{guarded}inputs:\n  - id: more\n    type: BOOL\n")), [""; 0]);
}

#[test]
fn condition_mistakes() {
    assert_snapshot!(shown(&with("triggers:\n  - id: s\n    type: trigger.Schedule\n    cron: '@daily'\n    conditions:\n      - type: io.kestra.plugin.core.condition.Weekends\n      - type: condition.DayWeek\n        dayOfWeek: FRYDAY\n      - type: condition.TimeBetween\n        after: noon\n      - type: condition.PublicHoliday\n        country: XX\n      - type: condition.ExecutionStatus\n        in: [SUCCESS]\n  - id: w\n    type: trigger.Webhook\n    key: k\n    responseCode: 201\n")), @r#"
    error[unknown_type]: no condition type `io.kestra.plugin.core.condition.Weekends`
      --> flow.yaml:12:15
       |
    12 |       - type: io.kestra.plugin.core.condition.Weekends
       |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: did you mean `condition.Weekend`?

    error[bad_value]: `FRYDAY` is not a value of `dayOfWeek`
      --> flow.yaml:14:20
       |
    14 |         dayOfWeek: FRYDAY
       |                    ^^^^^^
       |
       = note: expected one of: MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY
       = help: did you mean `FRIDAY`?

    error[bad_value]: `noon` is not a value of `after`
      --> flow.yaml:16:16
       |
    16 |         after: noon
       |                ^^^^ expected a time such as 08:00:00+02:00

    error[bad_value]: there is no calendar of public holidays for `XX`; there are those of AT, AU, BE, CA, CH, DE, DK, ES, FI, FR, GB, IE, IT, JP, NL, NO, PL, PT, SE, US
      --> flow.yaml:18:18
       |
    18 |         country: XX
       |                  ^^ expected a country by its ISO 3166-1 code

    warning[no_effect]: this looks at an upstream run, and here is none; it is left out
      --> flow.yaml:19:9
       |
    19 |       - type: condition.ExecutionStatus
       |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    error[conflict]: `responseCode` shapes the answer with the outputs: it needs `returnOutputs: true`
      --> flow.yaml:24:5
       |
    24 |     responseCode: 201
       |     ^^^^^^^^^^^^
    "#);
}

#[test]
fn an_expression_for_each_item_has_variables_of_its_own() {
    let task = |condition: &str| {
        tasks(&format!("  - id: a\n    type: storage.FilterItems\n    from: x\n    filterCondition: \"{condition}\"\n"))
    };
    assert!(codes(&task("{{ price > 3 }}")).is_empty());
    assert_eq!(codes(&task("{{ price > }}")), ["bad_template 7:22"]);
}
