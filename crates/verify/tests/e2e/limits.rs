//! Every limit, at it, one past it and a hundred times past it, on the real binary.
//!
//! Each case has a server whose limit is small, so that reaching it costs nothing. Past a limit the answer has its
//! status and code, nothing is half done, and the server goes on: afterwards it answers, it stored what it said it
//! stored, and it never held more than half a gigabyte.

use crate::harness::{Answer, Bank, Options, PATIENCE, Server, eventually, flow, post, quick};
use reqwest::Method;
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MEMORY_BYTES_MAX: u64 = 512 << 20;

/// One test per limit, and one that knows when a limit has none.
macro_rules! limits {
    ($($field:ident),+ $(,)?) => {
        #[test]
        fn every_limit_has_its_case() {
            let Json::Object(fields) = json!(Limits::default()) else { panic!("limits are an object") };
            let fields: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
            assert_eq!(fields, BTreeSet::from([$(stringify!($field)),+]));
        }

        $(
            mod $field {
                #[tokio::test]
                async fn is_kept() {
                    super::cases::$field().await;
                }
            }
        )+
    };
}

limits!(
    body_bytes_max,
    webhook_bytes_max,
    upload_bytes_max,
    upload_read_ms_max,
    header_bytes_max,
    connections_max,
    header_read_ms_max,
    body_read_ms_max,
    json_depth_max,
    yaml_nodes_max,
    flow_bytes_max,
    steps_per_run_max,
    parallel_branches_max,
    foreach_items_max,
    subrun_depth_max,
    retries_max,
    wait_ms_max,
    pending_admissions_max,
    http_timeout_ms,
    http_answer_bytes_max,
    http_calls_max,
    http_calls_per_host_max,
    log_line_bytes_max,
    step_log_lines_max,
    file_bytes_max,
    step_files_max,
    scripts_max,
    event_streams_max,
    page_rows_max,
    prefer_wait_ms_max,
);

/// A server with one limit changed.
async fn limited(field: &str, value: u64) -> Server {
    Server::with(Options::default().env(&format!("SEMEL_LIMITS_{}", field.to_uppercase()), &value.to_string())).await
}

/// It still answers, an event still runs, and memory stayed bounded.
async fn still_well(server: &Server) {
    server.push(&quick("still_well")).await;
    let answer = server.trigger_wait("still_well", Some("well"), json!({})).await;
    assert_eq!(answer.json["status"], "completed", "{}", answer.text);
    assert!(server.resident_bytes() < MEMORY_BYTES_MAX, "{} MiB", server.resident_bytes() >> 20);
}

fn address(server: &Server) -> String {
    server.url.trim_start_matches("http://").to_owned()
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(address(server)).await.expect("a connection")
}

/// All that the server says until it closes; that it resets the connection is as good as closing it.
async fn heard(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    assert!(read.is_ok(), "the server does not close");
    String::from_utf8_lossy(&all).into_owned()
}

async fn say(server: &Server, text: &str) -> String {
    let mut stream = connect(server).await;
    // It may hang up before it has read everything.
    let _ = stream.write_all(text.as_bytes()).await;
    heard(&mut stream).await
}

/// The first place that a refused flow is told about.
#[track_caller]
fn place(answer: &Answer, code: &str) -> (u64, u64) {
    answer.refused(422, "flow_invalid");
    let found = answer.json["errors"].as_array().expect("errors").iter().find(|error| error["code"] == code);
    let found = found.unwrap_or_else(|| panic!("no {code}: {}", answer.text));
    (found["line"].as_u64().expect("a line"), found["column"].as_u64().expect("a column"))
}

/// The code that a run failed with.
async fn failed_with(server: &Server, answer: &Answer) -> String {
    let run = server.until(&answer.run_id(), "failed").await;
    run["error"]["code"].as_str().unwrap_or_else(|| panic!("no code: {run}")).to_owned()
}

mod cases {
    use super::*;

    pub async fn body_bytes_max() {
        let server = limited("body_bytes_max", 2_000).await;
        server.push(&quick("a")).await;
        let before = server.stored().await;
        let body = |bytes: usize| format!("{{\"data\":{{\"x\":\"{}\"}}}}", "a".repeat(bytes - 17));
        let send = |bytes: usize| {
            let request =
                server.request(Method::POST, "/v1/workflows/a/trigger").header("content-type", "application/json");
            server.try_send(request.body(body(bytes)))
        };
        assert_eq!(body(2_001).len(), 2_001);
        send(2_001).await.expect("an answer").refused(413, "body_too_large");
        // It may hang up while the rest is still being sent.
        if let Ok(answer) = send(200_000).await {
            answer.refused(413, "body_too_large");
        }
        assert_eq!(server.stored().await, before);
        send(2_000).await.expect("an answer").ok();
        still_well(&server).await;
    }

    pub async fn webhook_bytes_max() {
        let server = limited("webhook_bytes_max", 2_000_000).await;
        let hook = "triggers:\n  - {id: hook, type: trigger.Webhook, key: opens}\n\
                    tasks:\n  - {id: say, type: log.Log, message: hi}\n";
        server.push(&flow("a", hook)).await;
        let before = server.stored().await;
        let send = |bytes: usize| {
            let request = server.request(Method::POST, "/v1/webhooks/e2e/a/opens");
            server.try_send(request.body("x".repeat(bytes)))
        };
        // It may hang up while the rest is still being sent.
        for bytes in [2_000_001, 200_000_000] {
            if let Ok(answer) = send(bytes).await {
                answer.refused(413, "body_too_large");
            }
        }
        assert_eq!(server.stored().await, before);
        send(2_000_000).await.expect("an answer").ok();
        still_well(&server).await;
    }

    /// A form with a file for the input `doc` of the flow `a`, of so many bytes in all.
    fn form_of(bytes: usize) -> String {
        let start = "--b\r\nContent-Disposition: form-data; name=\"doc\"; filename=\"d.txt\"\r\n\r\n";
        let end = "\r\n--b--\r\n";
        format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len()))
    }

    const WITH_FILE: &str = "inputs:\n  - {id: doc, type: FILE}\ntasks:\n  - {id: say, type: log.Log, message: hi}\n";

    pub async fn upload_bytes_max() {
        let server = limited("upload_bytes_max", 3_000_000).await;
        server.push(&flow("a", WITH_FILE)).await;
        let send = |bytes: usize| {
            let request = server.request(Method::POST, "/api/v1/main/executions/e2e/a");
            let request = request.header("content-type", "multipart/form-data; boundary=b");
            server.try_send(request.body(form_of(bytes)))
        };
        for bytes in [3_000_001, 100_000_000] {
            if let Ok(answer) = send(bytes).await {
                assert_eq!(answer.status, 413, "{}", answer.text);
            }
        }
        assert_eq!(server.all("/v1/runs").await.len(), 0);
        assert_eq!(send(3_000_000).await.expect("an answer").status, 200);
        still_well(&server).await;
    }

    pub async fn upload_read_ms_max() {
        let server = limited("upload_read_ms_max", 300).await;
        server.push(&flow("a", WITH_FILE)).await;
        let form = form_of(10_000);
        let head = format!(
            "POST /api/v1/main/executions/e2e/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=b\r\n\
             content-length: {}\r\n\r\n",
            form.len()
        );
        let mut stream = connect(&server).await;
        // All but the end of the file, which never comes.
        stream.write_all(format!("{head}{}", &form[..form.len() - 100]).as_bytes()).await.expect("sent");
        let answer = heard(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout"), "{answer}");
        assert_eq!(server.all("/v1/runs").await.len(), 0);
        still_well(&server).await;
    }

    pub async fn header_bytes_max() {
        let server = limited("header_bytes_max", 10_000).await;
        let head = |bytes: usize| {
            let start = "GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: ";
            format!("{start}{}\r\n\r\n", "a".repeat(bytes - start.len() - 4))
        };
        assert!(say(&server, &head(10_000)).await.starts_with("HTTP/1.1 200"));
        let answer = say(&server, &head(10_001)).await;
        assert!(answer.starts_with("HTTP/1.1 431") && answer.contains("head_too_large"), "{answer}");
        let answer = say(&server, &head(1_000_000)).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
        still_well(&server).await;
    }

    pub async fn connections_max() {
        let server = limited("connections_max", 4).await;
        let live = "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let mut open = Vec::new();
        for _ in 0..4 {
            let mut stream = connect(&server).await;
            stream.write_all(live.as_bytes()).await.expect("sent");
            let mut start = [0; 12];
            stream.read_exact(&mut start).await.expect("an answer");
            assert_eq!(&start, b"HTTP/1.1 200");
            open.push(stream);
        }
        for _ in 0..400 {
            let answer = say(&server, "").await;
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too_many_connections"), "{answer}");
        }
        drop(open);
        eventually(PATIENCE, "places become free", || async {
            say(&server, &live.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"))
                .await
                .starts_with("HTTP/1.1 200")
                .then_some(())
        })
        .await;
        still_well(&server).await;
    }

    pub async fn header_read_ms_max() {
        let server = limited("header_read_ms_max", 400).await;
        let began = Instant::now();
        for slow in ["", "GET /health/live HTTP/1.1\r\nhost: lo", "PRI * HTTP/2.0\r\n"] {
            assert!(!say(&server, slow).await.contains(" 200 "), "{slow:?}");
        }
        assert!(began.elapsed() >= Duration::from_millis(1_200), "closed too early: {:?}", began.elapsed());
        // A hundred that dawdle at once hold up nobody.
        let mut dawdling = Vec::new();
        for _ in 0..100 {
            let mut stream = connect(&server).await;
            stream.write_all(b"G").await.expect("sent");
            dawdling.push(stream);
        }
        still_well(&server).await;
        for stream in &mut dawdling {
            assert!(!heard(stream).await.contains(" 200 "));
        }
    }

    pub async fn body_read_ms_max() {
        let server = limited("body_read_ms_max", 400).await;
        server.push(&quick("a")).await;
        let before = server.stored().await;
        let head = "POST /v1/workflows/a/trigger HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        for slow in [
            format!("{head}content-length: 10\r\n\r\n{{"),
            format!("{head}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n"),
        ] {
            let answer = say(&server, &slow).await;
            assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout"), "{answer}");
        }
        assert_eq!(server.stored().await, before);
        still_well(&server).await;
    }

    pub async fn json_depth_max() {
        let server = limited("json_depth_max", 10).await;
        server.push(&quick("a")).await;
        let before = server.stored().await;
        let nested = |depth: usize| {
            let body = format!("{{\"data\":{{\"x\":{}{}}}}}", "[".repeat(depth - 2), "]".repeat(depth - 2));
            let request =
                server.request(Method::POST, "/v1/workflows/a/trigger").header("content-type", "application/json");
            server.send(request.body(body))
        };
        for depth in [11, 1_000, 100_000] {
            nested(depth).await.refused(400, "json_too_deep");
        }
        assert_eq!(server.stored().await, before);
        nested(10).await.ok();
        still_well(&server).await;
    }

    pub async fn yaml_nodes_max() {
        let server = limited("yaml_nodes_max", 100).await;
        // 14 nodes of the flow, a key and a list, and its items.
        let items = |count: usize| format!("{}variables:\n  l: [{}]\n", quick("a"), vec!["1"; count].join(", "));
        let most = 100 - 18;
        server.push(&items(most)).await;
        let before = server.stored().await;
        assert_eq!(place(&server.put_flow(&items(most + 1)).await, "too_large").0, 6);
        place(&server.put_flow(&items(most * 100)).await, "too_large");
        assert_eq!(server.stored().await, before);
        still_well(&server).await;
    }

    pub async fn flow_bytes_max() {
        let server = limited("flow_bytes_max", 1_000).await;
        let sized = |bytes: usize| {
            let flow = format!("{}# ", quick("a"));
            format!("{flow}{}", "x".repeat(bytes - flow.len()))
        };
        server.push(&sized(1_000)).await;
        let before = server.stored().await;
        for bytes in [1_001, 100_000] {
            server.put_flow(&sized(bytes)).await.refused(413, "body_too_large");
        }
        assert_eq!(server.stored().await, before);
        still_well(&server).await;
    }

    pub async fn steps_per_run_max() {
        let server = limited("steps_per_run_max", 10).await;
        let steps = |count: usize| {
            (0..count).map(|n| format!("  - {{id: s{n}, type: log.Log, message: hi}}\n")).collect::<String>()
        };
        for (name, count) in [("at", 10), ("past", 11), ("far", 1_000)] {
            server.push(&flow(name, &format!("tasks:\n{}", steps(count)))).await;
        }
        let answer = server.trigger_wait("at", None, json!({})).await;
        assert_eq!(answer.json["status"], "completed", "{}", answer.text);
        for name in ["past", "far"] {
            let answer = server.trigger_wait(name, None, json!({})).await;
            assert_eq!(failed_with(&server, &answer).await, "steps_limit");
            let lines = server.log_lines(&answer.run_id()).await;
            assert_eq!(lines.iter().filter(|line| *line == "hi").count(), 10, "{lines:?}");
        }
        still_well(&server).await;
    }

    pub async fn parallel_branches_max() {
        let (server, bank) = (limited("parallel_branches_max", 3).await, Bank::start().await);
        let branches = |count: usize| {
            let tasks: String =
                (0..count).map(|n| format!("      - {{id: b{n}, type: log.Log, message: hi}}\n")).collect();
            flow("a", &format!("tasks:\n  - id: p\n    type: flow.Parallel\n    tasks:\n{tasks}"))
        };
        server.push(&branches(3)).await;
        let before = server.stored().await;
        for count in [4, 300] {
            assert_eq!(place(&server.put_flow(&branches(count)).await, "limit"), (6, 5));
        }
        assert_eq!(server.stored().await, before);
        // A loop that sets no limit of its own has this one.
        let url = bank.url("/hold/pay");
        let each = format!(
            "tasks:\n  - id: l\n    type: flow.ForEach\n    values: '{{{{ range(1, 30) }}}}'\n    concurrencyLimit: 0\n    tasks:\n      - {{id: c, type: http.Request, uri: '{url}', method: PUT}}\n"
        );
        server.push(&flow("loop", &each)).await;
        let run = server.trigger("loop", None, json!({})).await.run_id();
        bank.arrived("pay", 3).await;
        bank.release("pay", 27);
        bank.arrived("pay", 30).await;
        assert_eq!(bank.most_at_once("pay"), 3);
        bank.release("pay", 10);
        server.until(&run, "completed").await;
        still_well(&server).await;
    }

    pub async fn foreach_items_max() {
        let server = limited("foreach_items_max", 5).await;
        let each = |values: &str| {
            flow(
                "a",
                &format!(
                    "tasks:\n  - id: l\n    type: flow.ForEach\n    values: {values}\n    tasks:\n      - {{id: s, type: log.Log, message: hi}}\n"
                ),
            )
        };
        server.push(&each("[1, 2, 3, 4, 5]")).await;
        let before = server.stored().await;
        assert_eq!(place(&server.put_flow(&each("[1, 2, 3, 4, 5, 6]")).await, "limit"), (6, 13));
        assert_eq!(server.stored().await, before);
        server.push(&each("'{{ range(1, trigger.data.n) }}'")).await;
        let answer = server.trigger_wait("a", None, json!({"n": 5})).await;
        assert_eq!(answer.json["status"], "completed", "{}", answer.text);
        for count in [6, 500] {
            let answer = server.trigger_wait("a", None, json!({"n": count})).await;
            assert_eq!(failed_with(&server, &answer).await, "too_many_items");
            assert_eq!(server.log_lines(&answer.run_id()).await, Vec::<String>::new());
        }
        still_well(&server).await;
    }

    pub async fn subrun_depth_max() {
        let server = limited("subrun_depth_max", 2).await;
        server.push(&quick("f0")).await;
        for level in 1..=4 {
            let tasks =
                format!("tasks:\n  - {{id: sub, type: flow.Subflow, namespace: e2e, flowId: f{}}}\n", level - 1);
            server.push(&flow(&format!("f{level}"), &tasks)).await;
        }
        let answer = server.trigger_wait("f2", None, json!({})).await;
        assert_eq!(answer.json["status"], "completed", "{}", answer.text);
        let answer = server.trigger_wait("f3", None, json!({})).await;
        assert_eq!(answer.json["status"], "failed", "{}", answer.text);
        let deepest = &server.runs_of("f1").await[0];
        assert_eq!((&deepest["status"], &deepest["error"]["code"]), (&json!("failed"), &json!("subflow_too_deep")));
        // The three of the first chain; the second got no further than its third.
        assert_eq!(server.runs_of("f0").await.len(), 1);
        still_well(&server).await;
    }

    pub async fn retries_max() {
        let (server, bank) = (limited("retries_max", 3).await, Bank::start().await);
        let url = bank.url("/status/500/pay");
        let retried = |most: u32| {
            post(
                "a",
                &url,
                &format!("effect: repeatable\nretry: {{type: constant, interval: PT0.05S, maxAttempts: {most}}}"),
            )
        };
        server.push(&retried(3)).await;
        let before = server.stored().await;
        for most in [4, 300] {
            place(&server.put_flow(&retried(most)).await, "limit");
        }
        assert_eq!(server.stored().await, before);
        let answer = server.trigger_wait("a", None, json!({})).await;
        assert_eq!(answer.json["status"], "failed", "{}", answer.text);
        assert_eq!(bank.count("pay"), 3);
        still_well(&server).await;
    }

    pub async fn wait_ms_max() {
        let server = limited("wait_ms_max", 60_000).await;
        let sleep =
            |duration: &str| flow("a", &format!("tasks:\n  - {{id: z, type: flow.Sleep, duration: {duration}}}\n"));
        server.push(&sleep("PT1M")).await;
        let before = server.stored().await;
        for long in ["PT1M0.001S", "PT100M"] {
            place(&server.put_flow(&sleep(long)).await, "limit");
        }
        assert_eq!(server.stored().await, before);
        // A wait that is computed is known only when it begins; a shorter one than was asked for would be a lie.
        server.push(&sleep("'{{ trigger.data.d }}'")).await;
        for long in ["PT1M0.001S", "PT100M"] {
            let answer = server.trigger_wait("a", None, json!({"d": long})).await;
            assert_eq!(failed_with(&server, &answer).await, "wait_too_long");
        }
        let run = server.trigger("a", None, json!({"d": "PT1M"})).await.run_id();
        server.until(&run, "waiting").await;
        still_well(&server).await;
    }

    pub async fn pending_admissions_max() {
        let server = limited("pending_admissions_max", 0).await;
        server.push(&quick("a")).await;
        for key in [Some("k"), None] {
            let answer = server.trigger("a", key, json!({})).await;
            answer.refused(429, "too_many_pending");
            assert_eq!(answer.header("retry-after"), "5");
        }
        assert!(server.runs().await.is_empty() && server.all("/v1/keys").await.is_empty());
        // With one place, a hundred at once are each run or refused, and what was answered is what is stored.
        let server = limited("pending_admissions_max", 1).await;
        server.push(&quick("a")).await;
        let answers = futures_util::future::join_all((0..100).map(|_| server.trigger("a", None, json!({})))).await;
        let started = answers.iter().filter(|answer| answer.status == 200).count();
        assert!(started >= 1);
        for answer in answers.iter().filter(|answer| answer.status != 200) {
            answer.refused(429, "too_many_pending");
        }
        assert_eq!(server.runs().await.len(), started);
        still_well(&server).await;
    }

    pub async fn http_timeout_ms() {
        let (server, bank) = (limited("http_timeout_ms", 500).await, Bank::start().await);
        let get = |id: &str, path: &str| {
            flow(id, &format!("tasks:\n  - {{id: g, type: http.Request, uri: '{}'}}\n", bank.url(path)))
        };
        server.push(&get("quick", "/slow/50/quick")).await;
        server.push(&get("slow", "/slow/50000/slow")).await;
        let answer = server.trigger_wait("quick", None, json!({})).await;
        assert_eq!(answer.json["status"], "completed", "{}", answer.text);
        let began = Instant::now();
        let answer = server.trigger_wait("slow", None, json!({})).await;
        assert_eq!(answer.json["status"], "failed", "{}", answer.text);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        still_well(&server).await;
    }

    pub async fn http_answer_bytes_max() {
        let (server, bank) = (limited("http_answer_bytes_max", 1_000).await, Bank::start().await);
        for bytes in [1_000, 1_001, 100_000, 50_000_000] {
            let get = format!(
                "tasks:\n  - {{id: g, type: http.Request, uri: '{}'}}\n",
                bank.url(&format!("/bytes/{bytes}/b"))
            );
            server.push(&flow(&format!("f{bytes}"), &get)).await;
        }
        let answer = server.trigger_wait("f1000", None, json!({})).await;
        assert_eq!(answer.json["status"], "completed", "{}", answer.text);
        for name in ["f1001", "f100000", "f50000000"] {
            let answer = server.trigger_wait(name, None, json!({})).await;
            assert_eq!(failed_with(&server, &answer).await, "answer_too_large");
        }
        still_well(&server).await;
    }

    /// As many calls as there are places, and no more, until one comes back.
    async fn calls_at_once(field: &str, most: usize) {
        let (server, bank) = (limited(field, most as u64).await, Bank::start().await);
        server.push(&post("a", &bank.url("/hold/pay"), "timeout: PT30S")).await;
        let mut runs = Vec::new();
        for _ in 0..most * 10 {
            runs.push(server.trigger("a", None, json!({})).await.run_id());
        }
        bank.arrived("pay", most).await;
        bank.release("pay", runs.len());
        for run in &runs {
            server.until(run, "completed").await;
        }
        assert_eq!(bank.most_at_once("pay"), most);
        assert_eq!(bank.count("pay"), runs.len());
        still_well(&server).await;
    }

    pub async fn http_calls_max() {
        calls_at_once("http_calls_max", 2).await;
    }

    pub async fn http_calls_per_host_max() {
        calls_at_once("http_calls_per_host_max", 3).await;
    }

    pub async fn log_line_bytes_max() {
        let server = limited("log_line_bytes_max", 100).await;
        server.push(&flow("a", "tasks:\n  - {id: s, type: log.Log, message: '{{ trigger.data.m }}'}\n")).await;
        for (bytes, cut) in [(100, false), (101, true), (10_000, true)] {
            let run = server.trigger_wait("a", None, json!({"m": "x".repeat(bytes)})).await.run_id();
            let line = server.log_lines(&run).await.remove(0);
            let expected = if cut { format!("{}… (cut at 100 bytes)", "x".repeat(100)) } else { "x".repeat(100) };
            assert_eq!(line, expected);
        }
        still_well(&server).await;
    }

    /// A server with one limit changed that runs scripts, and a flow `a` of commands.
    async fn scripted(field: &str, value: u64, commands: &str) -> Server {
        let options = Options::default().env("SEMEL_SCRIPTS_ENABLED", "true");
        let server =
            Server::with(options.env(&format!("SEMEL_LIMITS_{}", field.to_uppercase()), &value.to_string())).await;
        let tasks = format!("tasks:\n  - {{id: s, type: process.Commands, commands: ['{commands}']}}\n");
        server.push(&flow("a", &tasks)).await;
        server
    }

    pub async fn step_log_lines_max() {
        let server = scripted("step_log_lines_max", 100, "seq {{ trigger.data.n }}").await;
        for (count, kept) in [(99, 99), (100, 100), (10_000, 100)] {
            let run = server.trigger_wait("a", None, json!({"n": count})).await.run_id();
            let lines = server.log_lines(&run).await;
            assert_eq!(lines.len(), kept);
            assert_eq!(lines[kept - 1] == "further lines of this step are dropped", count > 99, "{count}");
        }
        still_well(&server).await;
    }

    pub async fn file_bytes_max() {
        let server = limited("file_bytes_max", 1_000).await;
        server.push(&flow("a", "tasks:\n  - {id: w, type: storage.Write, content: '{{ trigger.data.m }}'}\n")).await;
        let run = |bytes: usize| server.trigger_wait("a", None, json!({"m": "x".repeat(bytes)}));
        assert_eq!(run(1_000).await.json["status"], "completed");
        for bytes in [1_001, 100_000] {
            assert_eq!(failed_with(&server, &run(bytes).await).await, "file_too_large");
        }
        still_well(&server).await;
    }

    pub async fn step_files_max() {
        let server = limited("step_files_max", 10).await;
        let tasks = "tasks:\n  - {id: w, type: storage.Write, content: '{{ trigger.data.m }}'}\n  \
                     - {id: s, type: storage.Split, from: '{{ outputs.w.uri }}', rows: 1}\n";
        server.push(&flow("a", tasks)).await;
        let run = |rows: usize| server.trigger_wait("a", None, json!({"m": "x\n".repeat(rows)}));
        assert_eq!(run(10).await.json["status"], "completed");
        for rows in [11, 1_000] {
            assert_eq!(failed_with(&server, &run(rows).await).await, "too_many_files");
        }
        still_well(&server).await;
    }

    pub async fn scripts_max() {
        // Each waits for a file of its own, and says that it is there.
        let here = tempfile::tempdir().expect("a directory");
        let command = format!("touch {0}/$$.here; until test -e {0}/go; do sleep 0.05; done", here.path().display());
        let server = scripted("scripts_max", 2, &command).await;
        let mut runs = Vec::new();
        for _ in 0..20 {
            runs.push(server.trigger("a", None, json!({})).await.run_id());
        }
        let waiting = || std::fs::read_dir(here.path()).expect("the directory").count();
        eventually(PATIENCE, "two scripts", || async { (waiting() == 2).then_some(()) }).await;
        assert_eq!(waiting(), 2);
        std::fs::write(here.path().join("go"), "").expect("a file");
        for run in &runs {
            server.until(run, "completed").await;
        }
        still_well(&server).await;
    }

    pub async fn event_streams_max() {
        let (server, bank) = (limited("event_streams_max", 2).await, Bank::start().await);
        server.push(&post("a", &bank.url("/hold/pay"), "")).await;
        let run = server.trigger("a", None, json!({})).await.run_id();
        let path = format!("/v1/runs/{run}/follow");
        let follow = || async { server.request(Method::GET, &path).send().await.expect("an answer") };
        let (one, two) = (follow().await, follow().await);
        assert_eq!((one.status().as_u16(), two.status().as_u16()), (200, 200));
        for _ in 0..200 {
            let answer = server.get(&path).await;
            answer.refused(429, "too_many_streams");
            assert_eq!(answer.header("retry-after"), "5");
        }
        drop(one);
        eventually(PATIENCE, "a place becomes free", || async { (follow().await.status() == 200).then_some(()) }).await;
        bank.release("pay", 1);
        still_well(&server).await;
    }

    pub async fn page_rows_max() {
        let server = limited("page_rows_max", 3).await;
        server.push(&quick("a")).await;
        for _ in 0..7 {
            server.trigger("a", None, json!({})).await.ok();
        }
        for (limit, rows) in [(2, 2), (3, 3), (4, 3), (300, 3)] {
            let page = server.get(&format!("/v1/runs?limit={limit}")).await.ok();
            assert_eq!(page["items"].as_array().expect("items").len(), rows, "{limit}");
            assert!(page["next_cursor"].is_string());
        }
        // Page by page all of them are there.
        assert_eq!(server.runs().await.len(), 7);
        still_well(&server).await;
    }

    pub async fn prefer_wait_ms_max() {
        let (server, bank) = (limited("prefer_wait_ms_max", 1_000).await, Bank::start().await);
        server.push(&post("a", &bank.url("/hold/pay"), "")).await;
        for asked in ["1", "2", "100", "99999999999999999999"] {
            let began = Instant::now();
            let request = server.trigger_request("a", Some("k"), json!({})).header("prefer", format!("wait={asked}"));
            let answer = server.send(request).await;
            assert_eq!((answer.status, answer.header("preference-applied")), (200, "wait=1"), "{}", answer.text);
            let waited = began.elapsed();
            assert!(waited >= Duration::from_millis(900) && waited < Duration::from_secs(20), "{waited:?}");
        }
        bank.release("pay", 1);
        still_well(&server).await;
    }
}

/// What an expression may cost is not configured: it is the same everywhere.
#[tokio::test]
async fn expressions_are_bounded() {
    let server = Server::start().await;
    for (name, expression, code) in [
        ("fuel", "{% for a in 1..1000 %}{% for b in 1..1000 %}{{ a }}{% endfor %}{% endfor %}", "fuel"),
        (
            "output",
            "{% set x = 'abcdefgh' %}{% for i in 1..60 %}{% set x = x ~ x %}{% endfor %}{{ x }}",
            "output_limit",
        ),
        ("range", "{{ range(1, 100000000) }}", "fuel"),
        ("jq", "{{ 1 | jq('[range(1e12)]') }}", "fuel"),
    ] {
        server
            .push(&flow(name, &format!("tasks:\n  - {{id: r, type: debug.Return, format: \"{expression}\"}}\n")))
            .await;
        let answer = server.trigger_wait(name, None, json!({})).await;
        let found = failed_with(&server, &answer).await;
        assert!(found.contains(code), "{name}: {found}");
    }
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(65), ")".repeat(65));
    place(
        &server
            .put_flow(&flow("deep", &format!("tasks:\n  - {{id: r, type: debug.Return, format: \"{deep}\"}}\n")))
            .await,
        "bad_template",
    );
    still_well(&server).await;
}

/// Aliases of YAML are written out at most a thousand nodes: a small file cannot become a large one.
#[tokio::test]
async fn aliases_are_bounded() {
    let server = Server::start().await;
    let used = |times: usize| {
        let list = vec!["x"; 99].join(", ");
        format!("{}variables:\n  l: &l [{list}]\n  m: [{}]\n", quick("a"), vec!["*l"; times].join(", "))
    };
    server.push(&used(10)).await;
    let before = server.stored().await;
    for times in [11, 1_000] {
        place(&server.put_flow(&used(times)).await, "alias_limit");
    }
    let mut bomb = format!("{}variables:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n", quick("a"));
    for level in 1..9 {
        bomb.push_str(&format!("  a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", ")));
    }
    place(&server.put_flow(&bomb).await, "alias_limit");
    assert_eq!(server.stored().await, before);
    still_well(&server).await;
}
