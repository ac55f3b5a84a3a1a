//! Every route with every kind of caller, on a store where each request would do something.
//!
//! | caller | answer | store |
//! |---|---|---|
//! | nobody, nonsense, a forged, an expired, a revoked token | 401 | as before |
//! | a role that is too narrow | 403 | as before |
//! | the same role in another workspace | what a caller there gets for something that does not exist | this workspace as before |
//! | the narrowest role that may, and an admin | done | a write is there |
//!
//! The last row is what makes the others mean something: a request that changes nothing for anybody proves nothing.

use crate::harness::*;
use crate::matrix_conductor;
use axum::body::Body;
use semel_core::{Door, WorkspaceId};
use semel_server::Role;
use semel_server::auth::{Access, Principal};
use semel_server::routes::{ROUTES, Route, Verb};
use serde_json::{Value as Json, json};

const HOOKED: &str = "
id: hooked
namespace: shop
triggers:
  - {id: hook, type: trigger.Webhook, key: opens}
tasks:
  - {id: say, type: log.Log, message: hi}
";

/// A text that is found in whatever is read of the workspace `main`.
const MARK: &str = "mark-of-main";

/// A server with one of everything in the workspace `main`, and nothing in `other`.
pub struct World {
    server: Server,
    pub done: String,
    pub failed: String,
    pub held: String,
    pub live: String,
    /// A workflow of Conductor's that waits, and the task of it that a worker may take.
    pub workflow: String,
    pub task: String,
    token_id: String,
    revoked: String,
}

impl World {
    async fn new() -> World {
        let server = Server::with_tokens();
        let admin = server.token("main", Role::Admin, None);
        let send = |method: &'static str, path: &str, body: String| {
            let request = request(method, path).header("authorization", format!("Bearer {admin}"));
            server.send(request.header("prefer", "wait=20").body(Body::from(body)).unwrap())
        };
        for flow in [ECHO, CALL, FAILS, LOST, HOOKED] {
            send("PUT", "/v1/workflows", flow.to_owned()).await.expect(200);
        }
        let start = |flow: &str, key: &str| {
            json!({"workflow_id": flow, "key": key, "labels": {"l": MARK}, "correlation_id": MARK}).to_string()
        };
        let done = send("POST", "/v1/runs", start("echo", MARK)).await.expect(200).run_id();
        let failed = send("POST", "/v1/runs", start("fails", "k2")).await.expect(200).run_id();
        let held = send("POST", "/v1/runs", start("lost", "k3")).await.expect(200);
        assert_eq!(held.json["status"], "held", "{}", held.text);
        server.hold_effects();
        let request_live = request("POST", "/v1/runs").header("authorization", format!("Bearer {admin}"));
        let live = server.send(request_live.body(Body::from(start("call", "k4"))).unwrap()).await.expect(200).run_id();
        let definition = matrix_conductor::definition(matrix_conductor::WORKFLOW, MARK).to_string();
        send("POST", "/api/metadata/workflow", definition).await.expect(200);
        let task = json!({"name": matrix_conductor::TASK, "description": MARK}).to_string();
        send("POST", "/api/metadata/taskdefs", task).await.expect(200);
        let start_workflow = json!({"name": matrix_conductor::WORKFLOW, "correlationId": MARK}).to_string();
        let workflow = send("POST", "/api/workflow", start_workflow).await.expect(200).text;
        send("PUT", "/v1/kv/shop/k", json!({"value": MARK}).to_string()).await.expect(200);
        send("PUT", "/v1/secrets/MARKED", json!({"value": "hunter2hunter2"}).to_string()).await.expect(200);
        let make = json!({"name": MARK, "role": "viewer"}).to_string();
        let spare = send("POST", "/v1/tokens", make.clone()).await.expect(200).json;
        let gone =
            send("POST", "/v1/tokens", json!({"name": "gone", "role": "admin"}).to_string()).await.expect(200).json;
        send("DELETE", &format!("/v1/tokens/{}", gone["id"].as_str().unwrap()), String::new()).await.expect(204);
        let text = |json: &Json, name: &str| json[name].as_str().unwrap().to_owned();
        let task = World::errand(&server, &workflow).await;
        let world = World {
            workflow,
            task,
            done,
            failed,
            held: held.run_id(),
            live,
            token_id: text(&spare, "id"),
            revoked: text(&gone, "token"),
            server,
        };
        world.quiet().await;
        world
    }

    /// The task for workers of a workflow, once both of its tasks are out.
    async fn errand(server: &Server, workflow: &str) -> String {
        for _ in 0..2_000 {
            let (workspace, run) = (WorkspaceId::default(), workflow.parse().unwrap());
            let rows = server.store.errands_of(&workspace, run).unwrap();
            if let (2, Some(row)) = (rows.len(), rows.iter().find(|row| row.queue == matrix_conductor::TASK)) {
                return row.id.uuid().to_string();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the workflow does not get to its tasks");
    }

    /// Until the live run's call is out and waits at the gate: from then on nothing happens by itself.
    async fn quiet(&self) {
        for _ in 0..2_000 {
            let dump = self.server.store.dump().unwrap();
            let mut effects = dump["effects"].as_array().unwrap().iter();
            if effects.any(|effect| effect["run"] == self.live.as_str() && effect["state"] == "intent") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the live run does not get to its call");
    }

    /// A request about what there is, as one about what is not there.
    fn forgotten(&self, text: String) -> String {
        let text = text.replace(&self.workflow, NO_RUN).replace(&self.task, NO_RUN);
        text.replace(matrix_conductor::WORKFLOW, "nothing-here").replace(matrix_conductor::TASK, "nothing-here")
    }

    /// All rows but those of the workspace `other`.
    fn stored(&self) -> Json {
        let mut dump = self.server.store.dump().unwrap();
        for rows in dump.as_object_mut().unwrap().values_mut() {
            rows.as_array_mut().unwrap().retain(|row| row["workspace"] != "other" && row["id"] != "other");
        }
        dump
    }

    async fn ask(&self, sample: &Sample, token: Option<&str>) -> Answer {
        let mut request = request(sample.method, &sample.path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.server.send(request.body(Body::from(sample.body.clone())).unwrap()).await
    }
}

/// What another workspace's caller gets for the same request.
pub enum Elsewhere {
    /// The answer to something that does not exist, word for word.
    Missing(&'static str),
    /// An answer about its own workspace, with nothing of this one in it.
    Own,
    /// Not even an admin there may.
    Forbidden,
}

/// One request that does what its route is for.
struct Sample {
    method: &'static str,
    path: String,
    body: String,
    status: u16,
    writes: bool,
    elsewhere: Elsewhere,
    /// The same request about something that does not exist.
    missing: Option<String>,
}

const NO_RUN: &str = "00000000-0000-7000-8000-000000000000";

/// The sample of a route; `None` for a route that nobody thought about.
fn sample(route: &Route, world: &World) -> Option<Sample> {
    use Elsewhere::{Forbidden, Missing, Own};
    let read = |path: String, elsewhere| (path, String::new(), 200, false, elsewhere);
    let write = |path: String, body: Json, elsewhere| (path, body.to_string(), 200, true, elsewhere);
    let run = |run: &str, rest: &str| format!("/v1/runs/{run}{rest}");
    let (done, held, failed, live) = (&world.done, &world.held, &world.failed, &world.live);
    let (path, body, status, writes, elsewhere) = match (route.method, route.path) {
        (Verb::Get, "/health/live" | "/health/ready" | "/metrics" | "/openapi.json") => {
            read(route.path.to_owned(), Own)
        }
        (Verb::Post, "/v1/workflows/{id}/trigger") => {
            write("/v1/workflows/shop:echo/trigger".into(), json!({"data": {}}), Missing("flow_unknown"))
        }
        (Verb::Get | Verb::Post | Verb::Put, "/v1/webhooks/{namespace}/{flow}/{key}") => {
            write("/v1/webhooks/shop/hooked/opens".into(), json!({}), Own)
        }
        (Verb::Get, "/v1/workflows") => read("/v1/workflows".into(), Own),
        (Verb::Put, "/v1/workflows") => {
            let (path, _, status, writes, elsewhere) = write("/v1/workflows".into(), json!({}), Own);
            (path, ECHO.replace("echo", "echo2"), status, writes, elsewhere)
        }
        (Verb::Post, "/v1/workflows/validate") => ("/v1/workflows/validate".into(), ECHO.to_owned(), 200, false, Own),
        (Verb::Get, "/v1/workflows/{id}") => read("/v1/workflows/shop:echo".into(), Missing("flow_unknown")),
        (Verb::Get, "/v1/workflows/{id}/revisions") => {
            read("/v1/workflows/shop:echo/revisions".into(), Missing("flow_unknown"))
        }
        (Verb::Post, "/v1/runs") => {
            write("/v1/runs".into(), json!({"workflow_id": "shop:echo"}), Missing("flow_unknown"))
        }
        (Verb::Get, "/v1/runs") => read(format!("/v1/runs?label=l:{MARK}"), Own),
        (Verb::Get, "/v1/runs/{id}") => read(run(done, ""), Missing("run_unknown")),
        (Verb::Delete, "/v1/runs/{id}") => (run(done, ""), String::new(), 204, true, Missing("run_unknown")),
        (Verb::Post, "/v1/runs/{id}/erase") => (run(done, "/erase"), String::new(), 204, true, Missing("run_unknown")),
        (Verb::Get, "/v1/runs/{id}/journal") => read(run(done, "/journal"), Missing("run_unknown")),
        (Verb::Get, "/v1/runs/{id}/logs") => read(run(done, "/logs"), Missing("run_unknown")),
        (Verb::Get, "/v1/runs/{id}/steps") => read(run(held, "/steps"), Missing("run_unknown")),
        (Verb::Get, "/v1/runs/{id}/children") => read(run(done, "/children"), Missing("run_unknown")),
        (Verb::Get, "/v1/runs/{id}/replays") => read(run(done, "/replays"), Missing("run_unknown")),
        (Verb::Get, "/v1/runs/{id}/follow") => read(run(done, "/follow"), Missing("run_unknown")),
        (Verb::Post, "/v1/runs/{id}/cancel") => write(run(live, "/cancel"), json!({}), Missing("run_unknown")),
        (Verb::Post, "/v1/runs/{id}/pause") => write(run(live, "/pause"), json!({}), Missing("run_unknown")),
        (Verb::Post, "/v1/runs/{id}/resume") => write(run(live, "/resume"), json!({}), Missing("run_unknown")),
        // No restore holds this one: whoever may ask is told so.
        (Verb::Post, "/v1/runs/{id}/release") => {
            (run(live, "/release"), json!({}).to_string(), 409, false, Missing("run_unknown"))
        }
        (Verb::Post, "/v1/check") => ("/v1/check".into(), json!({}).to_string(), 200, false, Own),
        (Verb::Post, "/v1/runs/{id}/restart") => write(run(failed, "/restart"), json!({}), Missing("run_unknown")),
        (Verb::Post, "/v1/runs/{id}/replay") => write(run(done, "/replay"), json!({}), Missing("run_unknown")),
        (Verb::Post, "/v1/runs/{id}/verdict") => {
            write(run(held, "/verdict"), json!({"verdict": "fail", "why": "x"}), Missing("run_unknown"))
        }
        (Verb::Get, "/v1/keys") => read(format!("/v1/keys?key={MARK}"), Own),
        (Verb::Get, "/v1/keys/show") => read(format!("/v1/keys/show?key={MARK}"), Own),
        (Verb::Post, "/v1/keys/explain") => {
            let (path, body, status, _, elsewhere) =
                write("/v1/keys/explain".into(), json!({"key": MARK}), Missing("decision_unknown"));
            (path, body, status, false, elsewhere)
        }
        (Verb::Post, "/v1/keys/release") => write(
            "/v1/keys/release".into(),
            json!({"key": MARK, "scope": "flow:shop:echo", "why": "x"}),
            Missing("key_unknown"),
        ),
        (Verb::Get, "/v1/decisions") => read(format!("/v1/decisions?key={MARK}"), Own),
        (Verb::Get, "/v1/refusals") => read("/v1/refusals".into(), Own),
        (Verb::Get, "/v1/schedules") => read("/v1/schedules".into(), Own),
        (Verb::Get, "/v1/kv/{namespace}") => read("/v1/kv/shop".into(), Own),
        (Verb::Get, "/v1/kv/{namespace}/{key}") => read("/v1/kv/shop/k".into(), Missing("kv_unknown")),
        (Verb::Put, "/v1/kv/{namespace}/{key}") => write("/v1/kv/shop/k".into(), json!({"value": 2}), Own),
        (Verb::Delete, "/v1/kv/{namespace}/{key}") => {
            ("/v1/kv/shop/k".into(), String::new(), 204, true, Missing("kv_unknown"))
        }
        (Verb::Get, "/v1/secrets") => read("/v1/secrets".into(), Own),
        (Verb::Put, "/v1/secrets/{name}") => write("/v1/secrets/MARKED".into(), json!({"value": "another-one"}), Own),
        (Verb::Delete, "/v1/secrets/{name}") => {
            ("/v1/secrets/MARKED".into(), String::new(), 204, true, Missing("secret_unknown"))
        }
        (Verb::Get, "/v1/tokens") => read("/v1/tokens".into(), Own),
        (Verb::Post, "/v1/tokens") => write("/v1/tokens".into(), json!({"name": "n", "role": "viewer"}), Own),
        (Verb::Delete, "/v1/tokens/{id}") => {
            (format!("/v1/tokens/{}", world.token_id), String::new(), 204, true, Missing("token_unknown"))
        }
        (Verb::Get, "/v1/nodes") => read("/v1/nodes".into(), Forbidden),
        (Verb::Get, "/v1/workspaces") => read("/v1/workspaces".into(), Forbidden),
        (Verb::Post, "/v1/workspaces") => write("/v1/workspaces".into(), json!({"id": "third"}), Forbidden),
        (_, path) if path.starts_with("/api/v1/") => crate::matrix_kestra::sample(route, world)?,
        _ => matrix_conductor::sample(route, world)?,
    };
    let missing = matches!(elsewhere, Missing(_)).then(|| {
        let unknown = path.replace(&*world.token_id, "0123456789abcdef").replace("shop:echo", "shop:nothing");
        let unknown = [done, held, failed, live].into_iter().fold(unknown, |path, id| path.replace(&**id, NO_RUN));
        let unknown = unknown.replace("/api/v1/main/", "/api/v1/nowhere/");
        let unknown = world.forgotten(unknown);
        unknown.replace("/kv/shop/k", "/kv/shop/nothing").replace("MARKED", "NOTHING")
    });
    Some(Sample { method: route.method.word(), path, body, status, writes, elsewhere, missing })
}

fn principal(workspace: &str, role: Role) -> Principal {
    Principal { workspace: WorkspaceId(workspace.into()), token_id: String::new(), name: String::new(), role }
}

/// What is said, without the names that the caller itself sent.
fn wording(world: &World, answer: &Answer) -> String {
    let mut said: Json = serde_json::from_str(&world.forgotten(answer.json.to_string())).unwrap();
    // The Kestra door says which path was asked for.
    said["_links"] = Json::Null;
    let named = ["shop:echo", "shop:nothing", MARK, "nothing-here"];
    let text = said["detail"].as_str().unwrap_or("").to_owned();
    said["detail"] = named.iter().fold(text, |text, name| text.replace(name, "…")).into();
    format!("{} {said}", answer.status)
}

async fn refused_callers(world: &World, route: &Route, sample: &Sample, name: &str) {
    let server = &world.server;
    let expired = server.token("main", Role::Admin, Some(0));
    let tokens: Vec<(Role, String)> = Role::ALL.map(|role| (role, server.token("main", role, None))).to_vec();
    let (_, whole) = tokens.last().unwrap();
    let forged = format!("{}{}", &whole[..whole.len() - 2], if whole.ends_with("AA") { "BB" } else { "AA" });
    let before = world.stored();
    for (token, code) in [
        (None, "token_missing"),
        (Some("sml_nonsense"), "token_invalid"),
        (Some(forged.as_str()), "token_invalid"),
        (Some(expired.as_str()), "token_expired"),
        (Some(world.revoked.as_str()), "token_invalid"),
    ] {
        let answer = world.ask(sample, token).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json["code"].as_str()),
            (401, Some(code)),
            "{name}: {}",
            answer.text
        );
        assert!(!answer.text.contains(MARK), "{name}: {}", answer.text);
    }
    for (role, token) in &tokens {
        if !route.access.allows(&principal("main", *role)) {
            let answer = world.ask(sample, Some(token)).await;
            assert_eq!(answer.status, 403, "{name} as {}: {}", role.word(), answer.text);
            assert!(!answer.text.contains(MARK), "{name}: {}", answer.text);
        }
    }
    assert_eq!(world.stored(), before, "{name}: a refused caller changed something");
}

/// The table says who may; these are the lines that no row may cross.
fn roles_fit(route: &Route, sample: &Sample, name: &str) {
    let may = |role| route.access.allows(&principal("main", role));
    let open = route.access.is_open();
    assert!(may(Role::Admin), "{name}: an admin may do everything");
    assert!(open || !sample.writes || !may(Role::Viewer), "{name}: a viewer writes");
    assert!(open || !may(Role::Metrics) || route.path == "/metrics", "{name}: a metrics token does more");
    assert!(
        open || !may(Role::Trigger)
            || route.path.ends_with("/trigger")
            || matches!(route.door, Some(Door::Kestra | Door::Conductor)),
        "{name}: a trigger token does more"
    );
    let keys_to_the_house =
        ["/v1/tokens", "/v1/nodes", "/v1/workspaces"].iter().any(|path| route.path.starts_with(path));
    let secrets = route.path.starts_with("/v1/secrets") && sample.writes;
    assert!(!(keys_to_the_house || secrets) || !may(Role::Author), "{name}: only an admin may");
}

async fn callers_elsewhere(world: &World, route: &Route, sample: &Sample, name: &str) {
    let stranger = world.server.token("other", Role::Admin, None);
    let before = world.stored();
    let answer = world.ask(sample, Some(&stranger)).await;
    match sample.elsewhere {
        Elsewhere::Missing(code) => {
            assert_eq!(answer.json["code"], code, "{name}: {}", answer.text);
            let path = sample.missing.clone().unwrap();
            let body = sample.body.replace("shop:echo", "shop:nothing").replace(MARK, "nothing-here");
            let body = world.forgotten(body);
            let nothing = Sample { path, body, elsewhere: Elsewhere::Own, missing: None, ..*sample };
            let missing = world.ask(&nothing, Some(&stranger)).await;
            assert_eq!(
                wording(world, &answer),
                wording(world, &missing),
                "{name}: a foreign thing is told from a missing one"
            );
        }
        Elsewhere::Own if route.access.is_open() => return,
        Elsewhere::Own => {
            assert!(answer.status.is_success(), "{name}: {}", answer.text);
            let name_of_its_own = sample.path.contains("MARKED");
            let shown = !answer.text.contains(MARK)
                && (name_of_its_own || !answer.text.contains("MARKED"))
                && !answer.text.contains(&world.done);
            assert!(shown, "{name} shows another workspace: {}", answer.text);
        }
        Elsewhere::Forbidden => {
            assert_eq!(answer.status, 403, "{name}: {}", answer.text);
        }
    }
    assert_eq!(world.stored(), before, "{name}: a caller of another workspace changed something");
}

/// The narrowest role that may, on a world of its own, and an admin on another.
async fn callers_who_may(route: &Route, name: &str) {
    let narrowest = Role::ALL.into_iter().filter(|role| route.access.allows(&principal("main", *role)));
    let reach = |role: &Role| ROUTES.iter().filter(|route| route.access.allows(&principal("main", *role))).count();
    let narrowest = narrowest.min_by_key(reach);
    for role in [narrowest.expect("somebody may"), Role::Admin] {
        let world = World::new().await;
        let sample = sample(route, &world).unwrap();
        let token = world.server.token("main", role, None);
        if route.path.ends_with("/{id}/resume") {
            let pause = Sample {
                path: sample.path.replace("/resume", "/pause"),
                elsewhere: Elsewhere::Own,
                missing: None,
                body: "{}".into(),
                ..sample
            };
            assert!(world.ask(&pause, Some(&token)).await.status.is_success(), "{name}: no pause");
        }
        let before = world.stored();
        let answer = world.ask(&sample, Some(&token)).await;
        assert_eq!(answer.status.as_u16(), sample.status, "{name} as {}: {}", role.word(), answer.text);
        assert_eq!(world.stored() != before, sample.writes, "{name} as {}: did it write?", role.word());
    }
}

#[tokio::test]
async fn every_route_with_every_kind_of_caller() {
    let mut asked = 0;
    // Those have a world of their own.
    let resources = |route: &&Route| crate::matrix_conductor_resources::is_own(route.path);
    for route in ROUTES.iter().filter(|route| !resources(route)) {
        let name = format!("{} {}", route.method, route.path);
        let world = World::new().await;
        let sample = sample(route, &world).unwrap_or_else(|| panic!("{name} has no row in this matrix"));
        if !route.access.is_open() {
            refused_callers(&world, route, &sample, &name).await;
        }
        roles_fit(route, &sample, &name);
        callers_elsewhere(&world, route, &sample, &name).await;
        callers_who_may(route, &name).await;
        asked += 1;
    }
    assert_eq!(asked, ROUTES.iter().filter(|route| !resources(route)).count());
    assert!(ROUTES.iter().any(|route| route.access == Access::MainAdmin));
}

/// Health says one word, the description nothing about anybody, and a webhook wants its key.
#[tokio::test]
async fn open_routes_tell_nothing_of_a_workspace() {
    let world = World::new().await;
    for route in ROUTES.iter().filter(|route| route.access == Access::Open && route.method == Verb::Get) {
        let answer = world.server.get(route.path).await.expect(200);
        assert!(!answer.text.contains(MARK) && !answer.text.contains("MARKED"), "{}: {}", route.path, answer.text);
    }
    let before = world.stored();
    let wrong =
        world.server.json("POST", "/v1/webhooks/shop/hooked/opensX", json!({})).await.refused(404, "webhook_unknown");
    let missing = world.server.json("POST", "/v1/webhooks/shop/nothing/opens", json!({})).await;
    let elsewhere = world.server.json("POST", "/v1/webhooks/shop/hooked/opens?workspace=other", json!({})).await;
    assert_eq!((&wrong.text, &wrong.text), (&missing.text, &elsewhere.text));
    assert_eq!(world.stored(), before);
}
