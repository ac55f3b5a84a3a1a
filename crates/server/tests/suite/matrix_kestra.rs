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
        (_, "/executions/webhook/{namespace}/{flow}/{key}") => {
            let (path, body, status, writes, _) = row("/executions/webhook/shop/hooked/opens".into(), "{}", 200, true);
            (path, body, status, writes, Elsewhere::Own)
        }
        (Verb::Get, "/executions/{id}/follow") => read(run(&world.done, "/follow")),
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
            let target = match act {
                "" => &world.done,
                "/restart" => &world.failed,
                // Nothing is paused: whoever may ask is told so.
                "/resume" => {
                    return Some(row(format!("/executions{act}/by-ids"), &format!("[\"{}\"]", world.live), 400, false));
                }
                _ => &world.live,
            };
            row(format!("/executions{act}/by-ids"), &format!("[\"{target}\"]"), 200, true)
        }
        (_, path) if path.starts_with("/executions/") && path.ends_with("/by-query") => {
            let writes = !path.ends_with("/resume/by-query");
            row(format!("{path}?filters[namespace][EQUALS]=shop"), "", 200, writes)
        }
        _ => return crate::matrix_kestra_resources::sample(route, world),
    })
}
