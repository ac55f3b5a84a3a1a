//! The rows of the matrix for the Kestra door's flows, keys, secrets, logs, triggers and the rest.

use crate::matrix::{Elsewhere, World};
use crate::matrix_kestra::Row;
use semel_server::routes::{Route, Verb};

const TEXT: &str = "id: new\nnamespace: shop\ntasks:\n  - {id: say, type: log.Log, message: hi}\n";
const CHANGED: &str = "id: echo\nnamespace: shop\ntasks:\n  - {id: say, type: log.Log, message: changed}\n";
const TRIGGER: &str = "{\"namespace\":\"shop\",\"flowId\":\"echo\",\"triggerId\":\"t\",\"disabled\":true}";
const IDS: &str = "[{\"namespace\":\"shop\",\"id\":\"echo\"}]";

/// The sample of a route; `None` for a route that nobody thought about.
pub fn sample(route: &Route, world: &World) -> Option<Row> {
    let rest = route.path.strip_prefix("/api/v1/{tenant}")?;
    let row = |path: &str, body: &str, status: u16, writes: bool| {
        (format!("/api/v1/main{path}"), body.to_owned(), status, writes, Elsewhere::Missing("workspace_unknown"))
    };
    let read = |path: &str| row(path, "", 200, false);
    let write = |path: &str, body: &str| row(path, body, 200, true);
    let log = |rest: &str| format!("/logs/{}{rest}", world.done);
    Some(match (route.method, rest) {
        (Verb::Get, "/flows/{namespace}") => read("/flows/shop"),
        (Verb::Get, "/flows/{namespace}/{id}") => read("/flows/shop/echo?source=true"),
        (Verb::Get, "/flows/{namespace}/{id}/revisions") => read("/flows/shop/echo/revisions"),
        (Verb::Get, "/flows/{namespace}/{id}/graph") => read("/flows/shop/echo/graph"),
        (Verb::Get, "/flows/{namespace}/{id}/dependencies") => read("/flows/shop/echo/dependencies"),
        (Verb::Get, "/flows/{namespace}/{id}/tasks/{task}") => read("/flows/shop/echo/tasks/say"),
        (Verb::Get, "/flows/source") => read("/flows/source?q=shop"),
        (Verb::Post, "/flows/graph") => row("/flows/graph", TEXT, 200, false),
        (Verb::Post, "/flows/validate") => row("/flows/validate", TEXT, 200, false),
        (Verb::Post, "/flows") => write("/flows", TEXT),
        (Verb::Put, "/flows/{namespace}/{id}") => write("/flows/shop/echo", CHANGED),
        (Verb::Delete, "/flows/{namespace}/{id}") => row("/flows/shop/echo", "", 204, true),
        (Verb::Post, "/flows/{namespace}") => write("/flows/shop?delete=false", TEXT),
        (Verb::Post, "/flows/bulk") => write("/flows/bulk?delete=false", TEXT),
        (Verb::Post, "/flows/import") => row("/flows/import", "", 422, false),
        (Verb::Post, "/flows/export/by-ids") => row("/flows/export/by-ids", IDS, 200, false),
        (Verb::Delete, "/flows/delete/by-ids") => write("/flows/delete/by-ids", IDS),
        (Verb::Delete, "/flows/delete/by-query") => write("/flows/delete/by-query?namespace=shop", ""),
        (Verb::Post, "/flows/disable/by-ids") => write("/flows/disable/by-ids", IDS),
        (Verb::Post, "/flows/disable/by-query") => write("/flows/disable/by-query?namespace=shop", ""),
        (Verb::Post, "/flows/enable/by-ids") => row("/flows/enable/by-ids", IDS, 200, false),
        (Verb::Post, "/flows/enable/by-query") => row("/flows/enable/by-query", "", 200, false),

        (Verb::Get, "/namespaces/{namespace}") => read("/namespaces/shop"),
        (Verb::Get, "/namespaces/{namespace}/kv") => read("/namespaces/shop/kv"),
        (Verb::Get, "/namespaces/{namespace}/kv/inheritance") => read("/namespaces/shop.eu/kv/inheritance"),
        (Verb::Get, "/namespaces/{namespace}/kv/{key}") => read("/namespaces/shop/kv/k"),
        (Verb::Put, "/namespaces/{namespace}/kv/{key}") => write("/namespaces/shop/kv/k", "\"x\""),
        (Verb::Delete, "/namespaces/{namespace}/kv/{key}") => write("/namespaces/shop/kv/k", ""),
        (Verb::Delete, "/namespaces/{namespace}/kv") => write("/namespaces/shop/kv", "{\"keys\":[\"k\"]}"),
        (Verb::Get, "/namespaces/{namespace}/files") => row("/namespaces/shop/files?path=none", "", 404, false),
        (Verb::Post, "/namespaces/{namespace}/files") => row("/namespaces/shop/files?path=a", "", 422, false),
        (Verb::Put, "/namespaces/{namespace}/files") => row("/namespaces/shop/files?from=a&to=b", "", 404, false),
        (Verb::Delete, "/namespaces/{namespace}/files") => row("/namespaces/shop/files?path=none", "", 200, false),
        (Verb::Get, "/namespaces/{namespace}/files/directory") => read("/namespaces/shop/files/directory"),
        (Verb::Post, "/namespaces/{namespace}/files/directory") => {
            row("/namespaces/shop/files/directory?path=a", "", 200, false)
        }
        (Verb::Get, "/namespaces/{namespace}/files/stats") => read("/namespaces/shop/files/stats"),
        (Verb::Get, "/namespaces/{namespace}/files/search") => read("/namespaces/shop/files/search?q=a"),
        (Verb::Get, "/namespaces/{namespace}/files/export") => read("/namespaces/shop/files/export"),
        (Verb::Get, "/namespaces/{namespace}/secrets") => read("/namespaces/shop/secrets"),
        (Verb::Get, "/namespaces/{namespace}/inherited-secrets") => read("/namespaces/shop/inherited-secrets"),

        (Verb::Get, "/logs/{id}") => read(&log("")),
        (Verb::Get, "/logs/{id}/download") => read(&log("/download")),
        (Verb::Get, "/logs/{id}/follow") => read(&log("/follow")),
        // These runs wrote no line, so nothing is there to be removed.
        (Verb::Delete, "/logs/{id}") => row(&log(""), "", 200, false),
        (Verb::Delete, "/logs/{namespace}/{flow}") => row("/logs/shop/echo", "", 200, false),

        (Verb::Get, "/triggers/{namespace}/{flow}") => read("/triggers/shop/echo"),
        // No flow of this world fires by itself: one trigger is not there, of several none is.
        (Verb::Put, "/triggers" | "/triggers/backfill/pause" | "/triggers/backfill/unpause")
        | (Verb::Post, "/triggers/backfill/delete") => row(rest, TRIGGER, 404, false),
        (Verb::Delete, "/triggers/{namespace}/{flow}/{trigger}") => row("/triggers/shop/echo/t", "", 404, false),
        (Verb::Post | Verb::Delete, path) if path.ends_with("/by-triggers") => {
            let list = format!("[{TRIGGER}]");
            let switch = format!("{{\"triggers\":{list},\"disabled\":true}}");
            row(path, if path.contains("set-disabled") { &switch } else { &list }, 200, false)
        }
        (Verb::Post | Verb::Delete, path) if path.starts_with("/triggers/") && path.ends_with("/by-query") => {
            row(path, "", 200, false)
        }
        (Verb::Post, "/triggers/{namespace}/{flow}/{trigger}/unlock") => {
            row("/triggers/shop/echo/t/unlock", "", 404, false)
        }
        (Verb::Post, "/triggers/{namespace}/{flow}/{trigger}/restart") => {
            row("/triggers/shop/echo/t/restart", "", 404, false)
        }
        (Verb::Get, "/metrics/{id}") => read(&format!("/metrics/{}", world.done)),
        (Verb::Get, "/metrics/names/{namespace}/{flow}/{task}") => read("/metrics/names/shop/echo/say"),
        (Verb::Get, "/metrics/names/{namespace}/{flow}") => read("/metrics/names/shop/echo"),
        (Verb::Get, "/metrics/tasks/{namespace}/{flow}") => read("/metrics/tasks/shop/echo"),
        (Verb::Put, "/concurrency-limit/{namespace}/{flow}") => {
            row("/concurrency-limit/shop/echo", "{\"running\":0}", 200, false)
        }
        (Verb::Get, path) if !path.contains('{') => read(path),
        _ => return None,
    })
}
