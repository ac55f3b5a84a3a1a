//! Tenants are workspaces. `/api/v1/{tenant}/…` names one; a path whose next part is a resource means `main`, as older
//! clients write it.

use crate::auth::Principal;
use crate::codes::Code;
use crate::problem::Problem;
use crate::state::AppState;
use semel_core::WorkspaceId;
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

/// The path with its tenant.
pub fn named(path: &str) -> Cow<'_, str> {
    let Some(rest) = path.strip_prefix(BASE) else { return Cow::Borrowed(path) };
    let first = rest.split('/').next().unwrap_or_default();
    if RESOURCES.contains(&first) {
        Cow::Owned(format!("{BASE}{}/{rest}", WorkspaceId::DEFAULT))
    } else {
        Cow::Borrowed(path)
    }
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
    fn a_path_without_a_tenant_is_that_of_main() {
        for (path, expected) in [
            ("/api/v1/executions/search", "/api/v1/main/executions/search"),
            ("/api/v1/flows", "/api/v1/main/flows"),
            ("/api/v1/main/executions/search", "/api/v1/main/executions/search"),
            ("/api/v1/shop/executions", "/api/v1/shop/executions"),
            ("/api/v1/executionsx/y", "/api/v1/executionsx/y"),
            ("/v1/runs", "/v1/runs"),
            ("/api/v1/", "/api/v1/"),
        ] {
            assert_eq!(named(path), expected);
        }
    }
}
