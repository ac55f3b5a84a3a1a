//! `http()` in expressions, from a flow's text to its end.

use super::world::{World, ok};
use semel_core::run::Status;
use semel_tasks::Outcome;
use serde_json::json;

fn flow(tasks: &str) -> String {
    format!("id: f\nnamespace: n\ntasks:\n{tasks}")
}

fn says(world: &mut World, answers: &'static [&'static str]) {
    world.answer = Box::new(move |request, before| {
        let body = if request.config["uri"] == "http://x/sink" { "" } else { answers[before.min(answers.len() - 1)] };
        ok(json!({"code": 200, "headers": {"content-type": ["application/json"]}, "body": body}))
    });
}

#[test]
fn an_expression_reads_and_goes_on_with_what_it_read() {
    let mut world = World::new();
    says(&mut world, &[r#"{"names": ["a", "b"]}"#]);
    let source = "  - {id: r, type: debug.Return, format: \"{{ http(uri = 'http://x/api', headers = {'Authorization': 'Bearer ' ~ secret('TOKEN')}) | jq('.names[]') | last }} {{ http('http://x/api', 'GET').names | length }}\"}\noutputs: [{id: said, value: \"{{ outputs.r.value }}\"}]\n";
    world.push(&flow(source));
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    world.run_down();
    assert_eq!((world.status(run), world.outputs(run)["said"].as_str()), (Status::Completed, Some("b 2")));
    let sent: Vec<_> = world.calls.iter().map(|call| &call.config["headers"]).collect();
    assert_eq!(
        sent,
        [
            &json!({"Authorization": "Bearer secret-canary", "Accept": "application/json"}),
            &json!({"Accept": "application/json"})
        ]
    );
    assert!(world.calls.iter().all(|call| call.config["method"] == "GET" && call.key.is_none()));
}

#[test]
fn what_was_decided_by_a_read_is_not_read_again() {
    let mut world = World::new();
    says(&mut world, &["1", "2", "3"]);
    let source = "  - {id: r, type: debug.Return, format: \"{{ http('http://x/api') }}{{ http('http://x/api') }}\"}\n  - {id: s, type: http.Request, method: POST, uri: \"http://x/sink\", body: \"{{ outputs.r.value }}\"}\noutputs: [{id: said, value: \"{{ outputs.r.value }} {{ http('http://x/api') }}\"}]\n";
    world.push(&flow(source));
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    world.restart();
    world.run_down();
    assert_eq!(world.outputs(run)["said"], json!("11 2"), "one answer to one request, and an evaluation of its own");
    assert_eq!((world.calls_to("/api"), world.calls_to("/sink")), (2, 1));
}

#[test]
fn what_cannot_be_read_fails_the_step() {
    let mut world = World::new();
    world.answer = Box::new(|_, _| Outcome::FailedClean {
        code: "http_status",
        message: "the far side answered 404".into(),
        output: None,
        retryable: false,
    });
    world.push(&flow("  - {id: r, type: debug.Return, format: \"{{ http('http://x/api') }}\"}\n"));
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    world.run_down();
    assert_eq!((world.status(run), world.calls.len()), (Status::Failed, 1));
    let failure = world.failure(run).to_string();
    assert!(failure.contains("404"), "{failure}");
}

#[test]
fn a_write_is_refused_before_anything_leaves() {
    let mut world = World::new();
    world.push(&flow("  - {id: r, type: debug.Return, format: \"{{ http('http://x/api', 'DELETE') }}\"}\n"));
    let run = world.admit("f", None, json!({})).run.unwrap().id;
    world.drain();
    world.run_down();
    assert_eq!((world.status(run), world.calls.len()), (Status::Failed, 0));
}
