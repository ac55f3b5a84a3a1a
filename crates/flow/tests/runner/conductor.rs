//! Conductor definitions: the IR they give, and what is said about those with mistakes.

use proptest::prelude::*;
use proptest::sample::select;
use semel_core::ir::{Flow, is_companion};
use semel_core::limits::Limits;
use semel_flow::conductor::{compile, compile_text};
use serde_json::{Value as Json, json};

fn flows(text: &str) -> Vec<Flow> {
    let compiled = compile_text(text, &Limits::default()).unwrap_or_else(|found| panic!("{found:#?}"));
    std::iter::once(compiled.flow).chain(compiled.inner).collect()
}

/// What is said, as `path: message`.
fn said(definition: &Json) -> Vec<String> {
    let found = compile(definition, &Limits::default()).map(|_| ()).expect_err("is refused");
    found.into_iter().map(|violation| format!("{}: {}", violation.path, violation.message)).collect()
}

fn with_tasks(tasks: Json) -> Json {
    json!({"name": "w", "tasks": tasks})
}

macro_rules! golden {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            let flows = flows(include_str!(concat!("conductor/", stringify!($name), ".json")));
            let json = serde_json::to_string_pretty(&flows).expect("the IR is JSON");
            let again: Vec<Flow> = serde_json::from_str(&json).expect("the IR is read back");
            assert_eq!(again, flows);
            insta::with_settings!({snapshot_path => "conductor", prepend_module_to_snapshot => false}, {
                insta::assert_snapshot!(stringify!($name), json);
            });
        }
    )*};
}

golden!(order, choices, forks, loops, starts, dynamic, events);

#[test]
fn one_file_for_each_golden_definition() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runner/conductor");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
    let (definitions, snapshots): (Vec<String>, Vec<String>) = names.partition(|name| name.ends_with(".json"));
    assert_eq!(definitions.len(), snapshots.len());
}

#[test]
fn the_identity_of_a_flow_is_its_name_and_version() {
    let flow =
        flows(r#"{"name": "a b", "version": "3", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]}"#)
            .remove(0);
    assert_eq!((flow.namespace.as_str(), flow.id.as_str()), ("conductor", "a b@3"));
}

/// Conductor looks at the expressions of a workflow, and not at those of a definition inside it, which see its own tasks.
#[test]
fn a_definition_inside_another_one_may_name_tasks_that_it_does_not_have() {
    let noop =
        |input: &str| json!({"name": "n", "taskReferenceName": "n", "type": "NOOP", "inputParameters": {"x": input}});
    let sub = |input: &str| {
        json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam":
            {"name": "inner", "workflowDefinition": {"name": "inner", "tasks": [noop(input)]}}})
    };
    let compiled = compile(&with_tasks(json!([sub("${outside.output.x}")])), &Limits::default()).expect("is taken");
    assert_eq!(compiled.inner.len(), 1);
    let own = "tasks[0].inputParameters.x: taskReferenceName: outside for given task: n input value: x of input parameter: ${outside.output.x} is not defined in workflow definition.";
    assert_eq!(said(&with_tasks(json!([noop("${outside.output.x}")]))), [own]);
}

/// Clients that build workflows in code register such forks; Conductor fails them when a workflow gets there.
#[test]
fn a_fork_without_its_join_is_an_end() {
    let fork = json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN",
        "forkTasks": [[{"name": "x", "taskReferenceName": "x"}]]});
    let flow = flows(&with_tasks(json!([fork])).to_string()).remove(0);
    let steps = serde_json::to_string(&flow.tasks).expect("the IR is JSON");
    assert!(steps.contains("Fork task definition is not followed by a join task.  Check the blueprint"), "{steps}");
    assert!(steps.contains("FAILED") && !steps.contains("\"x\""), "{steps}");
}

#[test]
fn companions_are_told_from_tasks() {
    for text in [include_str!("conductor/order.json"), include_str!("conductor/choices.json")] {
        for task in &flows(text)[0].tasks {
            assert_eq!(task.conductor.is_none(), is_companion(&task.id), "{}", task.id);
        }
    }
}

#[test]
fn a_definition_says_who_it_is_and_what_it_does() {
    assert_eq!(
        said(&json!({"tasks": [], "schemaVersion": 1})),
        [
            "name: WorkflowDef name cannot be null or empty",
            "tasks: WorkflowTask list cannot be empty",
            "schemaVersion: workflowDef schemaVersion: 2 is only supported",
        ]
    );
    assert_eq!(
        said(&json!({"name": "a@b", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]})),
        [
            "name: Invalid name 'a@b'. Allowed characters are alphanumeric, underscores, spaces, hyphens, and special characters like <, >, {, }, #"
        ]
    );
    let mut cached = with_tasks(json!([{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]));
    cached["cacheConfig"] = json!({"key": "${workflow.input.x}"});
    let missing =
        "cacheConfig.ttlInSecond: cacheConfig needs a `key` over the input, and `ttlInSecond`: no ttlInSecond";
    assert_eq!(said(&cached), [missing]);
    cached["cacheConfig"]["ttlInSecond"] = json!(5);
    let own = flows(&cached.to_string()).remove(0).conductor.expect("a workflow");
    assert_eq!(own.cache.map(|cache| (cache.key, cache.ttl_ms)), Some(("${workflow.input.x}".to_owned(), 5_000)));
    assert_eq!(said(&json!([])), [": an object is expected here, not a list"]);
    let broken = compile_text("{\"name\": }", &Limits::default()).map(|_| ()).expect_err("is refused");
    assert_eq!(broken[0].message, "the definition is not JSON: expected value at line 1 column 10");
}

#[test]
fn wrong_shapes_are_told_with_their_path() {
    let definition = json!({
        "name": "w", "version": -1, "restartable": "yes", "timeoutPolicy": "NEVER", "outputParameters": [],
        "tasks": [
            {"name": "sw", "taskReferenceName": "sw", "type": "SWITCH", "evaluatorType": "value-param", "expression": "x",
             "decisionCases": {"a": [{"name": [], "taskReferenceName": "in_a", "inputParameters": "no"}]}},
            7,
        ],
    });
    assert_eq!(
        said(&definition),
        [
            "timeoutPolicy: `NEVER` is not a timeoutPolicy: TIME_OUT_WF or ALERT_ONLY",
            "version: a whole number, 0 or more, is expected here, not this number",
            "tasks[0].decisionCases['a'][0].name: a text is expected here, not a list",
            "tasks[0].decisionCases['a'][0].inputParameters: an object is expected here, not this text",
            "tasks[1]: an object is expected here, not this number",
            "outputParameters: an object is expected here, not a list",
            "restartable: true or false is expected here, not this text",
            "tasks[0].decisionCases['a'][0].name: WorkflowTask name cannot be empty or null",
        ]
    );
}

#[test]
fn each_task_type_has_its_rules() {
    let one = |extra: Json| {
        let mut task = json!({"name": "t", "taskReferenceName": "r"});
        for (name, value) in extra.as_object().expect("fields") {
            task[name] = value.clone();
        }
        said(&with_tasks(json!([task])))
    };
    for (extra, message) in [
        (json!({"type": "SWITCH"}), "tasks[0]: evaluatorType field is required for taskType: SWITCH taskName: t"),
        (
            json!({"type": "SWITCH", "evaluatorType": "value-param", "expression": "x", "decisionCases": {}}),
            "tasks[0]: decisionCases should have atleast one task for taskType: SWITCH taskName: t",
        ),
        (
            json!({"type": "SWITCH", "evaluatorType": "python", "expression": "x", "decisionCases": {"a": []}}),
            "tasks[0].evaluatorType: Unknown evaluator 'python' in SWITCH task. There are value-param and javascript",
        ),
        (
            json!({"type": "DECISION", "decisionCases": {"a": []}}),
            "tasks[0]: caseValueParam or caseExpression field is required for taskType: DECISION taskName: t",
        ),
        (json!({"type": "DO_WHILE"}), "tasks[0]: loopCondition field is required for taskType: DO_WHILE taskName: t"),
        (
            json!({"type": "DYNAMIC"}),
            "tasks[0]: dynamicTaskNameParam field is required for taskType: DYNAMIC taskName: t",
        ),
        (
            json!({"type": "HTTP"}),
            "tasks[0]: inputParameters.http_request or inputParameters.uri field is required for taskType: HTTP taskName: t",
        ),
        (
            json!({"type": "JSON_JQ_TRANSFORM"}),
            "tasks[0]: inputParameters.queryExpression field is required for taskType: JSON_JQ_TRANSFORM taskName: t",
        ),
        (
            json!({"type": "SUB_WORKFLOW"}),
            "tasks[0]: subWorkflowParam field is required for taskType: SUB_WORKFLOW taskName: t",
        ),
        (
            json!({"type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "x", "idempotencyStrategy": "MAYBE"}}),
            "tasks[0].subWorkflowParam.idempotencyStrategy: `MAYBE` is not an idempotencyStrategy: FAIL, RETURN_EXISTING or FAIL_ON_RUNNING",
        ),
        (
            json!({"type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "x", "workflowDefinition": "another"}}),
            "tasks[0].subWorkflowParam.workflowDefinition: a workflow definition is expected here",
        ),
        (
            json!({"type": "WAIT", "inputParameters": {"duration": "5s", "until": "2030-01-01"}}),
            "tasks[0]: Both 'duration' and 'until' specified. Please provide only one input",
        ),
        (
            json!({"type": "WAIT", "inputParameters": {"duration": "PT5S"}}),
            "tasks[0].inputParameters.duration: Not valid duration: PT5S",
        ),
        (
            json!({"type": "TERMINATE", "inputParameters": {"terminationStatus": "GONE"}}),
            "tasks[0]: terminate task must have an terminationStatus parameter and must be set to COMPLETED or FAILED, taskName: t",
        ),
        (
            json!({"type": "TERMINATE", "optional": true, "inputParameters": {"terminationStatus": "FAILED"}}),
            "tasks[0]: terminate task cannot be optional, taskName: t",
        ),
        (
            json!({"type": "JOIN", "joinOn": ["nobody"]}),
            "tasks[0].joinOn: taskReferenceName: nobody of joinOn is not defined in workflow definition.",
        ),
        (
            json!({"inputParameters": {"a": [{"b": "x ${nobody.output.y}"}]}}),
            "tasks[0].inputParameters.b: taskReferenceName: nobody for given task: t input value: b of input parameter: x ${nobody.output.y} is not defined in workflow definition.",
        ),
        (
            json!({"onStateChange": {"onStart,onEnd": []}}),
            "tasks[0].onStateChange['onStart,onEnd']: `onStart,onEnd` is no state that is told of: onScheduled, onStart, onSuccess, onFailed or onCancelled, or several with commas",
        ),
        (
            json!({"cacheConfig": {"key": "${x}"}}),
            "tasks[0].cacheConfig.ttlInSecond: cacheConfig needs a `key` over the input, and `ttlInSecond`: no ttlInSecond",
        ),
        (
            json!({"type": "NOOP", "cacheConfig": {"key": "k", "ttlInSecond": 5}}),
            "tasks[0].cacheConfig: cacheConfig is for tasks that ask somebody: SIMPLE, HTTP, INLINE, LAMBDA, JSON_JQ_TRANSFORM",
        ),
        (
            json!({"taskDefinition": {"enforceSchema": true, "inputSchema": {"data": {"type": "text"}}}}),
            "tasks[0].taskDefinition.inputSchema: data/type: `type` is one of null, boolean, object, array, number, integer, string, or a list of them",
        ),
        (json!({"type": "EVENT"}), "tasks[0]: sink field is required for taskType: EVENT taskName: t"),
        (
            json!({"type": "EVENT", "sink": "kafka:orders"}),
            "tasks[0].sink: `kafka:orders`: there are the sinks `conductor`, `conductor:name` and `nats:subject`; other queues outside (kafka:, sqs:, amqp:) are not built, send to them with an HTTP task",
        ),
        (
            json!({"type": "EVENT", "sink": "nats:$JS.API.STREAM.DELETE.ORDERS"}),
            "tasks[0].sink: `$JS.API.STREAM.DELETE.ORDERS`: subjects of `$` and `_INBOX` are the server's own",
        ),
        (
            json!({"type": "WAIT", "inputExpression": {"expression": "workflow.input"}}),
            "tasks[0].inputExpression: inputExpression is not built for WAIT; use inputParameters",
        ),
        (
            json!({"inputExpression": {"expression": "x", "type": "XPATH"}}),
            "tasks[0].inputExpression.type: `XPATH` is not a type of inputExpression: JSON_PATH",
        ),
        (
            json!({"type": "START_WORKFLOW", "inputParameters": {"startWorkflow": 7}}),
            "tasks[0].inputParameters.startWorkflow: startWorkflow must be an object, or an expression that gives one",
        ),
        (
            json!({"type": "HTTP_POLL", "inputParameters": {"uri": "http://far", "method": "GET", "terminationCondition": "true", "pollingStrategy": "RANDOM"}}),
            "tasks[0].inputParameters.pollingStrategy: `RANDOM` is not a pollingStrategy: FIXED, LINEAR_BACKOFF or EXPONENTIAL_BACKOFF",
        ),
    ] {
        assert_eq!(one(extra.clone()).first().map(String::as_str), Some(message), "{extra}");
    }
    let unknown = one(json!({"type": "BUSINESS_RULE"}));
    assert!(
        unknown[0].starts_with("tasks[0].type: the task type BUSINESS_RULE is not built; there are SIMPLE, HTTP"),
        "{unknown:?}"
    );
}

fn kafka(more: Json) -> Json {
    let mut task = json!({"name": "t", "taskReferenceName": "t", "type": "KAFKA_PUBLISH"});
    for (name, value) in more.as_object().into_iter().flatten() {
        task[name] = value.clone();
    }
    with_tasks(json!([task]))
}

#[cfg(not(feature = "kafka"))]
#[test]
fn kafka_is_refused_by_a_build_without_it() {
    assert_eq!(
        said(&kafka(json!({"inputParameters": {"kafka_request": {}}}))),
        [
            "tasks[0].type: the task type KAFKA_PUBLISH is not in this build of Semel: build it with `--features kafka`, or send to Kafka with an HTTP task, through a REST proxy of it"
        ]
    );
}

#[cfg(feature = "kafka")]
#[test]
fn kafka_is_an_effect_of_its_own() {
    use semel_core::ir::{LeafMode, TaskKind};
    assert_eq!(
        said(&kafka(json!({}))),
        ["tasks[0]: inputParameters.kafka_request field is required for taskType: KAFKA_PUBLISH taskName: t"]
    );
    let steps = |more: Json| {
        let mut definition = kafka(more);
        definition["tasks"][0]["inputParameters"] = json!({"kafka_request": {"topic": "${workflow.input.t}"}});
        let flow = flows(&definition.to_string()).remove(0);
        let told = |step: semel_core::ir::Task| (step.id, step.type_name, step.kind);
        flow.tasks.into_iter().map(told).collect::<Vec<_>>()
    };
    let config = json!({"kafka_request": {"topic": "${workflow.input.t}"}});
    let sends = || TaskKind::Leaf { mode: LeafMode::Effect, config: config.clone() };
    let kind = || "conductor.KAFKA_PUBLISH".to_owned();
    assert_eq!(steps(json!({})), [("t".to_owned(), kind(), sends())]);
    let later = steps(json!({"asyncComplete": true}));
    assert_eq!(later[0], ("t~call".to_owned(), kind(), sends()));
    assert_eq!((later.len(), later[1].0.as_str()), (2, "t"));
}

#[test]
fn reference_names_are_unique_wherever_they_stand() {
    let task = |name: &str| json!({"name": "t", "taskReferenceName": name, "type": "NOOP"});
    let fork =
        json!({"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[task("a")], [task("a")]]});
    let join = json!({"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["a"]});
    assert_eq!(
        said(&with_tasks(json!([fork, join, task("workflow")]))),
        [
            "tasks[0].forkTasks[1][0].taskReferenceName: taskReferenceName: a should be unique across tasks for a given workflowDefinition: w",
            "tasks[2].taskReferenceName: taskReferenceName: workflow means the workflow itself in expressions; take another",
        ]
    );
}

#[test]
fn a_mistake_inside_an_inner_definition_is_told_with_its_whole_path() {
    let sub = json!({"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"workflowDefinition": {"name": "inner", "tasks": [{"name": "x", "taskReferenceName": "x", "type": "NO"}]}}});
    let found = said(&with_tasks(json!([sub])));
    assert!(
        found[0].starts_with("tasks[0].subWorkflowParam.workflowDefinition.tasks[0].type: the task type NO"),
        "{found:?}"
    );
}

#[test]
fn a_definition_has_limits() {
    let limits = Limits { flow_bytes_max: 100, ..Limits::default() };
    let text = format!("{{\"name\": \"w\"}}{}", " ".repeat(88));
    assert!(compile_text(&text[..100], &limits).is_err_and(|found| found[0].path == "tasks"));
    assert!(compile_text(&text, &limits).is_err_and(|found| found[0].message.contains("may have 100 bytes")));
}

const FIELDS: &[&str] = &[
    "name",
    "taskReferenceName",
    "type",
    "tasks",
    "version",
    "inputParameters",
    "decisionCases",
    "defaultCase",
    "expression",
    "evaluatorType",
    "forkTasks",
    "joinOn",
    "loopOver",
    "loopCondition",
    "items",
    "subWorkflowParam",
    "workflowDefinition",
    "startWorkflow",
    "http_request",
    "taskDefinition",
    "retryCount",
    "startDelay",
    "optional",
    "rateLimitConfig",
    "a",
];
const WORDS: &[&str] = &[
    "SIMPLE",
    "SWITCH",
    "DO_WHILE",
    "FORK_JOIN",
    "JOIN",
    "FORK_JOIN_DYNAMIC",
    "SUB_WORKFLOW",
    "START_WORKFLOW",
    "HTTP_POLL",
    "TERMINATE",
    "value-param",
    "javascript",
    "a",
    "b",
    "${a.output.x}",
    "${",
    "]~[",
];

fn anything() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        select(WORDS).prop_map(Json::from),
    ];
    scalar.prop_recursive(7, 120, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            proptest::collection::btree_map(select(FIELDS), inner, 0..9)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_definition_makes_it_panic(definition in anything()) {
        let _ = compile(&definition, &Limits::default());
        let _ = compile(&json!({"name": "w", "tasks": [definition]}), &Limits::default());
    }
}
