//! Flows that must compile, and what they compile to.

use crate::{accept, tasks, with};
use semel_core::admission::{Busy, Window, WindowFrom};
use semel_core::ir::{
    Condition, DayInMonth, DayOfWeek, HEARD_STATES, KeyScope, Task, TaskKind, TimeWindow, TriggerKind,
};

/// The guarded payment flow of Kestra's guide to duplicate executions, as its users have it.
const GUARDED: &str = r#"id: payment_flow_guarded
namespace: company.team

inputs:
  - id: idempotencyKey
    type: STRING

tasks:
  - id: check_existing
    type: io.kestra.plugin.core.http.Request
    uri: "http://localhost:8080/api/v1/{{ kv('KESTRA_TENANT') }}/executions/search?filters[labels][EQUALS][system.correlationId]={{ inputs.idempotencyKey }}&filters[namespace][EQUALS]=company.team&filters[flowId][EQUALS]=payment_flow_guarded&filters[state][IN]=SUCCESS&size=1"
    method: GET
    headers:
      Authorization: "Bearer {{ secret('KESTRA_API_TOKEN') }}"

  - id: maybe_skip
    type: io.kestra.plugin.core.flow.If
    condition: "{{ not (outputs.check_existing.body contains '\"total\":0') }}"
    then:
      - id: skip
        type: io.kestra.plugin.core.log.Log
        message: "Duplicate {{ inputs.idempotencyKey }} skipped; already succeeded"
    else:
      - id: continue
        type: io.kestra.plugin.core.log.Log
        message: "First time for {{ inputs.idempotencyKey }}, proceed"
"#;

/// The webhook flow of the same guide.
const WEBHOOK: &str = r#"id: payment_webhook
namespace: company.team

variables:
  idem_key: "{{ trigger.headers['Idempotency-Key'] | first }}"

tasks:
  - id: set_idempotency_key
    type: io.kestra.plugin.core.execution.Labels
    labels:
      idempotency.key: "{{ vars.idem_key }}"

  - id: check_existing
    type: io.kestra.plugin.core.http.Request
    uri: "http://localhost:8080/api/v1/{{ kv('KESTRA_TENANT') }}/executions/search?filters[labels][EQUALS][idempotency.key]={{ vars.idem_key }}&filters[namespace][EQUALS]=company.team&filters[flowId][EQUALS]=payment_webhook&filters[state][IN]=SUCCESS&size=1"
    method: GET
    headers:
      Authorization: "Bearer {{ secret('KESTRA_API_TOKEN') }}"

  - id: maybe_skip
    type: io.kestra.plugin.core.flow.If
    condition: "{{ not (outputs.check_existing.body contains '\"total\":0') }}"
    then:
      - id: skip
        type: io.kestra.plugin.core.log.Log
        message: "Duplicate {{ vars.idem_key }} skipped"
    else:
      - id: process_payment
        type: io.kestra.plugin.core.log.Log
        message: "Charge payment for {{ vars.idem_key }}"

triggers:
  - id: webhook
    type: io.kestra.plugin.core.trigger.Webhook
    key: payment-events
"#;

#[test]
fn the_payment_flows_compile_unchanged() {
    for source in [GUARDED, WEBHOOK] {
        let compiled = accept(source);
        assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
        let kept: Vec<_> = flat(&compiled.flow.tasks).into_iter().filter(|task| task.keep_output).collect();
        assert_eq!(kept.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["check_existing"]);
    }
    let flow = accept(WEBHOOK).flow;
    assert_eq!(flow.variables["idem_key"], "{{ trigger.headers['Idempotency-Key'] | first }}");
    let TaskKind::If { condition, .. } = &flow.tasks[2].kind else { panic!("{:?}", flow.tasks[2]) };
    assert_eq!(condition, r#"{{ not (outputs.check_existing.body contains '"total":0') }}"#);
}

fn flat(tasks: &[Task]) -> Vec<&Task> {
    let mut all = Vec::new();
    for task in tasks {
        all.push(task);
        if let TaskKind::If { then, otherwise, .. } = &task.kind {
            all.extend(flat(then));
            all.extend(flat(otherwise));
        }
    }
    all
}

#[test]
fn keep_output_follows_the_expressions() {
    let kept = |second: &str| {
        let source = tasks(&format!(
            "  - id: a\n    type: debug.Return\n    format: x\n  - id: b\n    type: debug.Return\n    format: \"{second}\"\n"
        ));
        accept(&source).flow.tasks.iter().map(|task| task.keep_output).collect::<Vec<_>>()
    };
    assert_eq!(kept("plain"), [false, false]);
    assert_eq!(kept("{{ outputs.a.value }}"), [true, false]);
    assert_eq!(kept("{{ outputs['a'].value }}"), [true, false]);
    assert_eq!(kept("{{ outputs[flow.id].value }}"), [true, true]);
    assert_eq!(kept("{{ outputs | toJson }}"), [true, true]);
    assert_eq!(kept("{{ parents[0].outputs }}"), [true, true]);
    assert_eq!(kept("{{ trigger.outputs }}"), [false, false]);
    let flow = accept(&with("outputs:\n  - id: o\n    value: \"{{ outputs.a }}\"\n")).flow;
    assert!(flow.tasks[0].keep_output);
}

#[test]
fn lanes() {
    let lane = |text: &str| accept(&with(text)).flow.lane.expect("a lane");
    assert_eq!(lane("concurrency: {limit: 2}\n").busy, Busy::Queue { max: 100_000 });
    assert_eq!(lane("concurrency: {limit: 2}\n").limit, 2);
    assert_eq!(lane("concurrency: {limit: 1, behavior: CANCEL}\n").busy, Busy::Cancel);
    assert_eq!(lane("concurrency: {limit: 1, behavior: FAIL}\n").busy, Busy::Fail);
    assert_eq!(lane("lane: {key: x}\n").limit, 1);
    for (word, busy) in [
        ("queue", Busy::Queue { max: 100_000 }),
        ("replace", Busy::Replace),
        ("coalesce", Busy::Coalesce { quiet_ms: 5_000, max_ms: 60_000 }),
        ("deliver", Busy::Deliver),
        ("reject", Busy::Reject),
        ("parallel", Busy::Parallel),
        ("{queue: {max: 10}}", Busy::Queue { max: 10 }),
        ("{coalesce: {quiet: PT2M}}", Busy::Coalesce { quiet_ms: 120_000, max_ms: 120_000 }),
        ("{replace: }", Busy::Replace),
    ] {
        assert_eq!(lane(&format!("lane: {{busy: {word}}}\n")).busy, busy, "{word}");
    }
}

#[test]
fn idempotency_windows_and_scopes() {
    let block = |text: &str| {
        accept(&with(&format!("idempotency: {{key: \"{{{{ trigger.key }}}}\", {text}}}\n")))
            .flow
            .idempotency
            .expect("a block")
    };
    let hour = |from| Some(Window::For { from, duration_ms: 3_600_000 });
    assert_eq!(block("window: PT1H").window, hour(WindowFrom::Completed));
    for preset in ["trigger", "ietf", "stripe_v1"] {
        assert_eq!(block(&format!("preset: {preset}, window: PT1H")).window, hour(WindowFrom::FirstSeen));
    }
    assert_eq!(block("preset: ietf, window: {from: completed, duration: PT1H}").window, hour(WindowFrom::Completed));
    assert_eq!(block("window: forever").window, Some(Window::Forever));
    assert_eq!(block("window: while_live").window, Some(Window::WhileLive));
    assert_eq!(block("strict: true").window, None);
    assert_eq!(block("scope: workspace").scope, KeyScope::Workspace);
    assert_eq!(block("scope: \"group:a-b\"").scope, KeyScope::Group("a-b".to_owned()));
}

#[test]
fn old_names_of_types() {
    let source = tasks(
        "  - id: a\n    type: io.kestra.core.tasks.flows.EachParallel\n    value: '[1]'\n    tasks: [{id: b, type: io.kestra.core.tasks.log.Log, message: x}]\n  - id: c\n    type: flow.EachSequential\n    value: [1]\n    tasks: [{id: d, type: log.Log, message: x}]\n",
    );
    let flow = accept(&source).flow;
    let found: Vec<_> = flow
        .tasks
        .iter()
        .map(|task| match &task.kind {
            TaskKind::ForEach { concurrent, group, .. } => {
                (task.type_name.as_str(), *concurrent, group.tasks[0].type_name.as_str())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, [("flow.ForEach", 0, "log.Log"), ("flow.ForEach", 1, "log.Log")]);
    let source =
        with("triggers:\n  - id: s\n    type: io.kestra.core.models.triggers.types.Schedule\n    cron: '@daily'\n");
    assert!(matches!(accept(&source).flow.triggers[0].kind, TriggerKind::Schedule { .. }));
}

#[test]
fn scalars_keep_what_the_author_wrote() {
    let flow = accept(&with("variables: {a: yes, b: 1.5, c: 0x10, d: ~, e: 12:30, f: !!str 7, g: 'null'}\n")).flow;
    assert_eq!(
        flow.variables,
        serde_json::json!({"a": "yes", "b": 1.5, "c": 16, "d": null, "e": "12:30", "f": "7", "g": "null"})
    );
    let source = tasks(
        "  - id: a\n    type: http.Request\n    uri: http://x\n    headers: {V: 1.10, N: }\n    retries: 3\n    options: {allowFailed: \"{{ flow.id }}\"}\n",
    );
    let TaskKind::Leaf { config, .. } = &accept(&source).flow.tasks[0].kind else { panic!("a leaf") };
    assert_eq!(
        *config,
        serde_json::json!({"uri": "http://x", "headers": {"V": "1.10"}, "retries": 3, "options": {"allowFailed": "{{ flow.id }}"}})
    );
}

#[test]
fn diagnostics_as_json() {
    let Err(found) = crate::check("id: f\nnamespace: n\ntaks: []\n") else { panic!("a typo was accepted") };
    let json = found.last().expect("one").to_json();
    assert_eq!(json["code"], "unknown_field");
    assert_eq!((json["line"].as_u64(), json["column"].as_u64()), (Some(3), Some(1)));
    assert_eq!(json["suggestion"], "did you mean `tasks`?");
}

#[test]
fn handlers_and_cases_may_be_empty() {
    let source = with("errors: []\nfinally:\n");
    assert!(accept(&source).flow.errors.is_empty());
    let switch = |defaults: &str| {
        let text = format!("  - id: s\n    type: flow.Switch\n    value: x\n    cases: {{a: []}}\n{defaults}");
        match accept(&tasks(&text)).flow.tasks[0].kind.clone() {
            TaskKind::Switch { defaults, .. } => defaults,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(switch("    defaults: []\n"), Some(Vec::new()));
    assert_eq!(switch("    defaults:\n"), None);
}

#[test]
fn windows_line_ends_and_a_byte_order_mark() {
    let source = with("description: |\r\n  two\r\n  lines\r\n").replace("\r\n", "\n").replace('\n', "\r\n");
    assert_eq!(accept(&source).flow.description.as_deref(), Some("two\nlines\n"));
    assert_eq!(accept(&format!("\u{feff}{}", with(""))).flow.id, "f");
    let broken = tasks("  - id: a\n    type: log.Log\n    message: |\n      é one\n      {{ x | nope }}\n")
        .replace('\n', "\r\n");
    assert_eq!(crate::codes(&broken), ["bad_template 8:14"]);
}

#[test]
fn conditions_of_every_age_and_dates() {
    let source = with(
        r#"triggers:
  - id: s
    type: io.kestra.core.models.triggers.types.Schedule
    cron: "0 9 * * *"
    scheduleConditions:
      - type: io.kestra.core.models.conditions.types.NotCondition
        conditions:
          - type: io.kestra.core.models.conditions.types.WeekendCondition
    conditions:
      - type: io.kestra.plugin.core.condition.DayWeekInMonth
        dayOfWeek: MONDAY
        dayInMonth: FIRST
    when: "{{ kv('go') }}"
  - id: d
    type: io.kestra.plugin.core.trigger.ScheduleOnDates
    timezone: Europe/Berlin
    dates: ["2026-05-01T09:00:00", "2026-04-01T00:00:00Z", "2026-04-01T02:00:00+02:00"]
"#,
    );
    let flow = accept(&source).flow;
    let date = || "{{ trigger.date }}".to_owned();
    let expected = [
        Condition::DayWeekInMonth { date: date(), day: DayOfWeek::Monday, place: DayInMonth::First },
        Condition::Not { conditions: vec![Condition::Weekend { date: date() }] },
        Condition::When { expression: "{{ kv('go') }}".to_owned() },
    ];
    assert_eq!(flow.triggers[0].conditions, expected);
    let TriggerKind::ScheduleOnDates { dates, .. } = &flow.triggers[1].kind else { panic!("not on dates") };
    let dates: Vec<String> = dates.iter().map(|at| at.to_rfc3339()).collect();
    assert_eq!(dates, ["2026-04-01T00:00:00.000Z", "2026-05-01T07:00:00.000Z"]);
}

#[test]
fn a_flow_trigger_with_all_it_may_have() {
    let source = with(
        r#"triggers:
  - id: up
    type: io.kestra.plugin.core.trigger.Flow
    states: [SUCCESS, PAUSED]
    conditions:
      - type: io.kestra.plugin.core.condition.ExecutionNamespaceCondition
        namespace: shop
        prefix: true
      - type: io.kestra.plugin.core.condition.ExecutionLabels
        labels: {system.correlationId: x}
    preconditions:
      id: both
      flows:
        - {namespace: shop, flowId: a}
        - {namespace: shop, states: [FAILED], labels: {team: red}}
      where:
        - id: any
          operand: OR
          filters: [{field: EXPRESSION, type: IS_TRUE, value: "{{ trigger.outputs.n > 1 }}"}]
      timeWindow: {type: DAILY_TIME_WINDOW, startTime: "06:00:00", endTime: "09:00"}
"#,
    );
    let flow = accept(&source).flow;
    let trigger = &flow.triggers[0];
    let TriggerKind::Flow { states, preconditions: Some(both) } = &trigger.kind else { panic!("not a flow trigger") };
    assert_eq!(states, &["SUCCESS", "PAUSED"]);
    assert_eq!(trigger.conditions.len(), 2);
    let names: Vec<&String> = both.conditions.keys().collect();
    assert_eq!(names, ["condition_1", "condition_2", "condition_3_any"]);
    assert_eq!(both.window, TimeWindow::DailyTimeWindow { start_ms: 6 * 3_600_000, end_ms: 9 * 3_600_000 });
    assert!(both.reset_on_success);
    let bare = accept(&with("triggers:\n  - {id: up, type: trigger.Flow}\n")).flow;
    let TriggerKind::Flow { states, .. } = &bare.triggers[0].kind else { panic!("not a flow trigger") };
    assert_eq!(states, HEARD_STATES);
}

#[test]
fn what_changes_nothing_is_said() {
    let source = tasks(
        "  - id: a\n    type: flow.Sequential\n    timeout: PT1S\n    tasks:\n      - {id: b, type: log.Log, message: x, logToFile: true, workerGroup: {key: gpu}}\n",
    );
    let warned: Vec<_> = accept(&source).warnings.iter().map(|one| (one.code, one.span.line)).collect();
    assert_eq!(warned, [("no_effect", 6), ("no_effect", 8), ("no_effect", 8)]);
}

#[test]
fn what_a_flow_trigger_depends_on() {
    let of = |more: &str| {
        let text = "triggers:\n  - id: up\n    type: trigger.Flow\n    dependsOn:\n      - {namespace: shop, flowId: orders, states: [SUCCESS]}\n      - {flowId: stock, when: \"{{ trigger.outputs.n > 1 }}\"}\n";
        let trigger = accept(&with(&format!("{text}{more}"))).flow.triggers.remove(0);
        let TriggerKind::Flow { preconditions, .. } = trigger.kind else { panic!("not a flow trigger") };
        (preconditions, trigger.conditions)
    };
    let (all, conditions) = of("");
    let all = all.expect("preconditions");
    assert_eq!((all.id.as_str(), all.reset_on_success, conditions.len()), ("depends_on_up", true, 0));
    assert!(matches!(&all.conditions["condition_2"], Condition::Not { conditions } if conditions.len() == 2));
    let hour = 3_600_000;
    for (window, expected, once) in [
        ("{deadline: '09:00:00'}", TimeWindow::DailyTimeDeadline { deadline_ms: 9 * hour }, false),
        ("{from: '06:00', to: '07:00'}", TimeWindow::DailyTimeWindow { start_ms: 6 * hour, end_ms: 7 * hour }, false),
        ("{lookback: PT2H, fireOnce: true}", TimeWindow::SlidingWindow { window_ms: 2 * hour }, true),
        ("{every: PT6H, offset: PT1H}", TimeWindow::DurationWindow { window_ms: 6 * hour, advance_ms: hour }, false),
    ] {
        let (all, _) = of(&format!("    window: {window}\n"));
        let all = all.expect("preconditions");
        assert_eq!((all.window, all.reset_on_success), (expected, once), "{window}");
    }
    let (none, any) = of("    mode: ANY\n");
    assert!(none.is_none());
    assert!(matches!(&any[..], [Condition::Or { conditions }] if conditions.len() == 2));
}

#[test]
fn a_file_of_items_is_three_tasks() {
    let each = tasks(
        "  - id: each\n    type: io.kestra.plugin.core.flow.ForEachItem\n    items: \"{{ inputs.file }}\"\n    batch: {rows: 2}\n    namespace: shop\n    flowId: order\n    inputs: {part: \"{{ taskrun.items }}\"}\n    errors:\n      - {id: tell, type: log.Log, message: no}\n  - {id: last, type: log.Log, message: \"{{ outputs.each_items.numberOfBatches }}\"}\n",
    );
    let flow = accept(&each).flow;
    let TaskKind::Sequential(group) = &flow.tasks[0].kind else { panic!("{:?}", flow.tasks[0]) };
    assert_eq!((flow.tasks[0].type_name.as_str(), group.errors.len()), ("flow.ForEachItem", 1));
    let ids: Vec<(&str, bool)> = group.tasks.iter().map(|task| (task.id.as_str(), task.keep_output)).collect();
    assert_eq!(ids, [("each_split", true), ("each_items", true), ("each_merge", false)]);
    let TaskKind::Batches(spec) = &group.tasks[1].kind else { panic!("{:?}", group.tasks[1]) };
    assert_eq!((spec.split.as_str(), spec.subflow.flow_id.as_str(), spec.subflow.wait), ("each_split", "order", true));
}

#[test]
fn a_cache_is_kept_only_where_it_is_switched_on() {
    let cached = |cache: &str| {
        let text = format!("  - {{id: a, type: http.Request, uri: \"http://a\", taskCache: {cache}}}\n");
        accept(&tasks(&text)).flow.tasks[0].cache.clone().map(|cache| cache.ttl_ms)
    };
    assert_eq!(cached("{enabled: true, ttl: PT1H}"), Some(Some(3_600_000)));
    assert_eq!(cached("{enabled: true}"), Some(None));
    assert_eq!(cached("{enabled: false, ttl: PT1H}"), None);
}

#[test]
fn a_working_directory_is_given_its_files_by_a_task_of_its_own() {
    let text = "  - id: dir\n    type: flow.WorkingDirectory\n    inputFiles: {a.txt: hello}\n    outputFiles: \"*.txt\"\n    tasks:\n      - {id: say, type: log.Log, message: hi}\n";
    let flow = accept(&tasks(text)).flow;
    let TaskKind::WorkingDirectory { output_files, group } = &flow.tasks[0].kind else { panic!("a directory") };
    let ids: Vec<&str> = group.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!((ids, output_files.as_slice()), (vec!["dir.files", "say"], &["*.txt".to_owned()][..]));
}

#[test]
fn inputs_of_a_form_have_its_id_before_their_own() {
    let flow = accept(&with(
        "inputs:\n  - id: cloud\n    type: FORM\n    displayName: Cloud\n    inputs:\n      - {id: provider, type: SELECT, values: [a, b]}\n      \
         - id: region\n        type: SELECT\n        expression: \"{{ kv(inputs.cloud.provider) }}\"\n        dependsOn: {inputs: [cloud.provider, nobody], condition: \"{{ inputs.cloud.provider == 'a' }}\"}\n",
    ));
    let inputs = &flow.flow.inputs;
    assert_eq!(inputs.iter().map(|input| input.id.as_str()).collect::<Vec<_>>(), ["cloud.provider", "cloud.region"]);
    let depends = inputs[1].depends_on.as_ref().expect("it depends on another");
    assert_eq!(depends.inputs, ["cloud.provider"], "what is not there is left out");
    assert_eq!(depends.condition.as_deref(), Some("{{ inputs.cloud.provider == 'a' }}"));
    assert_eq!((inputs[1].expression.as_deref(), &inputs[1].values), (Some("{{ kv(inputs.cloud.provider) }}"), &None));
    assert_eq!(flow.warnings.iter().map(|found| found.code).collect::<Vec<_>>(), ["unknown_input"]);
}

#[test]
fn inputs_of_a_pause_see_each_other() {
    let pause = "  - id: p\n    type: flow.Pause\n    onResume:\n      - {id: ok, type: BOOL}\n      - {id: why, type: STRING, dependsOn: {inputs: [ok], condition: \"{{ not inputs.ok }}\"}}\n";
    assert!(accept(&tasks(pause)).warnings.is_empty());
}

#[test]
fn a_holiday_is_one_of_a_country() {
    let flow = accept(&with(
        "triggers:\n  - id: s\n    type: trigger.Schedule\n    cron: '@daily'\n    conditions:\n      \
         - {type: io.kestra.core.models.conditions.types.PublicHolidayCondition, country: fr}\n      - {type: condition.PublicHoliday, country: \"{{ vars.country }}\"}\nvariables: {country: DE}\n",
    ));
    let countries: Vec<&str> = flow.flow.triggers[0]
        .conditions
        .iter()
        .map(|condition| match condition {
            Condition::PublicHoliday { country, .. } => country.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(countries, ["FR", "{{ vars.country }}"]);
}

#[test]
fn a_trigger_in_kestra_s_names_may_name_an_input_that_is_not_there() {
    let trigger =
        "triggers:\n  - {id: s, type: io.kestra.plugin.core.trigger.Schedule, cron: '@daily', inputs: {user: a}}\n";
    let flow = accept(&with(trigger));
    assert_eq!(flow.warnings.iter().map(|found| found.code).collect::<Vec<_>>(), ["unknown_input"]);
}

#[test]
fn a_working_directory_begins_with_files_of_the_namespace() {
    let dir = "  - id: dir\n    type: flow.WorkingDirectory\n    namespaceFiles: {include: ['*.sql'], ifExists: warn}\n    \
        tasks:\n      - {id: say, type: log.Log, message: hi}\n";
    let flow = accept(&tasks(dir)).flow;
    let TaskKind::WorkingDirectory { group, .. } = &flow.tasks[0].kind else { panic!("{:?}", flow.tasks[0]) };
    let TaskKind::Leaf { config, .. } = &group.tasks[0].kind else { panic!("{:?}", group.tasks[0]) };
    let expected = serde_json::json!({"namespaceFiles": {"include": ["*.sql"], "ifExists": "WARN"}});
    assert_eq!((group.tasks[0].id.as_str(), config), ("dir.files", &expected));
}

#[test]
fn a_schedule_at_midnight_is_a_daily_one() {
    let flow = accept(&with("triggers:\n  - {id: t, type: trigger.Schedule, cron: \"@midnight\"}\n")).flow;
    let TriggerKind::Schedule { cron, .. } = &flow.triggers[0].kind else { panic!("not a schedule") };
    assert_eq!(cron, "@daily");
}
