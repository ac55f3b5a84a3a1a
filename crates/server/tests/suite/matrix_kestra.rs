//! The rows of the matrix that are the Kestra door's. A tenant that is not the caller's answers as one that is not there.

use crate::matrix::{Elsewhere, World};
use semel_server::routes::{Route, Verb};

/// Path, body, status, whether it writes, and what a caller of another workspace gets.
pub type Row = (String, String, u16, bool, Elsewhere);

/// The sample of a route; `None` for a route that nobody thought about.
pub fn sample(route: &Route, world: &World) -> Option<Row> {
    let rest = route.path.strip_prefix("/api/v1/{tenant}")?;
    let row = |path: String, body: &str, status: u16, writes: bool| {
        (format!("/api/v1/main{path}"), body.to_owned(), status, writes, Elsewhere::Missing("workspace_unknown"))
    };
    let read = |path: String| row(path, "", 200, false);
    let run = |run: &str, rest: &str| format!("/executions/{run}{rest}");
    Some(match (route.method, rest) {
        (Verb::Get, "/executions/{id}") => read(run(&world.done, "")),
        (Verb::Delete, "/executions/{id}") => row(run(&world.done, ""), "", 204, true),
        (Verb::Get, "/executions") => read("/executions?namespace=shop&flowId=echo".into()),
        (Verb::Get, "/executions/search") => read("/executions/search?filters[namespace][EQUALS]=shop".into()),
        (Verb::Post, "/executions/latest") => {
            row("/executions/latest".into(), r#"[{"namespace":"shop","id":"echo"}]"#, 200, false)
        }
        (Verb::Post, "/executions/{namespace}/{id}") => row("/executions/shop/echo".into(), "", 200, true),
        (Verb::Post, "/executions/trigger/{namespace}/{id}") => {
            row("/executions/trigger/shop/echo".into(), "", 200, true)
        }
        (Verb::Post, "/executions/{namespace}/{id}/validate") => {
            row("/executions/shop/echo/validate".into(), "", 200, false)
        }
        (_, path) if path.starts_with("/executions/webhook/") => {
            let rest = if path.ends_with("/{path}") { "/more" } else { "" };
            let path = format!("/executions/webhook/shop/hooked/opens{rest}");
            let (path, body, status, writes, _) = row(path, "{}", 200, true);
            (path, body, status, writes, Elsewhere::Own)
        }
        (
            Verb::Get,
            "/executions/{id}/follow"
            | "/executions/{id}/follow-dependencies"
            | "/executions/{id}/flow"
            | "/executions/{id}/graph",
        ) => read(run(&world.done, rest.trim_start_matches("/executions/{id}"))),
        (Verb::Get, "/executions/namespaces") => read("/executions/namespaces".into()),
        (Verb::Get, "/executions/namespaces/{namespace}/flows") => read("/executions/namespaces/shop/flows".into()),
        (Verb::Get, "/executions/flows/{namespace}/{flow}") => read("/executions/flows/shop/echo".into()),
        // It has no file: whoever may ask is told so.
        (Verb::Get, path) if path.starts_with("/executions/{id}/file") => {
            let address = format!("kestra:///shop/echo/executions/{}/x", world.done);
            let path = format!("{}?path={address}", path.trim_start_matches("/executions/{id}"));
            row(run(&world.done, &path), "", 404, false)
        }
        // It stands at none: whoever may ask is told so.
        (Verb::Post, "/executions/{id}/resume-from-breakpoint") => {
            row(run(&world.live, "/resume-from-breakpoint"), "", 409, false)
        }
        (Verb::Post, "/executions/{id}/actions/review") => {
            row(run(&world.live, "/actions/review?decision=APPROVE"), "", 409, false)
        }
        (Verb::Post, "/executions/{id}/resume/validate") => row(run(&world.live, "/resume/validate"), "", 409, false),
        (Verb::Post, "/executions/{id}/eval") => row(run(&world.done, "/eval"), "{{ flow.id }}", 200, false),
        (Verb::Post, "/executions/{id}/eval/{taskRunId}") => row(run(&world.done, "/eval/no-such"), "x", 404, false),
        (Verb::Delete, "/executions/{id}/kill") => row(run(&world.live, "/kill"), "", 202, true),
        (Verb::Post, "/executions/{id}/restart") => row(run(&world.failed, "/restart"), "", 200, true),
        (Verb::Post, "/executions/{id}/pause") => row(run(&world.live, "/pause"), "", 204, true),
        (Verb::Post, "/executions/{id}/resume") => row(run(&world.live, "/resume"), "", 204, true),
        (Verb::Post, "/executions/{id}/replay" | "/executions/{id}/replay-with-inputs") => {
            row(run(&world.done, rest.trim_start_matches("/executions/{id}")), "", 200, true)
        }
        // Nothing waits: whoever may ask is told so.
        (Verb::Post, "/executions/{id}/force-run") => row(run(&world.done, "/force-run"), "", 422, false),
        (Verb::Post, "/executions/{id}/unqueue") => row(run(&world.done, "/unqueue"), "", 422, false),
        (Verb::Post, "/executions/{id}/change-status") => {
            row(run(&world.done, "/change-status?status=WARNING"), "", 200, true)
        }
        (Verb::Post, "/executions/{id}/state") => {
            row(run(&world.done, "/state"), r#"{"taskRunId":"x","state":"SUCCESS"}"#, 409, false)
        }
        (Verb::Post, "/executions/{id}/labels") => {
            row(run(&world.done, "/labels"), r#"[{"key":"a","value":"b"}]"#, 200, true)
        }
        (Verb::Post, "/executions/labels/by-ids") => {
            let body =
                format!(r#"{{"executionsId":["{}"],"executionLabels":[{{"key":"a","value":"b"}}]}}"#, world.done);
            row("/executions/labels/by-ids".into(), &body, 200, true)
        }
        (_, path) if path.starts_with("/executions/") && path.ends_with("/by-ids") => {
            let act = path.trim_start_matches("/executions").trim_end_matches("/by-ids");
            let (target, query, status, writes) = match act {
                "" | "/replay" => (&world.done, "", 200, true),
                "/change-status" => (&world.done, "?newStatus=WARNING", 200, true),
                "/restart" => (&world.failed, "", 200, true),
                // Nothing is paused or queued: whoever may ask is told so.
                "/resume" | "/unqueue" => (&world.live, "", 400, false),
                // It runs already.
                "/force-run" => (&world.live, "", 200, false),
                _ => (&world.live, "", 200, true),
            };
            row(format!("/executions{act}/by-ids{query}"), &format!("[\"{target}\"]"), status, writes)
        }
        (_, path) if path.starts_with("/executions/") && path.ends_with("/by-query") => {
            let act = path.trim_start_matches("/executions").trim_end_matches("/by-query");
            let (query, writes) = match act {
                "" | "/replay" | "/labels" => ("filters[state][EQUALS]=SUCCESS", true),
                "/change-status" => ("filters[state][EQUALS]=SUCCESS&newStatus=WARNING", true),
                "/restart" => ("filters[flowId][EQUALS]=fails", true),
                "/resume" => ("filters[state][EQUALS]=PAUSED", false),
                "/unqueue" => ("filters[state][EQUALS]=QUEUED", false),
                "/force-run" => ("filters[state][EQUALS]=RUNNING", false),
                _ => ("filters[state][EQUALS]=RUNNING", true),
            };
            let body = if act == "/labels" { r#"[{"key":"a","value":"b"}]"# } else { "" };
            row(format!("{path}?{query}"), body, 200, writes)
        }
        _ => return crate::matrix_kestra_resources::sample(route, world),
    })
}
