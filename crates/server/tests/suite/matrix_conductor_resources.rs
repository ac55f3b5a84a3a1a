//! Every route of Conductor's resources with every kind of caller, on a store where each request would do something. The
//! columns are those of the matrix of all routes.

use crate::harness::*;
use axum::body::Body;
use semel_core::WorkspaceId;
use semel_server::Role;
use semel_server::auth::Principal;
use semel_server::routes::{ROUTES, Route, Verb};
use serde_json::{Value as Json, json};

/// What everything in the workspace `main` is called, and nothing elsewhere.
const NAME: &str = "marked-thing";

/// Whether a route is one of these.
pub fn is_own(path: &str) -> bool {
    let bases = ["/api/metadata/tags", "/api/metadata/webhook", "/api/secrets", "/api/environment", "/api/scheduler"];
    let more = ["/api/schema", "/api/event", "/api/human", "/api/webhook", "/webhook"];
    bases.iter().chain(&more).any(|base| path.starts_with(base))
        || path.ends_with("}/tags")
        || path.ends_with("/rate-limit")
}

struct World {
    server: Server,
    human: String,
    tokens: Vec<(Role, String)>,
    stranger: String,
}

struct Case {
    path: String,
    body: String,
    status: u16,
    writes: bool,
    /// What an admin of another workspace gets.
    elsewhere: u16,
}

impl World {
    async fn new() -> World {
        let server = Server::with_tokens();
        let tokens: Vec<(Role, String)> = Role::ALL.map(|role| (role, server.token("main", role, None))).to_vec();
        let admin = tokens.iter().find(|(role, _)| *role == Role::Admin).unwrap().1.clone();
        let stranger = server.token("other", Role::Admin, None);
        let mut world = World { server, human: String::new(), tokens, stranger };
        let task = json!({"name": "t", "taskReferenceName": "t", "type": "HUMAN", "inputParameters":
            {"__humanTaskDefinition": {"assignments": [{"assignee": {"user": "a"}}, {"assignee": {"user": "b"}}]}}});
        let action = json!({"action": "start_workflow", "start_workflow": {"name": NAME}});
        for (method, path, body) in [
            ("POST", "/api/metadata/workflow", json!({"name": NAME, "tasks": [task]})),
            ("POST", "/api/metadata/taskdefs", json!({"name": NAME})),
            ("PUT", "/api/secrets/marked-thing", json!("value")),
            ("PUT", "/api/environment/marked-thing", json!("value")),
            ("POST", "/api/scheduler/schedules", schedule(NAME)),
            ("POST", "/api/metadata/webhook", webhook(NAME)),
            ("POST", "/api/schema", json!({"name": NAME, "version": 1, "type": "JSON"})),
            ("POST", "/api/event", json!({"name": NAME, "event": NAME, "active": true, "actions": [action]})),
            ("POST", "/api/human/template", template(NAME)),
            ("POST", "/api/workflow", json!({"name": NAME})),
        ] {
            world.ask(method, path, &body.to_string(), Some(&admin)).await.expect(200);
        }
        for (kind, base) in [
            ("workflow", "/api/metadata/workflow"),
            ("secrets", "/api/secrets"),
            ("schedule", "/api/scheduler/schedules"),
            ("webhook", "/api/metadata/webhook"),
            ("event", "/api/event"),
            ("environment", "/api/environment"),
            ("task", "/api/metadata/task"),
            ("template", "/api/human/template"),
        ] {
            let tag = json!([{"key": "k", "value": kind}]).to_string();
            world.ask("PUT", &format!("{base}/{NAME}/tags"), &tag, Some(&admin)).await.expect(200);
        }
        let limit = json!({"key": NAME, "value": 9, "type": "RATE_LIMIT"}).to_string();
        let tags = format!("/api/metadata/workflow/{NAME}/tags");
        world.ask("POST", &tags, &limit, Some(&admin)).await.expect(200);
        for _ in 0..2_000 {
            let rows = world.server.store.errands(&WorkspaceId::default(), semel_core::ir::ErrandKind::Human, None, 9);
            if let Some(row) = rows.unwrap().first() {
                world.human = row.id.uuid().to_string();
                return world;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the workflow does not get to its task");
    }

    async fn ask(&self, method: &str, path: &str, body: &str, token: Option<&str>) -> Answer {
        let mut request = request(method, path);
        if let Some(token) = token {
            request = request.header("x-authorization", token);
        }
        if path.contains("webhook/") && !path.contains("/metadata/") {
            request = request.header("x-key", "open");
        }
        self.server.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// All rows but those of the workspace `other`.
    fn stored(&self) -> Json {
        let mut dump = self.server.store.dump().unwrap();
        for rows in dump.as_object_mut().unwrap().values_mut() {
            rows.as_array_mut().unwrap().retain(|row| row["workspace"] != "other");
        }
        dump
    }
}

fn schedule(name: &str) -> Json {
    json!({"name": name, "cronExpression": "0 0 0 1 1 ?", "startWorkflowRequest": {"name": NAME}})
}

fn webhook(name: &str) -> Json {
    json!({"id": name, "name": name, "verifier": "HEADER_BASED", "headers": {"X-Key": "open"},
        "workflowsToStart": {NAME: 1}})
}

fn template(name: &str) -> Json {
    json!({"name": name, "version": 1, "jsonSchema": {}, "templateUI": {}})
}

/// The sample of a route; `None` for a route that nobody thought about.
fn case(route: &Route, world: &World) -> Option<Case> {
    let path = route.path.replace("{name}", NAME).replace("{id}", &world.human).replace("{version}", "1");
    let path = path.replace("{user}", "a").replace("{type}", "kafka");
    let of = |body: Json, writes: bool, elsewhere: u16| Case {
        path: path.clone(),
        body: body.to_string(),
        status: 200,
        writes,
        elsewhere,
    };
    let reads = |elsewhere: u16| Case { body: String::new(), ..of(json!({}), false, elsewhere) };
    let action = json!({"action": "start_workflow", "start_workflow": {"name": "x"}});
    let handler = |name: &str| json!({"name": name, "event": "e", "actions": [action]});
    let tag = json!([{"key": "new", "value": "x"}]);
    Some(match (route.method, route.path) {
        (Verb::Get, path) if path.ends_with("/pause") && path.contains("{name}") => of(json!({}), true, 404),
        // It is not paused: nothing is to be written.
        (_, path) if path.ends_with("/resume") && path.contains("{name}") => of(json!({}), false, 404),
        (Verb::Put, path) if path.ends_with("/pause") && path.contains("{name}") => of(json!({}), true, 404),
        (Verb::Get, "/api/scheduler/admin/pause") => of(json!({}), true, 200),
        (Verb::Get, "/api/scheduler/nextFewSchedules") => {
            Case { path: format!("{path}?cronExpression=@daily"), ..reads(200) }
        }
        (Verb::Get, "/api/scheduler/schedules/tags") => Case { path: format!("{path}?tag=k"), ..reads(200) },
        (Verb::Get, "/api/secrets/{name}/exists") => reads(200),
        (Verb::Get, "/api/event/{name}" | "/api/event/execution/{name}" | "/api/event/message/{name}") => reads(200),
        (Verb::Put, "/api/event/queue/config/{type}/{name}") => Case { status: 400, ..of(json!("x"), false, 400) },
        (_, "/api/event/queue/config/{type}/{name}") => Case { status: 404, ..of(json!({}), false, 404) },
        (Verb::Post, "/api/event/queue/connectivity") => of(json!({"sink": "conductor:x"}), false, 200),
        (Verb::Post, "/api/event/handleIncomingEvent") => of(json!({"event": NAME}), true, 200),
        (_, "/webhook/{name}" | "/api/webhook/{name}") => of(json!({}), true, 200),
        (Verb::Get, path) if path.contains('{') => reads(404),
        (Verb::Get, _) => reads(200),
        (Verb::Put, "/api/metadata/workflow/{name}/rate-limit") => of(json!({"concurrentExecLimit": 2}), true, 404),
        // Its workflow waits for it.
        (Verb::Delete, "/api/human/tasks/delete/{id}") => Case { status: 409, ..of(json!({}), false, 404) },
        (Verb::Delete, "/api/human/tasks/delete") => Case { status: 409, ..of(json!([world.human]), false, 404) },
        (Verb::Delete, path) if path.ends_with("/tags") => of(json!([{"key": "k", "value": kind(path)}]), true, 404),
        (_, path) if path.ends_with("/tags") => of(tag, true, 404),
        (Verb::Delete, _) => of(json!({}), true, 404),
        (Verb::Post, "/api/secrets") => of(json!({}), false, 200),
        (Verb::Put, "/api/secrets/{name}" | "/api/environment/{name}") => of(json!("another"), true, 200),
        (Verb::Post, "/api/scheduler/schedules") => of(schedule("new"), true, 200),
        (Verb::Put, "/api/scheduler/bulk/pause") => of(json!([NAME]), true, 200),
        (Verb::Put, "/api/scheduler/bulk/resume") => of(json!([NAME]), false, 200),
        (Verb::Post, "/api/metadata/webhook") => of(webhook("new"), true, 200),
        (Verb::Put, "/api/metadata/webhook/{name}") => of(webhook("renamed"), true, 404),
        (Verb::Post, "/api/schema") => of(json!({"name": "new", "version": 1}), true, 200),
        (Verb::Post, "/api/event") => of(handler("new"), true, 200),
        (Verb::Put, "/api/event") => of(handler(NAME), true, 404),
        (Verb::Post, "/api/human/template") => of(template("new"), true, 200),
        (Verb::Post, "/api/human/template/bulk") => of(json!([template("new")]), true, 200),
        (Verb::Post, "/api/human/tasks/search") => of(json!({}), false, 200),
        (Verb::Post, "/api/human/tasks/update/taskRef") => {
            let rows = world.server.store.errands(&WorkspaceId::default(), semel_core::ir::ErrandKind::Human, None, 9);
            let run = rows.unwrap()[0].run;
            Case { path: format!("{path}?workflowId={run}&taskRefName=t"), ..of(json!({"a": 1}), true, 404) }
        }
        (Verb::Post, "/api/human/tasks/{id}/reassign") => of(json!([{"assignee": {"user": "c"}}]), true, 404),
        // Nobody has it.
        (Verb::Post, "/api/human/tasks/{id}/release") => of(json!({}), false, 404),
        (Verb::Post, "/api/human/tasks/{id}/claim") => {
            Case { path: format!("{path}?overrideAssignment=true"), ..of(json!({}), true, 404) }
        }
        (Verb::Post, path) if path.starts_with("/api/human/tasks/{id}/") => of(json!({"a": 1}), true, 404),
        _ => return None,
    })
}

/// The value of the tag that a thing has.
fn kind(path: &str) -> &'static str {
    let kinds = ["workflow", "secrets", "schedule", "webhook", "event", "environment", "template", "task"];
    kinds.into_iter().find(|kind| path.contains(kind)).unwrap_or("")
}

fn allows(route: &Route, role: Role) -> bool {
    let workspace = WorkspaceId::default();
    route.access.allows(&Principal { workspace, token_id: String::new(), name: String::new(), role })
}

#[tokio::test]
async fn every_route_of_a_resource_with_every_kind_of_caller() {
    let mut asked = 0;
    for route in ROUTES.iter().filter(|route| is_own(route.path)) {
        let (name, method) = (format!("{} {}", route.method, route.path), route.method.word());
        let world = World::new().await;
        let case = case(route, &world).unwrap_or_else(|| panic!("{name} has no row in this matrix"));
        let before = world.stored();
        if !route.access.is_open() {
            let nobody = world.ask(method, &case.path, &case.body, None).await;
            assert_eq!(nobody.status.as_u16(), 401, "{name}: {}", nobody.text);
        }
        for (role, token) in world.tokens.iter().filter(|(role, _)| !allows(route, *role)) {
            let answer = world.ask(method, &case.path, &case.body, Some(token)).await;
            assert_eq!(answer.status.as_u16(), 403, "{name} as {}: {}", role.word(), answer.text);
            assert!(!answer.text.contains(NAME), "{name}: {}", answer.text);
        }
        assert!(!case.writes || route.access.is_open() || !allows(route, Role::Viewer), "{name}: a viewer writes");
        if route.path.starts_with("/api/secrets") && case.writes {
            assert!(!allows(route, Role::Author), "{name}: only an admin may");
        }
        if !route.access.is_open() {
            let answer = world.ask(method, &case.path, &case.body, Some(&world.stranger)).await;
            assert_eq!(answer.status.as_u16(), case.elsewhere, "{name} elsewhere: {}", answer.text);
        }
        assert_eq!(world.stored(), before, "{name}: somebody who may not has changed something");
        let reach = |role: Role| ROUTES.iter().filter(|route| allows(route, role)).count();
        let may = world.tokens.iter().filter(|(role, _)| allows(route, *role)).min_by_key(|(role, _)| reach(*role));
        let (role, token) = may.expect("somebody may");
        let answer = world.ask(method, &case.path, &case.body, Some(token)).await;
        assert_eq!(answer.status.as_u16(), case.status, "{name} as {}: {}", role.word(), answer.text);
        assert_eq!(world.stored() != before, case.writes, "{name} as {}: did it write?", role.word());
        asked += 1;
    }
    assert!(asked > 80, "{asked} routes were asked");
}
