//! Every route of the table, with every kind of caller.

use crate::harness::*;
use axum::body::Body;
use semel_core::WorkspaceId;
use semel_server::Role;
use semel_server::auth::{Access, Principal};
use semel_server::routes::{ROUTES, Route};
use serde_json::json;

fn path(route: &Route) -> String {
    let fill = |part: &str| match part {
        "{tenant}" => "main".to_owned(),
        part if part.starts_with('{') => "00000000-0000-7000-8000-000000000000".to_owned(),
        part => part.to_owned(),
    };
    route.path.split('/').map(fill).collect::<Vec<_>>().join("/")
}

async fn ask(server: &Server, route: &Route, token: Option<&str>) -> Answer {
    let mut request = request(route.method.word(), &path(route));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    // Some values are any text.
    let texts = ["/kv/{key}", "/api/secrets/{name}", "/api/environment/{name}"];
    let takes_all = texts.iter().any(|end| route.path.ends_with(end)) && route.path.starts_with("/api/");
    let body: &[u8] = if takes_all { b"\xff" } else { b"{}" };
    server.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn every_route_refuses_every_caller_it_should_and_changes_nothing() {
    let server = Server::with_tokens();
    let expired = server.token("main", Role::Admin, Some(0));
    let tokens: Vec<(Role, &str, String)> = ["main", "other"]
        .into_iter()
        .flat_map(|w| Role::ALL.map(|role| (role, w, server.token(w, role, None))))
        .collect();
    let forged = {
        let token = &tokens[0].2;
        format!("{}{}", &token[..token.len() - 2], if token.ends_with("AA") { "BB" } else { "AA" })
    };
    let mut checked = 0;
    for route in ROUTES {
        let name = format!("{} {}", route.method, route.path);
        let before = server.store.dump().unwrap();
        if route.access.is_open() {
            let status = ask(&server, route, None).await.status;
            // Whoever asks for a token has to show the parts of one.
            let shows_its_own = route.path == "/api/token";
            assert!((status != 401 && status != 403) || shows_its_own, "{name}: {status}");
        } else {
            ask(&server, route, None).await.refused(401, "token_missing");
            ask(&server, route, Some("sml_nonsense")).await.refused(401, "token_invalid");
            ask(&server, route, Some(&forged)).await.refused(401, "token_invalid");
            ask(&server, route, Some(&expired)).await.refused(401, "token_expired");
        }
        for (role, workspace, token) in &tokens {
            let principal = Principal {
                workspace: WorkspaceId(workspace.to_string()),
                token_id: String::new(),
                name: String::new(),
                role: *role,
            };
            let answer = ask(&server, route, Some(token)).await;
            if route.path.contains("{tenant}") && *workspace != "main" && !route.access.is_open() {
                // Whatever the role: this tenant is not there for them.
                answer.refused(404, "workspace_unknown");
            } else if route.access.allows(&principal) {
                assert!(
                    (answer.status != 401 && answer.status != 403) || route.path == "/api/token",
                    "{name} as {} of {workspace}: {}",
                    role.word(),
                    answer.text
                );
            } else {
                answer.refused(403, "forbidden");
            }
            checked += 1;
        }
        assert_eq!(server.store.dump().unwrap(), before, "{name} changed something");
    }
    assert_eq!(checked, ROUTES.len() * 12);
    assert!(ROUTES.iter().any(|route| route.access == Access::MainAdmin));
}

#[tokio::test]
async fn every_described_path_is_routed() {
    let server = Server::start();
    let document = server.get("/openapi.json").await.expect(200).json;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let filled = path
                .split('/')
                .map(|part| if part.starts_with('{') { "x" } else { part })
                .collect::<Vec<_>>()
                .join("/");
            let answer = server.send(request(&method.to_uppercase(), &filled).body(Body::empty()).unwrap()).await;
            assert_ne!(answer.json["code"], "path_not_found", "{method} {path}");
            assert_ne!(answer.json["code"], "method_not_allowed", "{method} {path}");
        }
    }
    server.get("/v1/nothing").await.refused(404, "path_not_found");
    let wrong = server.json("POST", "/health/live", json!({})).await.refused(405, "method_not_allowed");
    assert_eq!(wrong.headers["allow"], "GET");
    server.get("/v1/runs?stauts=held").await.refused(400, "query_invalid");
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_the_next_request() {
    let server = Server::with_tokens();
    let admin = server.token("main", Role::Admin, None);
    let as_admin = |method: &str, path: &str| request(method, path).header("authorization", format!("Bearer {admin}"));
    let create = as_admin("POST", "/v1/tokens")
        .body(Body::from(json!({"name": "ci", "role": "viewer", "expires_in": "PT1H"}).to_string()))
        .unwrap();
    let made = server.send(create).await.expect(200).json;
    let token = made["token"].as_str().unwrap().to_owned();
    let use_it =
        || request("GET", "/v1/runs").header("authorization", format!("Bearer {token}")).body(Body::empty()).unwrap();
    server.send(use_it()).await.expect(200);
    let listed = server.send(as_admin("GET", "/v1/tokens").body(Body::empty()).unwrap()).await.expect(200);
    let secret = token.rsplit('_').next().unwrap();
    assert!(listed.text.contains(made["id"].as_str().unwrap()) && !listed.text.contains(secret));
    // Another workspace's admin cannot see or revoke it; both look like a missing one.
    let stranger = server.token("other", Role::Admin, None);
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    let foreign =
        request("DELETE", &path).header("authorization", format!("Bearer {stranger}")).body(Body::empty()).unwrap();
    server.send(foreign).await.refused(404, "token_unknown");
    let cross = request("POST", "/v1/tokens").header("authorization", format!("Bearer {stranger}"));
    let cross = cross.body(Body::from(json!({"name": "x", "role": "admin", "workspace": "main"}).to_string())).unwrap();
    server.send(cross).await.refused(403, "forbidden");
    server.send(as_admin("DELETE", &path).body(Body::empty()).unwrap()).await.expect(204);
    server.send(use_it()).await.refused(401, "token_invalid");
    server
        .send(as_admin("DELETE", "/v1/tokens/0123456789abcdef").body(Body::empty()).unwrap())
        .await
        .refused(404, "token_unknown");
}

#[tokio::test]
async fn a_viewer_sees_that_runs_happen_and_not_what_is_in_them() {
    let server = Server::with_tokens();
    let (author, viewer) = (server.token("main", Role::Author, None), server.token("main", Role::Viewer, None));
    let send = |token: &str, method: &str, path: &str, body: String| {
        server.send(
            request(method, path)
                .header("authorization", format!("Bearer {token}"))
                .header("prefer", "wait=20")
                .body(Body::from(body))
                .unwrap(),
        )
    };
    send(&author, "PUT", "/v1/workflows", FAILS.to_owned()).await.expect(200);
    let body = json!({"workflow_id": "fails", "inputs": {}, "labels": {"who": "x"}}).to_string();
    send(&author, "PUT", "/v1/workflows", ECHO.to_owned()).await.expect(200);
    let failed = send(&author, "POST", "/v1/runs", body).await.expect(200).run_id();
    let body = json!({"workflow_id": "echo", "inputs": {"amount": 987654}}).to_string();
    let echoed = send(&author, "POST", "/v1/runs", body).await.expect(200).run_id();
    send(&author, "PUT", "/v1/kv/shop/k", json!({"value": 987654}).to_string()).await.expect(200);
    let paths = [
        "/v1/runs".to_owned(),
        format!("/v1/runs/{echoed}"),
        format!("/v1/runs/{echoed}/journal"),
        format!("/v1/runs/{echoed}/logs"),
        format!("/v1/runs/{echoed}/steps"),
        format!("/v1/runs/{failed}"),
        format!("/v1/runs/{failed}/journal"),
        "/v1/kv/shop".to_owned(),
        "/v1/kv/shop/k".to_owned(),
        "/v1/decisions".to_owned(),
    ];
    for path in &paths {
        let answer = send(&viewer, "GET", path, String::new()).await.expect(200);
        assert!(!answer.text.contains("987654") && !answer.text.contains("4111"), "{path}: {}", answer.text);
    }
    assert!(send(&author, "GET", &paths[2], String::new()).await.expect(200).text.contains("987654"));
    assert!(send(&author, "GET", &paths[6], String::new()).await.expect(200).text.contains("4111"));
}
