//! A server with tokens.

use crate::harness::{Answer, Options, Server, clock_reaches, quick};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

async fn guarded() -> Server {
    Server::with(Options { tokens: true, ..Options::default() }).await
}

fn admin_token(server: &Server) -> String {
    std::fs::read_to_string(server.path("data/admin.token")).expect("a token").trim().to_owned()
}

#[tokio::test]
async fn the_first_start_makes_an_admin_token_that_only_the_owner_can_read() {
    let mut server = guarded().await;
    let mode = |name: &str| std::fs::metadata(server.path(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode("data/admin.token"), mode("data/semel.db"), mode("data")), (0o600, 0o600, 0o700));
    let token = admin_token(&server);
    assert!(token.starts_with("sml_"));
    assert!(!server.logs().contains(&token), "the token is in the log");
    server.get("/v1/runs").await.refused(401, "token_missing");
    server.token(&token).get("/v1/runs").await.ok();
    // A later start makes no second one.
    server.restart().await;
    assert_eq!(admin_token(&server), token);
    server.token(&token).get("/v1/runs").await.ok();
}

#[tokio::test]
async fn each_role_may_do_its_part_and_no_more() {
    let server = guarded().await;
    let admin = server.token(&admin_token(&server));
    admin.push(&quick("a")).await;
    let run = admin.trigger_wait("a", Some("k"), json!({"card": "4111"})).await.run_id();
    let statuses = |answers: Vec<Answer>| answers.iter().map(|answer| answer.status).collect::<Vec<_>>();
    // read, trigger, cancel, push, secrets, tokens, metrics
    let expected = [
        ("viewer", [200, 403, 403, 403, 403, 403, 200]),
        ("operator", [200, 200, 409, 403, 403, 403, 200]),
        ("author", [200, 200, 409, 200, 403, 403, 200]),
        ("admin", [200, 200, 409, 200, 200, 200, 200]),
        ("trigger", [403, 200, 403, 403, 403, 403, 403]),
        ("metrics", [403, 403, 403, 403, 403, 403, 200]),
    ];
    for (role, expected) in expected {
        let made = admin.post("/v1/tokens", json!({"name": role, "role": role})).await.ok();
        let api = server.token(made["token"].as_str().expect("a token"));
        let answers = vec![
            api.get(&format!("/v1/runs/{run}")).await,
            api.trigger("a", None, json!({})).await,
            api.post(&format!("/v1/runs/{run}/cancel"), json!({})).await,
            api.put_flow(&quick("b")).await,
            api.put("/v1/secrets/S", json!({"value": "v-1234567"})).await,
            api.get("/v1/tokens").await,
            api.get("/metrics").await,
        ];
        for answer in answers.iter().filter(|answer| answer.status == 403) {
            answer.refused(403, "forbidden");
        }
        assert_eq!(statuses(answers), expected, "{role}");
    }
    // A viewer sees that things happen, not what is in them.
    let made = admin.post("/v1/tokens", json!({"name": "v", "role": "viewer"})).await.ok();
    let viewer = server.token(made["token"].as_str().expect("a token"));
    for path in ["", "/journal", "/logs"] {
        let answer = viewer.get(&format!("/v1/runs/{run}{path}")).await;
        assert!(
            answer.status == 200 && !answer.text.contains("4111") && !answer.text.contains("hello"),
            "{}",
            answer.text
        );
    }
    assert!(admin.get(&format!("/v1/runs/{run}/journal")).await.text.contains("4111"));
}

#[tokio::test]
async fn revoked_and_expired_tokens_are_refused_at_once() {
    let server = guarded().await;
    let admin = server.token(&admin_token(&server));
    let revoked = admin.post("/v1/tokens", json!({"name": "r", "role": "viewer"})).await.ok();
    let api = server.token(revoked["token"].as_str().expect("a token"));
    api.get("/v1/runs").await.ok();
    let id = revoked["id"].as_str().expect("an id");
    assert!((200..300).contains(&admin.delete(&format!("/v1/tokens/{id}")).await.status));
    api.get("/v1/runs").await.refused(401, "token_invalid");
    let short = admin.post("/v1/tokens", json!({"name": "s", "role": "viewer", "expires_in": "PT1S"})).await.ok();
    let api = server.token(short["token"].as_str().expect("a token"));
    clock_reaches(Instant::now(), Duration::from_millis(1_200)).await;
    api.get("/v1/runs").await.refused(401, "token_expired");
    let listed = admin.get("/v1/tokens").await;
    assert!(!listed.text.contains(short["token"].as_str().expect("a token")), "a token is shown once");
}

#[tokio::test]
async fn a_token_sees_its_own_workspace_only() {
    let server = guarded().await;
    let admin = server.token(&admin_token(&server));
    admin.post("/v1/workspaces", json!({"id": "other"})).await.ok();
    let made = admin.post("/v1/tokens", json!({"name": "o", "role": "admin", "workspace": "other"})).await.ok();
    let other = server.token(made["token"].as_str().expect("a token"));
    other.push(&quick("a")).await;
    admin.push(&quick("a")).await;
    let theirs = other.trigger_wait("a", Some("k"), json!({})).await.run_id();
    let ours = admin.trigger_wait("a", Some("k"), json!({})).await.run_id();
    other.put("/v1/kv/e2e/x", json!({"value": 1})).await.ok();
    admin.get("/v1/kv/e2e/x").await.refused(404, "kv_unknown");
    admin.get(&format!("/v1/runs/{theirs}")).await.refused(404, "run_unknown");
    other.get(&format!("/v1/runs/{ours}")).await.refused(404, "run_unknown");
    for path in ["/v1/runs", "/v1/keys", "/v1/decisions"] {
        assert!(!other.get(path).await.text.contains(&ours), "{path}");
        assert!(!admin.get(path).await.text.contains(&theirs), "{path}");
    }
    // The header of --dev means nothing here.
    assert!(!other.workspace("main").get("/v1/runs").await.text.contains(&ours));
    other.get("/v1/workspaces").await.refused(403, "forbidden");
}

#[tokio::test]
async fn health_is_open_and_says_one_word() {
    let server = guarded().await;
    assert_eq!(server.get("/health/live").await.ok(), json!({"status": "ok"}));
    assert_eq!(server.get("/health/ready").await.ok(), json!({"status": "ok"}));
    let described = server.get("/openapi.json").await.ok();
    assert!(described["paths"].get("/v1/workflows/{id}/trigger").is_some());
    server.get("/metrics").await.refused(401, "token_missing");
}

#[tokio::test]
async fn dev_is_refused_where_others_can_reach_it() {
    let server = guarded().await;
    let mut command = server.command();
    command.args(["serve", "--dev", "--listen", "0.0.0.0:0", "--store", "sqlite:elsewhere/semel.db"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("the binary runs")).await.expect("no panic");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!server.path("elsewhere").exists(), "nothing is made before the refusal");
}

#[tokio::test]
async fn a_dev_server_refuses_web_pages_of_others() {
    let server = Server::start().await;
    server.with("origin", "https://evil.example").get("/v1/runs").await.refused(403, "cross_origin");
    server.with("host", "evil.example").get("/v1/runs").await.refused(403, "host_refused");
}

#[tokio::test]
async fn the_command_line_finds_its_token_and_says_what_is_wrong() {
    let server = guarded().await;
    let token = server.path("data/admin.token");
    let path = token.to_str().expect("text");
    let listed = server.cli_json(&["run", "list", "--token-file", path]).await;
    assert_eq!(listed, json!([]));
    let output = server.cli(&["run", "list", "--token", "sml_wrong_token"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let mut command = server.command();
    command.args(["run", "list", "--server", "http://127.0.0.1:9"]);
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("the binary runs")).await.expect("no panic");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
