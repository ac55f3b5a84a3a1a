//! Watching: server-sent events, lists with filters and cursors, metrics, the command line.

use crate::harness::{Bank, PATIENCE, Server, eventually, flow, post, quick};
use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value as Json, json};

#[tokio::test]
async fn following_a_run_shows_each_change_and_its_end() {
    let (server, bank) = (Server::start().await, Bank::start().await);
    server.push(&post("a", &bank.url("/hold/pay"), "")).await;
    let run = server.trigger("a", None, json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    let answer = server.request(Method::GET, &format!("/v1/runs/{run}/follow")).send().await.expect("an answer");
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut stream = answer.bytes_stream();
    let mut text = String::new();
    let read = async {
        while let Some(chunk) = stream.next().await {
            text.push_str(&String::from_utf8_lossy(&chunk.expect("bytes")));
            if text.contains("event: run") {
                // The first picture is here; now let it change.
                bank.release("pay", 1);
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the stream ends with the run");
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert!(names.len() >= 3 && names.last() == Some(&"end"), "{text}");
    let pictures: Vec<Json> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect();
    let statuses: Vec<&str> = pictures.iter().filter_map(|run| run["status"].as_str()).collect();
    assert_eq!((statuses.first(), statuses.last()), (Some(&"running"), Some(&"completed")));
    // Following what has ended shows it once and ends.
    let after = server.get(&format!("/v1/runs/{run}/follow")).await;
    assert!(after.text.contains("completed") && after.text.contains("event: end"), "{}", after.text);
}

#[tokio::test]
async fn lists_have_filters_and_cursors() {
    let server = Server::start().await;
    server
        .push(&flow(
            "a",
            "labels: {team: blue}
tasks:
  - {id: no, type: execution.Fail, condition: '{{ trigger.data.fail ?? false }}'}\n",
        ))
        .await;
    server.push(&quick("b")).await;
    for number in 0..7 {
        server.trigger_wait("a", Some(&format!("k{number}")), json!({"fail": number % 2 == 0})).await.run_id();
    }
    server.trigger_wait("b", Some("k0"), json!({})).await.run_id();
    let count = async |query: &str| server.all(&format!("/v1/runs?{query}")).await.len();
    assert_eq!(count("workflow_id=e2e:a").await, 7);
    assert_eq!(count("status=failed").await, 4);
    assert_eq!(count("status=failed,completed").await, 8);
    assert_eq!(count("label=team:blue&status=completed").await, 3);
    assert_eq!(count("key=k0").await, 2);
    assert_eq!(count("namespace=e2e").await, 8);
    assert_eq!(count("created_from=2100-01-01T00:00:00Z").await, 0);
    // Page by page, each run once, newest first.
    let mut seen: Vec<String> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/runs?limit=3{cursor}")).await.ok();
        seen.extend(
            page["items"]
                .as_array()
                .expect("items")
                .iter()
                .map(|run| run["run_id"].as_str().expect("an id").to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    sorted.reverse();
    assert_eq!((seen.len(), seen), (8, sorted));
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let server = Server::start().await;
    server.push(&quick("a")).await;
    for _ in 0..3 {
        server.trigger_wait("a", Some("k"), json!({})).await.run_id();
    }
    let text = server.get("/metrics").await.text;
    assert!(text.lines().any(|line| line.starts_with("# TYPE semel")), "{text}");
}

#[tokio::test]
async fn the_command_line_takes_a_newcomer_through_it() {
    let server = Server::start().await;
    let file = server.path("hello.yaml");
    std::fs::write(
        &file,
        flow(
            "hello",
            "inputs:
  - {id: name, type: STRING}
tasks:
  - {id: greet, type: log.Lgo, message: 'Hello {{ inputs.name }}'}\n",
        ),
    )
    .expect("a file");
    let path = file.to_str().expect("text");
    let wrong = server.cli(&["flow", "push", path]).await;
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned() + &String::from_utf8_lossy(&wrong.stdout);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said.contains("log.Log") && said.contains("hello.yaml") && said.contains(":6:"), "{said}");
    let fixed = std::fs::read_to_string(&file).expect("a file").replace("Lgo", "Log");
    std::fs::write(&file, fixed).expect("a file");
    server.cli_json(&["flow", "push", path]).await;
    let run = server.cli_json(&["run", "start", "hello", "--input", "name=Ann", "--key", "k1", "--wait"]).await;
    let id = run["run_id"].as_str().expect("an id").to_owned();
    let twin = server.cli_json(&["run", "start", "hello", "--input", "name=Ann", "--key", "k1", "--wait"]).await;
    assert_eq!(twin["run_id"], id.as_str());
    let shown = server.cli(&["run", "show", &id, "--logs"]).await;
    assert!(String::from_utf8_lossy(&shown.stdout).contains("Hello Ann"), "{shown:?}");
    assert_eq!(server.cli_json(&["run", "list"]).await.as_array().expect("a list").len(), 1);
    let keys = eventually(PATIENCE, "two decisions", || async {
        let rows = server.cli_json(&["decision", "list", "--key", "k1"]).await;
        (rows.as_array().is_some_and(|rows| rows.len() == 2)).then_some(rows)
    })
    .await;
    assert!(keys[0]["decision"].is_string());
    let watched = server.cli(&["run", "watch", &id]).await;
    assert!(watched.status.success(), "{watched:?}");
}
