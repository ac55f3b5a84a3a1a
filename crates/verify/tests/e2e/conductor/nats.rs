//! Events from a NATS server and to it, at the real one: `nats-server` of the Debian package, or of its own project.
//! `scripts/test` runs this where there is one; by hand:
//! `SEMEL_NATS_SERVER=nats-server cargo test -p semel-verify --test e2e -- --ignored conductor::nats`.

use super::*;
use crate::harness::{Options, Server};
use async_nats::jetstream::{self, stream};
use async_nats::{Client, HeaderMap};
use futures_util::StreamExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A NATS server of its own, gone with the test.
struct Nats {
    process: Child,
    url: String,
    _directory: tempfile::TempDir,
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Nats {
    async fn start() -> Nats {
        let program = std::env::var_os("SEMEL_NATS_SERVER").expect("SEMEL_NATS_SERVER names a nats-server");
        let directory = tempfile::tempdir().expect("a directory");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let mut command = Command::new(program);
        command.args(["-a", "127.0.0.1", "-p", &free.to_string(), "-js", "-sd"]).arg(directory.path());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nats-server runs");
        Nats { process, url: format!("nats://127.0.0.1:{free}"), _directory: directory }
    }

    async fn client(&self) -> Client {
        eventually(PATIENCE, "the NATS server answers", || async { async_nats::connect(&self.url).await.ok() }).await
    }
}

async fn send(context: &jetstream::Context, id: &str, order: u32) {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", id);
    let message = json!({"order": order}).to_string();
    let sent = context.publish_with_headers("orders.in", headers, message.into()).await.expect("it is sent");
    sent.await.expect("the stream has it");
}

async fn started_with(server: &Server, name: &str) -> Vec<u64> {
    let query = format!("/api/workflow/search?size=100&query=workflowType%3D{name}");
    let found = server.get(&query).await.ok();
    let results = found["results"].as_array().expect("results").clone();
    let order = |one: &Json| serde_json::from_str::<Json>(one["input"].as_str()?).ok()?["order"].as_u64();
    let mut orders: Vec<u64> = results.iter().filter_map(order).collect();
    orders.sort_unstable();
    orders
}

/// Each message starts one workflow, also one that comes again, that came while nobody listened, or whose listener was
/// killed before it could say that it has it.
#[tokio::test]
#[ignore = "needs nats-server; scripts/test runs this where there is one"]
async fn each_message_of_a_stream_is_acted_on_once_whoever_dies() {
    let nats = Nats::start().await;
    let client = nats.client().await;
    let context = jetstream::new(client.clone());
    let orders = stream::Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders.*".to_owned()],
        // What the stream itself drops proves nothing.
        duplicate_window: Duration::from_millis(100),
        ..stream::Config::default()
    };
    context.create_stream(orders).await.expect("a stream");
    let mut server = Server::with(Options::default().env("SEMEL_NATS_URL", &nats.url)).await;
    register(&server, json!({"name": "heard", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]}))
        .await;
    let action =
        json!({"action": "start_workflow", "start_workflow": {"name": "heard", "input": {"order": "${order}"}}});
    let handler = json!({"name": "h", "event": "nats:orders.in", "active": true, "actions": [action]});
    server.post("/api/event", handler).await.ok();
    eventually(PATIENCE, "somebody listens", || async {
        let stream = context.get_stream("ORDERS").await.expect("the stream");
        let mut names = stream.consumer_names();
        names.next().await.and_then(Result::ok)
    })
    .await;
    for round in 0..6u32 {
        send(&context, &format!("m{round}"), round).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        send(&context, &format!("m{round}"), round).await;
        if round % 2 == 1 {
            server.kill9();
            send(&context, &format!("dark{round}"), 100 + round).await;
            server.restart().await;
        }
    }
    let expected: Vec<u64> = vec![0, 1, 2, 3, 4, 5, 101, 103, 105];
    let seen = eventually(PATIENCE, "all messages were acted on", || async {
        let seen = started_with(&server, "heard").await;
        (seen.len() >= expected.len()).then_some(seen)
    })
    .await;
    assert_eq!(seen, expected);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(started_with(&server, "heard").await, expected, "nothing comes later");
}

#[tokio::test]
#[ignore = "needs nats-server; scripts/test runs this where there is one"]
async fn an_event_task_sends_its_message_under_the_name_of_its_step() {
    let nats = Nats::start().await;
    let client = nats.client().await;
    let mut heard = client.subscribe("plain.>").await.expect("a subscription");
    client.flush().await.expect("the server knows");
    let server = Server::with(Options::default().env("SEMEL_NATS_URL", &nats.url)).await;
    let task = json!({"name": "e", "taskReferenceName": "e", "type": "EVENT", "sink": "nats:plain.out",
        "inputParameters": {"order": "${workflow.input.order}"}});
    register(&server, json!({"name": "tells", "tasks": [task], "outputParameters": {"order": "${e.output.order}"}}))
        .await;
    let id = started(&server.post("/api/workflow", json!({"name": "tells", "input": {"order": 7}})).await);
    let ended = until(&server, &id, "COMPLETED").await;
    assert_eq!(ended["output"]["order"], 7);
    let message = tokio::time::timeout(PATIENCE, heard.next()).await.expect("in time").expect("a message");
    let told: Json = serde_json::from_slice(&message.payload).expect("JSON");
    assert_eq!((&told["order"], &told["workflowInstanceId"]), (&json!(7), &json!(id)));
    let name = message.headers.expect("headers").get("Nats-Msg-Id").expect("a name").as_str().to_owned();
    assert_eq!(json!(name), ended["tasks"][0]["stepId"]);
    let answer = server.post("/api/event/queue/connectivity", json!({"sink": "nats:plain.out"})).await.ok();
    assert_eq!(answer["successful"], true);
}

/// Whoever listened before there was a stream goes over to it, also to a work queue, and acts once on each message.
#[tokio::test]
#[ignore = "needs nats-server; scripts/test runs this where there is one"]
async fn a_stream_that_comes_later_is_found() {
    let nats = Nats::start().await;
    let client = nats.client().await;
    let context = jetstream::new(client.clone());
    let server = Server::with(Options::default().env("SEMEL_NATS_URL", &nats.url)).await;
    register(&server, json!({"name": "heard", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]}))
        .await;
    let action =
        json!({"action": "start_workflow", "start_workflow": {"name": "heard", "input": {"order": "${order}"}}});
    let handler = json!({"name": "h", "event": "nats:orders.in", "active": true, "actions": [action]});
    server.post("/api/event", handler).await.ok();
    eventually(PATIENCE, "the subscription hears", || async {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", "first");
        let message = json!({"order": 1}).to_string();
        client.publish_with_headers("orders.in", headers, message.into()).await.expect("it is sent");
        (started_with(&server, "heard").await == [1]).then_some(())
    })
    .await;
    let orders = stream::Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders.*".to_owned()],
        retention: stream::RetentionPolicy::WorkQueue,
        ..stream::Config::default()
    };
    context.create_stream(orders).await.expect("a stream");
    send(&context, "second", 2).await;
    eventually(2 * PATIENCE, "the stream is listened to", || async {
        let stream = context.get_stream("ORDERS").await.expect("the stream");
        let mut names = stream.consumer_names();
        names.next().await.and_then(Result::ok)
    })
    .await;
    send(&context, "third", 3).await;
    eventually(PATIENCE, "the work queue is empty", || async {
        let mut stream = context.get_stream("ORDERS").await.expect("the stream");
        (stream.info().await.expect("its state").state.messages == 0).then_some(())
    })
    .await;
    // A message is taken when its event is stored; what it starts comes a little later.
    eventually(PATIENCE, "all messages were acted on", || async {
        (started_with(&server, "heard").await == [1, 2, 3]).then_some(())
    })
    .await;
}
