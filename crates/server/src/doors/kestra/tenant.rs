//! Tenants are workspaces. `/api/v1/{tenant}/…` names one; a path whose next part is a resource means `main`, as older
//! clients write it.

use crate::auth::Principal;
use crate::codes::Code;
use crate::problem::Problem;
use crate::state::AppState;
use semel_core::{RunId, WorkspaceId};
use std::borrow::Cow;

const BASE: &str = "/api/v1/";

/// Words that begin a path without a tenant; no tenant is reached by one of these names.
const RESOURCES: &[&str] = &[
    "blueprints",
    "concurrency-limit",
    "configs",
    "dashboards",
    "executions",
    "flows",
    "kv",
    "logs",
    "metrics",
    "namespaces",
    "plugins",
    "secrets",
    "taskruns",
    "templates",
    "triggers",
];

/// The path with its tenant, and without a slash at its end.
pub fn named(path: &str) -> Cow<'_, str> {
    let Some(rest) = path.strip_prefix(BASE) else { return Cow::Borrowed(path) };
    // The key of a webhook is compared as it came.
    let rest = if rest.contains("/webhook/") { rest } else { rest.trim_end_matches('/') };
    let first = rest.split('/').next().unwrap_or_default();
    if RESOURCES.contains(&first) {
        Cow::Owned(format!("{BASE}{}/{rest}", WorkspaceId::DEFAULT))
    } else {
        Cow::Borrowed(&path[..BASE.len() + rest.len()])
    }
}

/// What can be asked of an execution, where a path could as well mean a flow of that name.
const OF_EXECUTIONS: &[&str] = &[
    "change-status",
    "eval",
    "force-run",
    "labels",
    "pause",
    "replay",
    "replay-with-inputs",
    "restart",
    "resume",
    "resume-from-breakpoint",
    "state",
    "unqueue",
];

/// The older address of `POST /executions/{namespace}/{id}`, where the id of the flow is a word of the API: what stands
/// before it is the id of no execution then.
pub fn flow_called_as_a_word(path: &str) -> Option<String> {
    let rest = path.strip_prefix(BASE)?;
    let [tenant, "executions", namespace, id] = rest.split('/').collect::<Vec<_>>()[..] else { return None };
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    let is_namespace = namespace.bytes().all(lower) && namespace.parse::<RunId>().is_err();
    (is_namespace && OF_EXECUTIONS.contains(&id)).then(|| format!("{BASE}{tenant}/executions/trigger/{namespace}/{id}"))
}

/// The answer to a tenant that does not exist and to one that the caller does not belong to.
pub fn unknown() -> Problem {
    Problem::new(Code::WorkspaceUnknown, "no such tenant; the path is /api/v1/{tenant}/… with the token's workspace")
}

/// Without tokens the path says whose the request is.
pub async fn dev(app: &AppState, tenant: &str) -> Result<Principal, Problem> {
    let workspace = WorkspaceId::parse(tenant).ok_or_else(unknown)?;
    if workspace.0 == WorkspaceId::DEFAULT {
        return Ok(Principal::dev(workspace));
    }
    let known = app.read(|store| store.workspaces()).await?;
    if known.iter().any(|row| row.id == workspace) { Ok(Principal::dev(workspace)) } else { Err(unknown()) }
}

/// A token opens its own workspace only.
pub fn belongs(principal: Principal, tenant: &str) -> Result<Principal, Problem> {
    if principal.workspace.0 == tenant { Ok(principal) } else { Err(unknown()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_may_have_the_name_of_what_is_asked_of_executions() {
        let named = |path: &str| flow_called_as_a_word(path);
        let run = "0197aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee";
        assert_eq!(
            named("/api/v1/main/executions/shop.pay/restart").as_deref(),
            Some("/api/v1/main/executions/trigger/shop.pay/restart")
        );
        for path in [
            &format!("/api/v1/main/executions/{run}/restart"),
            "/api/v1/main/executions/2MTwYvwZ9bYdxJjL0Jr8xC/restart",
            "/api/v1/main/executions/shop.pay/orders",
            "/api/v1/main/executions/labels/by-ids",
        ] {
            assert_eq!(named(path), None, "{path}");
        }
    }

    #[test]
    fn slashes_cost_nothing_however_many_there_are() {
        let path = format!("/api/v1/main/flows{}", "/".repeat(1_000_000));
        assert_eq!(named(&path), "/api/v1/main/flows");
        assert_eq!(named(&"/".repeat(1_000_000)).len(), 1_000_000);
    }

    #[test]
    fn a_path_without_a_tenant_is_that_of_main() {
        for (path, expected) in [
            ("/api/v1/executions/search", "/api/v1/main/executions/search"),
            ("/api/v1/flows", "/api/v1/main/flows"),
            ("/api/v1/main/executions/search", "/api/v1/main/executions/search"),
            ("/api/v1/shop/executions", "/api/v1/shop/executions"),
            ("/api/v1/executionsx/y", "/api/v1/executionsx/y"),
            ("/v1/runs", "/v1/runs"),
            ("/api/v1/", "/api/v1/"),
            ("/api/v1/kv/", "/api/v1/main/kv"),
            ("/api/v1/shop/flows/", "/api/v1/shop/flows"),
            ("/api/v1/main/executions/webhook/a/b/c/", "/api/v1/main/executions/webhook/a/b/c/"),
        ] {
            assert_eq!(named(path), expected);
        }
    }
}
