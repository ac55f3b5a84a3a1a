//! Scripts in children: this program is the parent, and with the word `child` it is one of the children.

use semel_tasks::{Javascript, JavascriptConfig, NetConfig, Outcome, Performer, Request};
use serde_json::{Value as Json, json};
use std::sync::Arc;

fn config(time_ms: u64) -> JavascriptConfig {
    let program = std::env::current_exe().expect("this program");
    let config = JavascriptConfig::new(program, vec!["child".to_owned()]);
    JavascriptConfig { time_ms, answer_bytes_max: 10_000, ..config }
}

fn javascript(time_ms: u64) -> Javascript {
    Javascript::new(config(time_ms))
}

/// Each kind of task that is a script gives its own output.
async fn tasks_are_performed_by_their_scripts() {
    let performer = Performer::new(NetConfig::default()).expect("a performer").with_javascript(config(2_000));
    let counts = json!({"script": "$.n < 3", "input": {"n": 2}});
    let enough = json!({"script": "$.n < 3", "input": {"n": 2}, "until": true});
    for (word, config, output) in [
        ("INLINE", json!({"expression": "$.a * 2", "evaluatorType": "graaljs", "a": 4}), json!({"result": 8})),
        ("LAMBDA", json!({"expression": "return {x: $.a};", "a": 4}), json!({"result": {"x": 4}})),
        ("SCRIPT", json!({"script": "$.a ? 'yes' : 'no'", "input": {"a": 0}}), json!({"result": "no"})),
        ("LOOP_CONDITION", counts, json!({"result": true, "stop": false})),
        ("LOOP_CONDITION", enough, json!({"result": true, "stop": true})),
        ("LOOP_CONDITION", json!({"script": "'text'", "input": {}}), json!({"result": "text", "stop": true})),
    ] {
        let request = Request {
            step_id: "00ff".to_owned(),
            type_name: format!("conductor.{word}"),
            config,
            timeout_ms: 10_000,
            idempotency_key: None,
            send_before: None,
            traceparent: None,
            home: Default::default(),
            log: Default::default(),
            stop: Default::default(),
        };
        assert_eq!(performer.perform(request).await, Outcome::Done { output }, "{word}");
    }
}

async fn message(scripts: &Javascript, script: &str) -> String {
    scripts.evaluate(script, &Json::Null).await.expect_err(script).message
}

async fn scripts_are_answered_whatever_they_do() {
    let scripts = javascript(300);
    for _ in 0..3 {
        assert_eq!(scripts.evaluate("$.a + 1", &json!({"a": 1})).await, Ok(json!(2)));
        assert!(message(&scripts, "throw new Error('no')").await.contains("no"));
        assert!(message(&scripts, "for (;;) {}").await.contains("not evaluated within 300 ms"));
        assert!(message(&scripts, "'x'.repeat(20000)").await.contains("more than 10000 bytes"));
        assert!(!message(&scripts, "let a = []; for (;;) a.push('x'.repeat(1e6) + a.length)").await.is_empty());
    }
    assert_eq!(scripts.evaluate("globalThis.kept = 1", &json!({})).await, Ok(json!(1)));
    assert_eq!(scripts.evaluate("typeof kept", &json!({})).await, Ok(json!("undefined")), "scripts share nothing");
}

/// One that does not interrupt itself is killed, and the next script gets another child.
async fn a_child_that_hangs_or_dies_is_replaced() {
    for (script, part) in
        [("HANG", "not evaluated within 200 ms"), ("DIE", "ended while it worked"), ("RAVE", "nonsense")]
    {
        let scripts = javascript(200);
        assert!(message(&scripts, script).await.contains(part), "{script}");
        assert_eq!(scripts.evaluate("1", &json!({})).await, Ok(json!(1)), "{script}");
    }
    let nowhere = Javascript::new(JavascriptConfig::new("/nowhere/at/all".into(), vec![]));
    assert!(message(&nowhere, "1").await.contains("does not start"));
}

async fn many_scripts_share_few_children() {
    let scripts = Arc::new(javascript(2_000));
    let asked = (0..20).map(|n| {
        let scripts = scripts.clone();
        tokio::spawn(async move { scripts.evaluate("$ * 2", &json!(n)).await })
    });
    for (n, asked) in asked.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(asked.await.expect("is answered"), Ok(json!(n * 2)));
    }
}

/// A child that misbehaves when it is asked to.
fn child() {
    let mut first = String::new();
    std::io::stdin().read_line(&mut first).expect("a question");
    match first {
        line if line.contains("\"HANG\"") => std::thread::sleep(std::time::Duration::from_secs(60)),
        line if line.contains("\"DIE\"") => std::process::exit(3),
        line if line.contains("\"RAVE\"") => println!("no JSON at all"),
        line => semel_tasks::javascript::serve(line.as_bytes(), std::io::stdout()),
    }
    semel_tasks::javascript::child_main();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    if has("child") {
        return child();
    }
    if has("--list") {
        if !has("--ignored") {
            println!("scripts: test");
        }
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        scripts_are_answered_whatever_they_do().await;
        a_child_that_hangs_or_dies_is_replaced().await;
        many_scripts_share_few_children().await;
        tasks_are_performed_by_their_scripts().await;
    });
    println!("test scripts ... ok");
}
