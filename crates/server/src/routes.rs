//! The whole URL map on one page.
//!
//! Each row is a route: the site, the check of roles, the known query parameters and
//! `/openapi.json` are all made from this table, so a route without a row, or a row without a
//! role, cannot exist.

use crate::auth::Access::{self, *};
use crate::call::{Answer, Call};
use crate::doors::conductor;
use crate::doors::kestra::{self, executions};
use crate::doors::native::*;
use crate::doors::{health, trigger, webhook};
use crate::openapi;
use futures_util::future::BoxFuture;
use semel_core::Door;
use std::fmt;

pub type Handler = fn(Call) -> BoxFuture<'static, Answer>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a route does with the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Json,
    /// A flow's text.
    Text,
    /// Bytes as they came.
    Raw,
    /// The fields of a form, with files.
    Form,
}

pub struct Route {
    pub method: Verb,
    pub path: &'static str,
    pub access: Access,
    pub takes: Takes,
    /// Known query parameters; another name is refused.
    pub query: &'static [&'static str],
    /// Set where events arrive: refusals are noted, and HEAD is not GET.
    pub door: Option<Door>,
    pub summary: &'static str,
    pub handler: Handler,
}

/// All parameters are the caller's own data.
pub const ANY_QUERY: &[&str] = &["*"];
const NONE: &[&str] = &[];
const PAGE: &[&str] = &["limit", "cursor"];

const fn route(
    method: Verb,
    path: &'static str,
    access: Access,
    takes: Takes,
    query: &'static [&'static str],
    summary: &'static str,
    handler: Handler,
) -> Route {
    Route { method, path, access, takes, query, door: None, summary, handler }
}

impl Route {
    const fn at(mut self, door: Door) -> Route {
        self.door = Some(door);
        self
    }
}

macro_rules! to {
    ($handler:path) => {
        |call| Box::pin($handler(call))
    };
}

use Takes::{Form, Json, Nothing, Raw, Text};
use Verb::{Delete, Get, Post, Put};

const RUNS_QUERY: &[&str] = &[
    "workflow_id",
    "namespace",
    "status",
    "label",
    "key",
    "correlation_id",
    "parent_run_id",
    "created_from",
    "created_to",
    "limit",
    "cursor",
];
const KEYS_QUERY: &[&str] = &["key", "scope", "state", "run_id", "limit", "cursor"];
const SHOW_QUERY: &[&str] = &["key", "workflow_id"];
const DECISIONS_QUERY: &[&str] = &["run_id", "key", "workflow_id", "decision", "limit", "cursor"];
const TOKENS_QUERY: &[&str] = &["workspace", "limit", "cursor"];

const NAMED_PAGES: &[&str] = &["q", "page", "size", "sort"];
const SOURCE_QUERY: &[&str] = &["q", "namespace", "page", "size", "sort"];
const FLOW_QUERY: &[&str] = &["source", "revision", "allowDeleted"];
const BULK_QUERY: &[&str] = &["delete", "namespace", "allowNamespaceChild"];
const LOG_QUERY: &[&str] = &["minLevel", "taskRunId", "taskId", "attempt"];
const EXECUTIONS_OF_FLOW: &[&str] = &["namespace", "flowId", "page", "size", "sort"];
const CREATE_QUERY: &[&str] = &["labels", "wait", "revision", "scheduleDate", "breakpoints", "kind"];
const REPLAY_QUERY: &[&str] = &["taskRunId", "revision", "breakpoints"];
const FILE_QUERY: &[&str] = &["path"];
const MOVE_QUERY: &[&str] = &["from", "to"];
const PREVIEW_QUERY: &[&str] = &["path", "maxRows", "encoding"];
const DELETE_QUERY: &[&str] = &["deleteLogs", "deleteMetrics", "deleteStorage"];
const DELETES_QUERY: &[&str] = &["deleteLogs", "deleteMetrics", "deleteStorage", "includeNonTerminated"];
const LINEAGE_QUERY: &[&str] = &["destinationOnly", "expandAll"];

const START_QUERY: &[&str] = &["version", "correlationId", "priority"];
const CORRELATED_QUERY: &[&str] = &["includeClosed", "includeTasks"];
const FIND_QUERY: &[&str] =
    &["start", "size", "sort", "freeText", "query", "queryId", "skipCache", "classifier", "topLevelOnly"];
const EXECUTE_QUERY: &[&str] = &["requestId", "waitUntilTaskRef", "waitForSeconds", "consistency", "returnStrategy"];
const POLL_QUERY: &[&str] = &["workerid", "domain", "count", "timeout"];

/// The table.
#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    route(Get,    "/health/live",  Open,    Nothing, NONE, "The process answers.", to!(health::live)),
    route(Get,    "/health/ready", Open,    Nothing, NONE, "Every active run was read and the store takes writes.", to!(health::ready)),
    route(Get,    "/metrics",      Metrics, Nothing, NONE, "Numbers for Prometheus.", to!(health::metrics)),
    route(Get,    "/openapi.json", Open,    Nothing, NONE, "This API, described.", to!(openapi::get)),

    // Doors: where events arrive.
    route(Post,   "/v1/workflows/{id}/trigger", Trigger, Json, ANY_QUERY, "Start a run, or get the run of the same Idempotency-Key.", to!(trigger::post)).at(Door::Trigger),
    route(Get,    "/v1/webhooks/{namespace}/{flow}/{key}", Webhook, Raw, ANY_QUERY, "Deliver a webhook without a body.", to!(webhook::receive)).at(Door::Webhook),
    route(Post,   "/v1/webhooks/{namespace}/{flow}/{key}", Webhook, Raw, ANY_QUERY, "Deliver a webhook.", to!(webhook::receive)).at(Door::Webhook),
    route(Put,    "/v1/webhooks/{namespace}/{flow}/{key}", Webhook, Raw, ANY_QUERY, "Deliver a webhook.", to!(webhook::receive)).at(Door::Webhook),

    // Flows.
    route(Get,    "/v1/workflows",                Viewer, Nothing, PAGE, "Newest revisions of all flows.", to!(workflows::list)),
    route(Put,    "/v1/workflows",                Author, Text,    NONE, "Push a flow: compile, check, store as a new revision.", to!(workflows::push)),
    route(Post,   "/v1/workflows/validate",       Viewer, Text,    NONE, "Compile and check a flow without storing it.", to!(workflows::validate)),
    route(Get,    "/v1/workflows/{id}",           Viewer, Nothing, &["revision"], "One flow with its source.", to!(workflows::show)),
    route(Get,    "/v1/workflows/{id}/revisions", Viewer, Nothing, PAGE, "All revisions of a flow, newest first.", to!(workflows::revisions)),

    // Runs.
    route(Post,   "/v1/runs",               Operator, Json,    NONE, "Start a run by hand.", to!(start::post)).at(Door::Cli),
    route(Get,    "/v1/runs",               Viewer,   Nothing, RUNS_QUERY, "Runs, newest first.", to!(runs::list)),
    route(Get,    "/v1/runs/{id}",          Viewer,   Nothing, NONE, "One run.", to!(runs::show)),
    route(Delete, "/v1/runs/{id}",          Operator, Nothing, NONE, "Forget an ended run and free its key.", to!(runs::delete)),
    route(Post,   "/v1/runs/{id}/erase",    Admin,    Nothing, NONE, "Remove the payloads of an ended run and keep the hash of its key.", to!(runs::erase)),
    route(Get,    "/v1/runs/{id}/journal",  Viewer,   Nothing, PAGE, "What happened, in order.", to!(history::journal)),
    route(Get,    "/v1/runs/{id}/logs",     Viewer,   Nothing, PAGE, "Log lines.", to!(history::logs)),
    route(Get,    "/v1/runs/{id}/steps",    Viewer,   Nothing, PAGE, "The ledger of side effects.", to!(history::steps)),
    route(Get,    "/v1/runs/{id}/children", Viewer,   Nothing, PAGE, "Runs that this run started.", to!(history::children)),
    route(Get,    "/v1/runs/{id}/replays",  Viewer,   Nothing, PAGE, "Later events that met this run.", to!(history::replays)),
    route(Get,    "/v1/runs/{id}/follow",   Viewer,   Nothing, NONE, "Server-sent events: the run at each change, then `end`.", to!(follow::get)),
    route(Post,   "/v1/runs/{id}/cancel",   Operator, Json,    NONE, "Cancel a run.", to!(control::cancel)),
    route(Post,   "/v1/runs/{id}/pause",    Operator, Json,    NONE, "Start nothing new in a run.", to!(control::pause)),
    route(Post,   "/v1/runs/{id}/resume",   Operator, Json,    NONE, "Let a paused run go on.", to!(control::resume)),
    route(Post,   "/v1/runs/{id}/release",  Operator, Json,    NONE, "Let a run go on that a restore holds.", to!(control::release)),
    route(Post,   "/v1/runs/{id}/restart",  Operator, Json,    NONE, "Go on from the failed step.", to!(control::restart)),
    route(Post,   "/v1/runs/{id}/replay",   Operator, Json,    NONE, "Run finished steps again, from a top-level task or the start.", to!(control::replay)),
    route(Post,   "/v1/runs/{id}/verdict",  Operator, Json,    NONE, "Decide an effect in doubt.", to!(control::verdict)),

    // Keys and decisions.
    route(Get,    "/v1/keys",         Viewer,   Nothing, KEYS_QUERY, "Claims of event keys.", to!(keys::list)),
    route(Get,    "/v1/keys/show",    Viewer,   Nothing, SHOW_QUERY, "The claims of one key and its newest decisions.", to!(keys::show)),
    route(Post,   "/v1/keys/explain", Viewer,   Json,    NONE, "Why two events met, or did not.", to!(explain::post)),
    route(Post,   "/v1/keys/release", Operator, Json,    NONE, "Free a key whose run has ended.", to!(keys::release)),
    route(Get,    "/v1/decisions",    Viewer,   Nothing, DECISIONS_QUERY, "The decision log, newest first.", to!(decisions::list)),
    route(Get,    "/v1/refusals",     Operator, Nothing, PAGE, "The last arrivals that were refused, newest first.", to!(refusals::list)),
    route(Get,    "/v1/schedules",    Viewer,   Nothing, PAGE, "Schedules with their next instants.", to!(schedules::list)),
    route(Post,   "/v1/check",        Admin,    Json,    NONE, "Verify the workspace against its own rules.", to!(check::post)),

    // Key-value store and secrets.
    route(Get,    "/v1/kv/{namespace}",       Viewer,   Nothing, PAGE, "Keys of a namespace.", to!(kv::list)),
    route(Get,    "/v1/kv/{namespace}/{key}", Viewer,   Nothing, NONE, "One value.", to!(kv::show)),
    route(Put,    "/v1/kv/{namespace}/{key}", Operator, Json,    NONE, "Write a value.", to!(kv::put)),
    route(Delete, "/v1/kv/{namespace}/{key}", Operator, Nothing, NONE, "Remove a value.", to!(kv::delete)),
    route(Get,    "/v1/secrets",              Author,   Nothing, PAGE, "Names of secrets; values never come back.", to!(secrets::list)),
    route(Put,    "/v1/secrets/{name}",       Admin,    Json,    NONE, "Store a secret as a new version.", to!(secrets::put)),
    route(Delete, "/v1/secrets/{name}",       Admin,    Nothing, NONE, "Retire a secret.", to!(secrets::delete)),

    // Who may use all this.
    route(Get,    "/v1/tokens",      Admin,     Nothing, TOKENS_QUERY, "Tokens without their secrets.", to!(tokens::list)),
    route(Post,   "/v1/tokens",      Admin,     Json,    NONE, "Make a token; its text is shown once.", to!(tokens::create)),
    route(Delete, "/v1/tokens/{id}", Admin,     Nothing, NONE, "Revoke a token, from the next request on.", to!(tokens::revoke)),
    route(Get,    "/v1/nodes",       MainAdmin, Nothing, PAGE, "The processes that share the store.", to!(nodes::list)),
    route(Get,    "/v1/workspaces",  MainAdmin, Nothing, PAGE, "Workspaces.", to!(workspaces::list)),
    route(Post,   "/v1/workspaces",  MainAdmin, Json,    NONE, "Make a workspace.", to!(workspaces::create)),

    // Kestra's executions. A path without a tenant is that of the tenant `main`.
    route(Get,    "/api/v1/{tenant}/executions/{id}", Viewer, Nothing, NONE, "One execution.", to!(executions::show::get)),

    // Kestra's flows, keys, secrets, logs, triggers and the rest.
    route(Post,   "/api/v1/{tenant}/flows",                               Author,   Text,    NONE, "Create a flow.", to!(kestra::flows::write::create)),
    route(Get,    "/api/v1/{tenant}/flows/search",                        Viewer,   Nothing, ANY_QUERY, "Flows by filters, with their total.", to!(kestra::flows::search::get)),
    route(Get,    "/api/v1/{tenant}/flows/source",                        Viewer,   Nothing, SOURCE_QUERY, "Flows whose text says something.", to!(kestra::flows::search::source)),
    route(Get,    "/api/v1/{tenant}/flows/distinct-namespaces",           Viewer,   Nothing, &["q"], "The namespaces that flows are in.", to!(kestra::flows::show::namespaces)),
    route(Post,   "/api/v1/{tenant}/flows/validate",                      Viewer,   Text,    NONE, "What is wrong with each flow of a text.", to!(kestra::flows::validate::post)),
    route(Post,   "/api/v1/{tenant}/flows/graph",                         Viewer,   Text,    NONE, "A flow's text as nodes and edges.", to!(kestra::flows::graph::post)),
    route(Post,   "/api/v1/{tenant}/flows/bulk",                          Author,   Text,    BULK_QUERY, "Store the flows of a text and delete all others.", to!(kestra::flows::bulk::of_all)),
    route(Post,   "/api/v1/{tenant}/flows/import",                        Author,   Form,    NONE, "Store the flows of a file; the answer names those that cannot be.", to!(kestra::flows::archive::import)),
    route(Post,   "/api/v1/{tenant}/flows/export/by-ids",                 Operator, Json,    NONE, "Texts of flows as a ZIP.", to!(kestra::flows::archive::export_by_ids)),
    route(Get,    "/api/v1/{tenant}/flows/export/by-query",               Operator, Nothing, ANY_QUERY, "Texts of what a search finds as a ZIP.", to!(kestra::flows::archive::export_by_query)),
    route(Delete, "/api/v1/{tenant}/flows/delete/by-ids",                 Author,   Json,    NONE, "Delete several flows.", to!(kestra::flows::bulk::delete_by_ids)),
    route(Delete, "/api/v1/{tenant}/flows/delete/by-query",               Author,   Nothing, ANY_QUERY, "Delete what a search finds.", to!(kestra::flows::bulk::delete_by_query)),
    route(Post,   "/api/v1/{tenant}/flows/disable/by-ids",                Author,   Json,    NONE, "Disable several flows.", to!(kestra::flows::bulk::disable_by_ids)),
    route(Post,   "/api/v1/{tenant}/flows/disable/by-query",              Author,   Raw,     ANY_QUERY, "Disable what a search finds.", to!(kestra::flows::bulk::disable_by_query)),
    route(Post,   "/api/v1/{tenant}/flows/enable/by-ids",                 Author,   Json,    NONE, "Enable several flows.", to!(kestra::flows::bulk::enable_by_ids)),
    route(Post,   "/api/v1/{tenant}/flows/enable/by-query",               Author,   Raw,     ANY_QUERY, "Enable what a search finds.", to!(kestra::flows::bulk::enable_by_query)),
    route(Get,    "/api/v1/{tenant}/flows/{namespace}",                   Viewer,   Nothing, NONE, "The flows of a namespace.", to!(kestra::flows::show::of_namespace)),
    route(Post,   "/api/v1/{tenant}/flows/{namespace}",                   Author,   Text,    &["delete", "override"], "Make a namespace what a text says.", to!(kestra::flows::bulk::of_namespace)),
    route(Get,    "/api/v1/{tenant}/flows/{namespace}/{id}",              Viewer,   Nothing, FLOW_QUERY, "One flow.", to!(kestra::flows::show::get)),
    route(Put,    "/api/v1/{tenant}/flows/{namespace}/{id}",              Author,   Text,    NONE, "Change a flow.", to!(kestra::flows::write::update)),
    route(Delete, "/api/v1/{tenant}/flows/{namespace}/{id}",              Author,   Nothing, NONE, "Delete a flow; its revisions stay.", to!(kestra::flows::write::delete)),
    route(Get,    "/api/v1/{tenant}/flows/{namespace}/{id}/revisions",    Viewer,   Nothing, NONE, "All revisions of a flow.", to!(kestra::flows::show::revisions)),
    route(Get,    "/api/v1/{tenant}/flows/{namespace}/{id}/graph",        Viewer,   Nothing, &["revision"], "A flow as nodes and edges.", to!(kestra::flows::graph::get)),
    route(Get,    "/api/v1/{tenant}/flows/{namespace}/{id}/dependencies", Viewer,   Nothing, &["destinationOnly"], "Flows that a flow starts, and that start it.", to!(kestra::flows::graph::dependencies)),
    route(Get,    "/api/v1/{tenant}/flows/{namespace}/{id}/tasks/{task}", Viewer,   Nothing, &["revision"], "One task of a flow.", to!(kestra::flows::show::task)),
    route(Get,    "/api/v1/{tenant}/namespaces/search",                            Viewer,   Nothing, NAMED_PAGES, "Namespaces.", to!(kestra::namespaces::search)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}",                       Viewer,   Nothing, NONE, "One namespace.", to!(kestra::namespaces::get)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/kv",                    Viewer,   Nothing, NONE, "Keys of a namespace.", to!(kestra::kv::list)),
    route(Delete, "/api/v1/{tenant}/namespaces/{namespace}/kv",                    Operator, Json,    NONE, "Remove several keys.", to!(kestra::kv::delete_many)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/kv/inheritance",        Viewer,   Nothing, NONE, "Keys of the namespaces above.", to!(kestra::kv::inherited)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/kv/{key}",              Viewer,   Nothing, NONE, "One value with its type.", to!(kestra::kv::get)),
    route(Put,    "/api/v1/{tenant}/namespaces/{namespace}/kv/{key}",              Operator, Raw,     NONE, "Write a value; the header `ttl` says how long it lives.", to!(kestra::kv::put)),
    route(Delete, "/api/v1/{tenant}/namespaces/{namespace}/kv/{key}",              Operator, Nothing, NONE, "Remove a key; says whether it was there.", to!(kestra::kv::delete)),
    route(Get,    "/api/v1/{tenant}/kv",                                           Viewer,   Nothing, ANY_QUERY, "Keys of all namespaces.", to!(kestra::kv::search)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/files",           Operator, Nothing, FILE_QUERY, "A file of a namespace.", to!(kestra::namespace_files::get)),
    route(Post,   "/api/v1/{tenant}/namespaces/{namespace}/files",           Author,   Form,    FILE_QUERY, "Write a file of a namespace, or those of a ZIP.", to!(kestra::namespace_files::post)),
    route(Put,    "/api/v1/{tenant}/namespaces/{namespace}/files",           Author,   Raw,     MOVE_QUERY, "Move a file or folder.", to!(kestra::namespace_files::rename)),
    route(Delete, "/api/v1/{tenant}/namespaces/{namespace}/files",           Author,   Nothing, FILE_QUERY, "Delete a file or folder.", to!(kestra::namespace_files::delete)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/files/directory", Viewer,   Nothing, FILE_QUERY, "What is in a folder.", to!(kestra::namespace_files::directory)),
    route(Post,   "/api/v1/{tenant}/namespaces/{namespace}/files/directory", Author,   Raw,     FILE_QUERY, "A folder is there with its first file: nothing is to be done.", to!(kestra::namespace_files::make_directory)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/files/search",    Viewer,   Nothing, &["q"], "Files whose path holds a text.", to!(kestra::namespace_files::search)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/files/stats",     Viewer,   Nothing, FILE_QUERY, "Size and dates of a file or folder.", to!(kestra::namespace_files::stats)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/files/export",    Operator, Nothing, NONE, "All files of a namespace as a ZIP.", to!(kestra::namespace_files::export)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/secrets",               Author,   Nothing, ANY_QUERY, "Names of secrets.", to!(kestra::secrets::list)),
    route(Get,    "/api/v1/{tenant}/namespaces/{namespace}/inherited-secrets",     Author,   Nothing, NONE, "Names of secrets by namespace.", to!(kestra::secrets::inherited)),
    route(Get,    "/api/v1/{tenant}/secrets",                                      Author,   Nothing, ANY_QUERY, "Names of secrets.", to!(kestra::secrets::list)),
    route(Get,    "/api/v1/{tenant}/logs/search",                 Viewer,   Nothing, ANY_QUERY, "Log lines of all executions.", to!(kestra::log_search::get)),
    route(Get,    "/api/v1/{tenant}/logs/{id}",                   Viewer,   Nothing, LOG_QUERY, "Log lines of an execution.", to!(kestra::logs::of_execution)),
    route(Delete, "/api/v1/{tenant}/logs/{id}",                   Operator, Nothing, LOG_QUERY, "Remove the log of an ended execution.", to!(kestra::logs::delete)),
    route(Get,    "/api/v1/{tenant}/logs/{id}/download",          Viewer,   Nothing, LOG_QUERY, "The same as a text file.", to!(kestra::logs::download)),
    route(Get,    "/api/v1/{tenant}/logs/{id}/follow",            Viewer,   Nothing, LOG_QUERY, "Server-sent events: lines as they are written.", to!(kestra::log_follow::get)),
    route(Delete, "/api/v1/{tenant}/logs/{namespace}/{flow}",     Operator, Nothing, NONE, "Remove the logs of a flow's ended executions.", to!(kestra::logs::delete_of_flow)),
    route(Get,    "/api/v1/{tenant}/triggers/search",             Viewer,   Nothing, ANY_QUERY, "What fires by itself, and when.", to!(kestra::triggers::search)),
    route(Get,    "/api/v1/{tenant}/triggers/{namespace}/{flow}", Viewer,   Nothing, NAMED_PAGES, "The triggers of a flow.", to!(kestra::triggers::of_flow)),
    route(Put,    "/api/v1/{tenant}/triggers",                                      Operator, Json,    NONE, "Switch a trigger on or off, or begin a backfill.", to!(kestra::triggers::put)),
    route(Put,    "/api/v1/{tenant}/triggers/backfill/pause",                       Operator, Json,    NONE, "Pause a backfill.", to!(kestra::triggers::pause)),
    route(Post,   "/api/v1/{tenant}/triggers/backfill/pause/by-triggers",           Operator, Json,    NONE, "Pause the backfills of several triggers.", to!(kestra::triggers::pause_by_triggers)),
    route(Post,   "/api/v1/{tenant}/triggers/backfill/pause/by-query",              Operator, Raw,     ANY_QUERY, "Pause the backfills of what a search finds.", to!(kestra::triggers::pause_by_query)),
    route(Put,    "/api/v1/{tenant}/triggers/backfill/unpause",                     Operator, Json,    NONE, "Let a backfill go on.", to!(kestra::triggers::unpause)),
    route(Post,   "/api/v1/{tenant}/triggers/backfill/unpause/by-triggers",         Operator, Json,    NONE, "Let the backfills of several triggers go on.", to!(kestra::triggers::unpause_by_triggers)),
    route(Post,   "/api/v1/{tenant}/triggers/backfill/unpause/by-query",            Operator, Raw,     ANY_QUERY, "Let the backfills of what a search finds go on.", to!(kestra::triggers::unpause_by_query)),
    route(Post,   "/api/v1/{tenant}/triggers/backfill/delete",                      Operator, Json,    NONE, "End a backfill.", to!(kestra::triggers::end)),
    route(Post,   "/api/v1/{tenant}/triggers/backfill/delete/by-triggers",          Operator, Json,    NONE, "End the backfills of several triggers.", to!(kestra::triggers::end_by_triggers)),
    route(Post,   "/api/v1/{tenant}/triggers/backfill/delete/by-query",             Operator, Raw,     ANY_QUERY, "End the backfills of what a search finds.", to!(kestra::triggers::end_by_query)),
    route(Post,   "/api/v1/{tenant}/triggers/set-disabled/by-triggers",             Operator, Json,    NONE, "Switch several triggers on or off.", to!(kestra::triggers::set_disabled_by_triggers)),
    route(Post,   "/api/v1/{tenant}/triggers/set-disabled/by-query",                Operator, Raw,     ANY_QUERY, "Switch what a search finds on or off.", to!(kestra::triggers::set_disabled_by_query)),
    route(Post,   "/api/v1/{tenant}/triggers/unlock/by-triggers",                   Operator, Json,    NONE, "Let several triggers go on without the run they wait for.", to!(kestra::triggers::unlock_by_triggers)),
    route(Post,   "/api/v1/{tenant}/triggers/unlock/by-query",                      Operator, Raw,     ANY_QUERY, "Let what a search finds go on.", to!(kestra::triggers::unlock_by_query)),
    route(Post,   "/api/v1/{tenant}/triggers/{namespace}/{flow}/{trigger}/unlock",  Operator, Raw,     NONE, "Let a trigger go on without the run it waits for.", to!(kestra::triggers::unlock)),
    route(Post,   "/api/v1/{tenant}/triggers/{namespace}/{flow}/{trigger}/restart", Operator, Raw,     NONE, "The same, also where it waits for none; a poll is made at once.", to!(kestra::triggers::restart)),
    route(Delete, "/api/v1/{tenant}/triggers/{namespace}/{flow}/{trigger}",         Operator, Nothing, NONE, "Forget what is remembered of a trigger; it goes on from now.", to!(kestra::triggers::delete)),
    route(Delete, "/api/v1/{tenant}/triggers/delete/by-triggers",                   Operator, Json,    NONE, "The same for several.", to!(kestra::triggers::delete_by_triggers)),
    route(Delete, "/api/v1/{tenant}/triggers/delete/by-query",                      Operator, Nothing, ANY_QUERY, "The same for what a search finds.", to!(kestra::triggers::delete_by_query)),
    route(Get,    "/api/v1/{tenant}/concurrency-limit/search",             Viewer,   Nothing, NAMED_PAGES, "How many executions hold a slot, by flow.", to!(kestra::concurrency::search)),
    route(Put,    "/api/v1/{tenant}/concurrency-limit/{namespace}/{flow}", Operator, Json,    NONE, "Compare that number with another.", to!(kestra::concurrency::put)),
    route(Get,    "/api/v1/{tenant}/metrics/{id}",                             Viewer,   Nothing, ANY_QUERY, "Metrics of an execution: none are recorded.", to!(kestra::metrics::of_execution)),
    route(Get,    "/api/v1/{tenant}/metrics/names/{namespace}/{flow}",         Viewer,   Nothing, NONE, "Names of the metrics of a flow: there are none.", to!(kestra::metrics::names)),
    route(Get,    "/api/v1/{tenant}/metrics/names/{namespace}/{flow}/{task}",  Viewer,   Nothing, NONE, "Names of the metrics of a task: there are none.", to!(kestra::metrics::names)),
    route(Get,    "/api/v1/{tenant}/metrics/tasks/{namespace}/{flow}",         Viewer,   Nothing, NONE, "Tasks of a flow that have metrics: there are none.", to!(kestra::metrics::names)),
    route(Get,    "/api/v1/{tenant}/configs",                     Viewer,   Nothing, NONE, "What clients ask first.", to!(kestra::configs::get)),
    route(Delete, "/api/v1/{tenant}/executions/{id}", Operator, Nothing, DELETE_QUERY, "Forget an execution; one that goes on is killed first.", to!(executions::act::delete)),
    route(Get,    "/api/v1/{tenant}/executions", Viewer, Nothing, EXECUTIONS_OF_FLOW, "Executions of one flow.", to!(executions::list::of_flow)),
    route(Get,    "/api/v1/{tenant}/executions/search", Viewer, Nothing, ANY_QUERY, "Executions by filters, with their total.", to!(executions::list::search)),
    route(Post,   "/api/v1/{tenant}/executions/latest", Viewer, Raw, NONE, "The newest execution of each flow that is named.", to!(executions::list::latest)),
    route(Post,   "/api/v1/{tenant}/executions/{namespace}/{id}", Trigger, Form, CREATE_QUERY, "Create an execution.", to!(executions::create::post)).at(Door::Kestra),
    route(Post,   "/api/v1/{tenant}/executions/trigger/{namespace}/{id}", Trigger, Form, CREATE_QUERY, "The same under its older address.", to!(executions::create::post)).at(Door::Kestra),
    route(Post,   "/api/v1/{tenant}/executions/{namespace}/{id}/validate", Operator, Form, &["revision"], "What creating would say of each input.", to!(executions::validate::post)),
    route(Get,    "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}", Webhook, Raw, ANY_QUERY, "Deliver a webhook without a body.", to!(executions::webhook::receive)).at(Door::Webhook),
    route(Post,   "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}", Webhook, Raw, ANY_QUERY, "Deliver a webhook.", to!(executions::webhook::receive)).at(Door::Webhook),
    route(Put,    "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}", Webhook, Raw, ANY_QUERY, "Deliver a webhook.", to!(executions::webhook::receive)).at(Door::Webhook),
    route(Get,    "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}/{path}", Webhook, Raw, ANY_QUERY, "Deliver a webhook without a body; the rest of the path is `trigger.path`.", to!(executions::webhook::receive)).at(Door::Webhook),
    route(Post,   "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}/{path}", Webhook, Raw, ANY_QUERY, "Deliver a webhook; the rest of the path is `trigger.path`.", to!(executions::webhook::receive)).at(Door::Webhook),
    route(Put,    "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}/{path}", Webhook, Raw, ANY_QUERY, "Deliver a webhook; the rest of the path is `trigger.path`.", to!(executions::webhook::receive)).at(Door::Webhook),
    route(Get,    "/api/v1/{tenant}/executions/{id}/follow", Viewer, Nothing, NONE, "Server-sent events: the execution at each change.", to!(executions::follow::get)),
    route(Get,    "/api/v1/{tenant}/executions/{id}/follow-dependencies", Viewer, Nothing, LINEAGE_QUERY, "Server-sent events: the states of all executions that belong together.", to!(executions::follow::dependencies)),
    route(Get,    "/api/v1/{tenant}/executions/{id}/flow", Viewer, Nothing, NONE, "The flow of an execution, without what its tasks say.", to!(executions::flow::of_execution)),
    route(Get,    "/api/v1/{tenant}/executions/{id}/graph", Viewer, Nothing, NONE, "The flow of an execution as nodes and edges, with its task runs.", to!(executions::flow::graph)),
    route(Get,    "/api/v1/{tenant}/executions/flows/{namespace}/{flow}", Viewer, Nothing, &["revision"], "A flow, without what its tasks say.", to!(executions::flow::of_flow)),
    route(Get,    "/api/v1/{tenant}/executions/namespaces", Viewer, Nothing, NONE, "Namespaces with flows that can be run.", to!(executions::flow::namespaces)),
    route(Get,    "/api/v1/{tenant}/executions/namespaces/{namespace}/flows", Viewer, Nothing, NONE, "The flows of a namespace that can be run, without what their tasks say.", to!(executions::flow::of_namespace)),
    route(Get,    "/api/v1/{tenant}/executions/{id}/file", Operator, Nothing, FILE_QUERY, "A file of an execution.", to!(executions::files::get)),
    route(Get,    "/api/v1/{tenant}/executions/{id}/file/metas", Operator, Nothing, FILE_QUERY, "How large a file is.", to!(executions::files::metas)),
    route(Get,    "/api/v1/{tenant}/executions/{id}/file/preview", Operator, Nothing, PREVIEW_QUERY, "The beginning of a file.", to!(executions::files::preview)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/eval", Author, Raw, NONE, "Evaluate an expression in the light of an execution.", to!(executions::eval::post)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/eval/{taskRunId}", Author, Raw, NONE, "The same in the light of one of its task runs.", to!(executions::eval::post)),
    route(Delete, "/api/v1/{tenant}/executions/{id}/kill", Operator, Nothing, &["isOnKillCascade"], "Kill an execution.", to!(executions::act::kill)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/restart", Operator, Raw, &["revision"], "Go on from the failed task.", to!(executions::act::restart)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/pause", Operator, Raw, NONE, "Start nothing new in an execution.", to!(executions::act::pause)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/resume", Operator, Form, NONE, "Let a paused execution go on.", to!(executions::act::resume)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/actions/review", Operator, Form, &["decision", "taskRunId"], "Approve or deny, at a step that asks for it.", to!(executions::review::post)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/resume/validate", Operator, Form, NONE, "What resuming would say of each input.", to!(executions::validate::resume)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/resume-from-breakpoint", Operator, Raw, &["breakpoints"], "Let an execution go on that has stopped before a task.", to!(executions::change::resume_from_breakpoint)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/replay", Operator, Raw, REPLAY_QUERY, "A new execution that does again what a terminated one did.", to!(executions::change::replay)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/replay-with-inputs", Operator, Form, REPLAY_QUERY, "The same with other inputs.", to!(executions::change::replay_with_inputs)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/force-run", Operator, Raw, NONE, "Start an execution that waits for its slot or its date.", to!(executions::change::force_run)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/unqueue", Operator, Raw, &["state"], "Take an execution out of the line.", to!(executions::change::unqueue)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/change-status", Operator, Raw, &["status"], "Call the end of an execution another one.", to!(executions::change::change_status)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/state", Operator, Raw, NONE, "Call a failed task run another one, and go on from it.", to!(executions::change::state)),
    route(Post,   "/api/v1/{tenant}/executions/{id}/labels", Operator, Raw, NONE, "Give a terminated execution other labels.", to!(executions::change::set)),
    route(Post,   "/api/v1/{tenant}/executions/labels/by-ids", Operator, Raw, NONE, "Add labels to several terminated executions.", to!(executions::bulk::labels_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/labels/by-query", Operator, Raw, ANY_QUERY, "Add labels to what a search finds.", to!(executions::bulk::labels_by_query)),
    route(Delete, "/api/v1/{tenant}/executions/kill/by-ids", Operator, Raw, NONE, "Kill several executions.", to!(executions::bulk::kill_by_ids)),
    route(Delete, "/api/v1/{tenant}/executions/kill/by-query", Operator, Nothing, ANY_QUERY, "Kill what a search finds.", to!(executions::bulk::kill_by_query)),
    route(Post,   "/api/v1/{tenant}/executions/restart/by-ids", Operator, Raw, NONE, "Restart several executions.", to!(executions::bulk::restart_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/restart/by-query", Operator, Raw, ANY_QUERY, "Restart what a search finds.", to!(executions::bulk::restart_by_query)),
    route(Post,   "/api/v1/{tenant}/executions/pause/by-ids", Operator, Raw, NONE, "Pause several executions.", to!(executions::bulk::pause_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/pause/by-query", Operator, Raw, ANY_QUERY, "Pause what a search finds.", to!(executions::bulk::pause_by_query)),
    route(Post,   "/api/v1/{tenant}/executions/resume/by-ids", Operator, Raw, NONE, "Resume several executions.", to!(executions::bulk::resume_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/resume/by-query", Operator, Raw, ANY_QUERY, "Resume what a search finds.", to!(executions::bulk::resume_by_query)),
    route(Post,   "/api/v1/{tenant}/executions/replay/by-ids", Operator, Raw, &["latestRevision"], "New executions that do again what several terminated ones did.", to!(executions::bulk::replay_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/replay/by-query", Operator, Raw, ANY_QUERY, "The same for what a search finds.", to!(executions::bulk::replay_by_query)),
    route(Post,   "/api/v1/{tenant}/executions/force-run/by-ids", Operator, Raw, NONE, "Start several executions that wait.", to!(executions::bulk::force_run_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/force-run/by-query", Operator, Raw, ANY_QUERY, "Start what a search finds.", to!(executions::bulk::force_run_by_query)),
    route(Post,   "/api/v1/{tenant}/executions/unqueue/by-ids", Operator, Raw, &["state"], "Take several executions out of the line.", to!(executions::bulk::unqueue_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/unqueue/by-query", Operator, Raw, ANY_QUERY, "Take what a search finds out of the line.", to!(executions::bulk::unqueue_by_query)),
    route(Post,   "/api/v1/{tenant}/executions/change-status/by-ids", Operator, Raw, &["newStatus"], "Call the ends of several executions another one.", to!(executions::bulk::change_status_by_ids)),
    route(Post,   "/api/v1/{tenant}/executions/change-status/by-query", Operator, Raw, ANY_QUERY, "Call the ends of what a search finds another one.", to!(executions::bulk::change_status_by_query)),
    route(Delete, "/api/v1/{tenant}/executions/by-ids", Operator, Raw, DELETES_QUERY, "Forget several executions.", to!(executions::bulk::delete_by_ids)),
    route(Delete, "/api/v1/{tenant}/executions/by-query", Operator, Nothing, ANY_QUERY, "Forget the terminated ones of what a search finds.", to!(executions::bulk::delete_by_query)),
    // Conductor's URLs. Names at one place of a path are the same in all rows: `id` is also the name of a workflow to start.
    route(Get,    "/health",                                Open,     Nothing, NONE, "Whether the store takes writes, in Conductor's shape.", to!(conductor::token::health)),
    route(Post,   "/api/token",                             Open,     Raw,     NONE, "A token for its two parts; 404 where none is asked for.", to!(conductor::token::post)),
    route(Get,    "/api/token/userInfo",                    Viewer,   Nothing, NONE, "Who the token belongs to.", to!(conductor::token::user)),
    route(Get,    "/api/version",                           Viewer,   Nothing, NONE, "The version of the server.", to!(conductor::token::version)),
    route(Get,    "/api/metadata/taskdefs",                 Viewer,   Nothing, ANY_QUERY, "All task definitions.", to!(conductor::task_defs::list)),
    route(Post,   "/api/metadata/taskdefs",                 Author,   Raw,     NONE, "Register task definitions.", to!(conductor::task_defs::post)),
    route(Put,    "/api/metadata/taskdefs",                 Author,   Raw,     NONE, "Replace a task definition.", to!(conductor::task_defs::update)),
    route(Get,    "/api/metadata/taskdefs/{name}",          Viewer,   Nothing, ANY_QUERY, "One task definition.", to!(conductor::task_defs::get)),
    route(Delete, "/api/metadata/taskdefs/{name}",          Author,   Nothing, NONE, "Forget a task definition.", to!(conductor::task_defs::delete)),
    route(Get,    "/api/metadata/workflow",                 Viewer,   Nothing, ANY_QUERY, "All workflow definitions.", to!(conductor::metadata::list)),
    route(Post,   "/api/metadata/workflow",                 Author,   Raw,     &["overwrite", "newVersion"], "Register a workflow definition.", to!(conductor::metadata::create)),
    route(Put,    "/api/metadata/workflow",                 Author,   Raw,     &["overwrite", "newVersion"], "Register workflow definitions, those that are there as well.", to!(conductor::metadata::update)),
    route(Post,   "/api/metadata/workflow/validate",        Author,   Raw,     NONE, "Check a workflow definition.", to!(conductor::metadata::validate)),
    route(Get,    "/api/metadata/workflow/names-and-versions", Viewer, Nothing, NONE, "Names of workflows with their versions.", to!(conductor::metadata::names_and_versions)),
    route(Get,    "/api/metadata/workflow/names",           Viewer,   Nothing, NONE, "Names of workflows.", to!(conductor::metadata::names)),
    route(Get,    "/api/metadata/workflow/{name}/versions", Viewer,   Nothing, NONE, "The versions of a workflow.", to!(conductor::metadata::versions)),
    route(Get,    "/api/metadata/workflow/latest-versions", Viewer,   Nothing, NONE, "The newest definition of each name.", to!(conductor::metadata::latest_versions)),
    route(Get,    "/api/metadata/workflow/{name}",          Viewer,   Nothing, &["version", "metadata"], "One workflow definition.", to!(conductor::metadata::get)),
    route(Delete, "/api/metadata/workflow/{name}/{version}", Author,  Nothing, NONE, "Forget a workflow definition.", to!(conductor::metadata::delete)),
    route(Post,   "/api/workflow",                          Trigger,  Raw,     NONE, "Start a workflow; the request is the body.", to!(conductor::start::request)).at(Door::Conductor),
    route(Post,   "/api/workflow/{id}",                     Trigger,  Raw,     START_QUERY, "Start a workflow by name; the body is its input.", to!(conductor::start::named)).at(Door::Conductor),
    route(Post,   "/api/workflow/start/{name}/{version}",   Trigger,  Raw,     START_QUERY, "Start a version of a workflow; the body is its input.", to!(conductor::start::versioned)).at(Door::Conductor),
    route(Post,   "/api/workflow/execute/{name}/{version}", Trigger,  Raw,     EXECUTE_QUERY, "Start a workflow and wait for it.", to!(conductor::execute::post)).at(Door::Conductor),
    route(Get,    "/api/workflow/execute/{name}",           Trigger,  Raw,     START_QUERY, "Start a workflow without an input, and answer its output.", to!(conductor::execute::bare)).at(Door::Conductor),
    route(Post,   "/api/workflow/execute/{name}",           Trigger,  Raw,     START_QUERY, "Start a workflow, and answer its output.", to!(conductor::execute::bare)).at(Door::Conductor),
    route(Get,    "/api/workflow/{id}",                     Viewer,   Nothing, &["includeTasks", "summarize"], "A workflow, with its tasks.", to!(conductor::workflow::get)),
    route(Post,   "/api/workflow/test",                     Author,   Raw,     NONE, "Try a workflow out with answers that are given; nothing is stored and nothing leaves.", to!(conductor::rehearse::post)),
    route(Get,    "/api/workflow/{id}/status",              Viewer,   Nothing, &["includeOutput", "includeVariables"], "How a workflow stands.", to!(conductor::listing::status_of)),
    route(Get,    "/api/workflow/{id}/tasks",               Viewer,   Nothing, &["start", "count", "status"], "Tasks of a workflow.", to!(conductor::listing::tasks)),
    route(Get,    "/api/workflow/running/{name}",           Viewer,   Nothing, &["version", "startTime", "endTime"], "Ids of workflows that run.", to!(conductor::listing::running)),
    route(Get,    "/api/workflow/{id}/correlated/{correlation}", Viewer, Nothing, CORRELATED_QUERY, "Workflows of a name with a correlation id.", to!(conductor::listing::correlated)),
    route(Post,   "/api/workflow/{id}/correlated",          Viewer,   Raw,     CORRELATED_QUERY, "The same for many correlation ids.", to!(conductor::listing::correlated_many)),
    route(Post,   "/api/workflow/correlated/batch",         Viewer,   Raw,     CORRELATED_QUERY, "The same for many names.", to!(conductor::listing::correlated_batch)),
    route(Get,    "/api/workflow/search",                   Viewer,   Nothing, FIND_QUERY, "Search for workflows; in short.", to!(conductor::search::search)),
    route(Get,    "/api/workflow/search-v2",                Viewer,   Nothing, FIND_QUERY, "Search for workflows.", to!(conductor::search::search_v2)),
    route(Get,    "/api/workflow/search-by-tasks",          Viewer,   Nothing, FIND_QUERY, "Search for workflows by their tasks; in short.", to!(conductor::search::by_tasks)),
    route(Get,    "/api/workflow/search-by-tasks-v2",       Viewer,   Nothing, FIND_QUERY, "Search for workflows by their tasks.", to!(conductor::search::by_tasks_v2)),
    route(Put,    "/api/workflow/{id}/pause",               Operator, Raw,     NONE, "Pause a workflow.", to!(conductor::control::pause)),
    route(Put,    "/api/workflow/{id}/resume",              Operator, Raw,     NONE, "Resume a workflow.", to!(conductor::control::resume)),
    route(Delete, "/api/workflow/{id}",                     Operator, Raw,     &["reason", "triggerFailureWorkflow"], "End a workflow.", to!(conductor::control::terminate)),
    route(Delete, "/api/workflow/{id}/remove",              Operator, Raw,     &["archiveWorkflow"], "Forget a workflow that has ended, and free its key.", to!(conductor::control::remove)),
    route(Delete, "/api/workflow/{id}/terminate-remove",    Operator, Raw,     &["reason", "archiveWorkflow"], "End a workflow and forget it.", to!(conductor::control::terminate_remove)),
    route(Post,   "/api/workflow/{id}/restart",             Operator, Raw,     &["useLatestDefinitions"], "Do a workflow again from its start.", to!(conductor::control::restart)),
    route(Post,   "/api/workflow/{id}/retry",               Operator, Raw,     &["resumeSubworkflowTasks", "retryIfRetriedByParent"], "Do the failed tasks of a workflow again.", to!(conductor::control::retry)),
    route(Post,   "/api/workflow/{id}/rerun",               Operator, Raw,     NONE, "Do a workflow again from one of its tasks.", to!(conductor::control::rerun)),
    route(Post,   "/api/workflow/{id}/resetcallbacks",      Operator, Raw,     NONE, "Let tasks be taken at once that were to be asked about later.", to!(conductor::control::reset_callbacks)),
    route(Put,    "/api/workflow/{id}/skiptask/{ref}",      Operator, Raw,     ANY_QUERY, "Skip a task that was not reached.", to!(conductor::control::skip)),
    route(Put,    "/api/workflow/decide/{id}",              Operator, Raw,     NONE, "Nothing: a workflow goes on by itself.", to!(conductor::control::decide)),
    route(Post,   "/api/workflow/{id}/variables",           Operator, Raw,     NONE, "Set variables of a workflow.", to!(conductor::control::variables)),
    route(Post,   "/api/workflow/{id}/state",               Operator, Raw,     &["requestId", "waitUntilTaskRef", "waitForSeconds"], "Set variables and answer a task at once.", to!(conductor::control::state)),
    route(Post,   "/api/workflow/{id}/messages",            Operator, Raw,     NONE, "Leave a message for a workflow.", to!(conductor::messages::push)),
    route(Post,   "/api/workflow/{id}/jump/{ref}",          Operator, Raw,     NONE, "Go on from another task.", to!(conductor::control::jump)),
    route(Post,   "/api/workflow/{id}/upgrade",             Operator, Raw,     NONE, "Go on by another version of the definition.", to!(conductor::control::upgrade)),
    route(Put,    "/api/workflow/bulk/pause",               Operator, Raw,     NONE, "Pause workflows.", to!(conductor::bulk::pause)),
    route(Put,    "/api/workflow/bulk/resume",              Operator, Raw,     NONE, "Resume workflows.", to!(conductor::bulk::resume)),
    route(Post,   "/api/workflow/bulk/restart",             Operator, Raw,     &["useLatestDefinitions"], "Do workflows again from their start.", to!(conductor::bulk::restart)),
    route(Post,   "/api/workflow/bulk/retry",               Operator, Raw,     NONE, "Do the failed tasks of workflows again.", to!(conductor::bulk::retry)),
    route(Post,   "/api/workflow/bulk/terminate",           Operator, Raw,     &["reason", "triggerFailureWorkflow"], "End workflows.", to!(conductor::bulk::terminate)),
    route(Post,   "/api/workflow/bulk/delete",              Operator, Raw,     ANY_QUERY, "Forget workflows that have ended.", to!(conductor::bulk::remove)),
    route(Delete, "/api/workflow/bulk/remove",              Operator, Raw,     &["archiveWorkflow"], "The same.", to!(conductor::bulk::remove)),
    route(Delete, "/api/workflow/bulk/terminate-remove",    Operator, Raw,     &["reason", "archiveWorkflow"], "End workflows and forget them.", to!(conductor::bulk::terminate_remove)),
    route(Post,   "/api/workflow/bulk/search",              Viewer,   Raw,     &["includeTasks"], "Several workflows.", to!(conductor::bulk::search)),
    route(Get,    "/api/tasks/search",                      Viewer,   Nothing, FIND_QUERY, "Search for tasks; in short.", to!(conductor::search::tasks)),
    route(Get,    "/api/tasks/search-v2",                   Viewer,   Nothing, FIND_QUERY, "Search for tasks.", to!(conductor::search::tasks_v2)),
    route(Get,    "/api/tasks/poll/{type}",                 Operator, Nothing, POLL_QUERY, "Take a task; 204 if there is none.", to!(conductor::tasks::poll)),
    route(Get,    "/api/tasks/poll/batch/{type}",           Operator, Nothing, POLL_QUERY, "Take several tasks, and wait for the first.", to!(conductor::tasks::poll_batch)),
    route(Post,   "/api/tasks",                             Operator, Raw,     NONE, "What became of a task.", to!(conductor::update::post)),
    route(Post,   "/api/tasks/update-v2",                   Operator, Raw,     NONE, "What became of a task; the next one for the same worker.", to!(conductor::update::post_v2)),
    route(Get,    "/api/tasks/{id}",                        Viewer,   Nothing, NONE, "One task.", to!(conductor::tasks::get)),
    route(Get,    "/api/tasks/{id}/log",                    Operator, Nothing, NONE, "What was said of a task.", to!(conductor::tasks::logs)),
    route(Post,   "/api/tasks/{id}/log",                    Operator, Raw,     NONE, "Say something of a task.", to!(conductor::tasks::log)),
    route(Post,   "/api/tasks/{id}/{ref}/{status}",         Operator, Raw,     &["workerid"], "What became of a task of a workflow, by its name.", to!(conductor::signal::by_reference)),
    route(Post,   "/api/tasks/{id}/{ref}/{status}/sync",    Operator, Raw,     &["workerid"], "The same; the workflow as it is then.", to!(conductor::signal::by_reference_sync)),
    route(Post,   "/api/tasks/{id}/{ref}/signal",           Operator, Raw,     NONE, "Answer the task that a workflow waits at; the status stands in the place of a name.", to!(conductor::signal::post)),
    route(Post,   "/api/tasks/{id}/{ref}/signal/sync",      Operator, Raw,     &["returnStrategy", "timeoutMillis"], "The same, and wait for what comes of it.", to!(conductor::signal::post_sync)),
    route(Get,    "/api/tasks/queue/sizes",                 Viewer,   Nothing, ANY_QUERY, "How many tasks wait, by type.", to!(conductor::queues::sizes)),
    route(Get,    "/api/tasks/queue/size",                  Viewer,   Nothing, &["taskType", "domain"], "How many tasks of a type wait.", to!(conductor::queues::size)),
    route(Get,    "/api/tasks/queue/all",                   Viewer,   Nothing, NONE, "How many tasks wait, of all types.", to!(conductor::queues::all)),
    route(Get,    "/api/tasks/queue/all/verbose",           Viewer,   Nothing, NONE, "The same, with how many somebody has.", to!(conductor::queues::verbose)),
    route(Get,    "/api/tasks/queue/polldata",              Viewer,   Nothing, &["taskType"], "Who asked for tasks of a type last.", to!(conductor::queues::poll_data)),
    route(Get,    "/api/tasks/queue/polldata/all",          Viewer,   Nothing, NONE, "Who asked for tasks last.", to!(conductor::queues::all_poll_data)),
    route(Post,   "/api/tasks/queue/requeue/{type}",        Operator, Raw,     NONE, "How many tasks of a type wait; none falls out of its queue.", to!(conductor::queues::requeue)),
    // Conductor's resources. `name` is also the id of a webhook.
    route(Get,    "/api/metadata/tags", Viewer, Nothing, NONE, "Every tag that something has.", to!(conductor::tags::all)),
    route(Get,    "/api/metadata/workflow/{name}/tags", Viewer, Nothing, NONE, "The tags of a workflow.", to!(conductor::tags::workflow::get)),
    route(Post,   "/api/metadata/workflow/{name}/tags", Author, Raw, NONE, "Add a tag to a workflow.", to!(conductor::tags::add_to_workflow)),
    route(Put,    "/api/metadata/workflow/{name}/tags", Author, Raw, NONE, "Make these the tags of a workflow.", to!(conductor::tags::workflow::put)),
    route(Delete, "/api/metadata/workflow/{name}/tags", Author, Raw, NONE, "Remove tags from a workflow.", to!(conductor::tags::workflow::remove)),
    route(Get,    "/api/metadata/workflow/{name}/rate-limit", Viewer, Nothing, NONE, "How many runs of a workflow go on at once.", to!(conductor::tags::rate_limit)),
    route(Put,    "/api/metadata/workflow/{name}/rate-limit", Author, Raw, NONE, "Limit how many runs of a workflow go on at once.", to!(conductor::tags::put_rate_limit)),
    route(Delete, "/api/metadata/workflow/{name}/rate-limit", Author, Raw, NONE, "Let any number of runs of a workflow go on.", to!(conductor::tags::remove_rate_limit)),
    route(Get,    "/api/metadata/task/{name}/tags", Viewer, Nothing, NONE, "The tags of a task definition.", to!(conductor::tags::task::get)),
    route(Post,   "/api/metadata/task/{name}/tags", Author, Raw, NONE, "Add a tag to a task definition.", to!(conductor::tags::add_to_task)),
    route(Put,    "/api/metadata/task/{name}/tags", Author, Raw, NONE, "Make these the tags of a task definition.", to!(conductor::tags::task::put)),
    route(Delete, "/api/metadata/task/{name}/tags", Author, Raw, NONE, "Remove tags from a task definition.", to!(conductor::tags::task::remove)),
    route(Get,    "/api/secrets", Author, Nothing, NONE, "Names of secrets.", to!(conductor::secrets::list)),
    route(Post,   "/api/secrets", Author, Raw, NONE, "Names of secrets.", to!(conductor::secrets::list)),
    route(Get,    "/api/secrets-v2", Author, Nothing, NONE, "Names of secrets, with their tags.", to!(conductor::secrets::list_with_tags)),
    route(Get,    "/api/secrets/{name}", Admin, Nothing, NONE, "The value of a secret.", to!(conductor::secrets::get)),
    route(Put,    "/api/secrets/{name}", Admin, Raw, NONE, "Store a secret as a new version.", to!(conductor::secrets::put)),
    route(Delete, "/api/secrets/{name}", Admin, Raw, NONE, "Retire a secret.", to!(conductor::secrets::delete)),
    route(Get,    "/api/secrets/{name}/exists", Author, Nothing, NONE, "Whether there is such a secret.", to!(conductor::secrets::exists)),
    route(Get,    "/api/secrets/{name}/tags", Author, Nothing, NONE, "The tags of a secret.", to!(conductor::tags::secret::get)),
    route(Put,    "/api/secrets/{name}/tags", Admin, Raw, NONE, "Add tags to a secret.", to!(conductor::tags::secret::put)),
    route(Delete, "/api/secrets/{name}/tags", Admin, Raw, NONE, "Remove tags from a secret.", to!(conductor::tags::secret::remove)),
    route(Get,    "/api/environment", Viewer, Nothing, NONE, "What workflows read as `${workflow.env.NAME}`.", to!(conductor::environment::list)),
    route(Get,    "/api/environment/{name}", Viewer, Nothing, NONE, "One variable.", to!(conductor::environment::get)),
    route(Put,    "/api/environment/{name}", Author, Raw, NONE, "Set a variable.", to!(conductor::environment::put)),
    route(Delete, "/api/environment/{name}", Author, Raw, NONE, "Forget a variable.", to!(conductor::environment::delete)),
    route(Get,    "/api/environment/{name}/tags", Viewer, Nothing, NONE, "The tags of a variable.", to!(conductor::tags::variable::get)),
    route(Put,    "/api/environment/{name}/tags", Author, Raw, NONE, "Add tags to a variable.", to!(conductor::tags::variable::put)),
    route(Delete, "/api/environment/{name}/tags", Author, Raw, NONE, "Remove tags from a variable.", to!(conductor::tags::variable::remove)),
    route(Get,    "/api/scheduler/schedules", Viewer, Nothing, &["workflowName"], "All schedules, or those of a workflow.", to!(conductor::schedules::list)),
    route(Post,   "/api/scheduler/schedules", Author, Raw, NONE, "Create or replace a schedule.", to!(conductor::schedules::save)),
    route(Get,    "/api/scheduler/schedules/search", Viewer, Nothing, ANY_QUERY, "Schedules by name, workflow and text.", to!(conductor::schedules::search)),
    route(Get,    "/api/scheduler/schedules/tags", Viewer, Nothing, &["tag"], "Schedules that have a tag.", to!(conductor::schedules::by_tag)),
    route(Get,    "/api/scheduler/schedules/{name}", Viewer, Nothing, NONE, "One schedule.", to!(conductor::schedules::get)),
    route(Delete, "/api/scheduler/schedules/{name}", Author, Raw, NONE, "Forget a schedule.", to!(conductor::schedules::delete)),
    route(Put,    "/api/scheduler/schedules/{name}/pause", Operator, Raw, &["reason"], "Pause a schedule.", to!(conductor::schedules::pause)),
    route(Put,    "/api/scheduler/schedules/{name}/resume", Operator, Raw, NONE, "Let a schedule go on, from now.", to!(conductor::schedules::resume)),
    route(Get,    "/api/scheduler/schedules/{name}/pause", Operator, Nothing, &["reason"], "Pause a schedule.", to!(conductor::schedules::pause)),
    route(Get,    "/api/scheduler/schedules/{name}/resume", Operator, Nothing, NONE, "Let a schedule go on, from now.", to!(conductor::schedules::resume)),
    route(Get,    "/api/scheduler/schedules/{name}/tags", Viewer, Nothing, NONE, "The tags of a schedule.", to!(conductor::tags::schedule::get)),
    route(Put,    "/api/scheduler/schedules/{name}/tags", Author, Raw, NONE, "Add tags to a schedule.", to!(conductor::tags::schedule::put)),
    route(Delete, "/api/scheduler/schedules/{name}/tags", Author, Raw, NONE, "Remove tags from a schedule.", to!(conductor::tags::schedule::remove)),
    route(Put,    "/api/scheduler/bulk/pause", Operator, Raw, NONE, "Pause several schedules.", to!(conductor::schedules::bulk_pause)),
    route(Put,    "/api/scheduler/bulk/resume", Operator, Raw, NONE, "Let several schedules go on.", to!(conductor::schedules::bulk_resume)),
    route(Get,    "/api/scheduler/admin/pause", Operator, Nothing, NONE, "Pause all schedules of the workspace.", to!(conductor::schedules::pause_all)),
    route(Get,    "/api/scheduler/admin/resume", Operator, Nothing, NONE, "Let all schedules of the workspace go on.", to!(conductor::schedules::resume_all)),
    route(Get,    "/api/scheduler/admin/requeue", Operator, Nothing, NONE, "Nothing falls out of a queue here: 0.", to!(conductor::schedules::requeue)),
    route(Get,    "/api/scheduler/nextFewSchedules", Viewer, Nothing, &["cronExpression", "zoneId", "scheduleStartTime", "scheduleEndTime", "limit"], "When a cron fires next.", to!(conductor::schedules::next_few)),
    route(Get,    "/api/scheduler/search/executions", Viewer, Nothing, &["start", "size", "sort", "freeText", "query"], "What came of the instants of schedules.", to!(conductor::schedule_executions::search)),
    route(Get,    "/api/metadata/webhook", Viewer, Nothing, NONE, "All webhooks.", to!(conductor::webhooks::list)),
    route(Post,   "/api/metadata/webhook", Author, Raw, NONE, "Create a webhook.", to!(conductor::webhooks::create)),
    route(Get,    "/api/metadata/webhook/{name}", Viewer, Nothing, NONE, "One webhook, with what arrived lately.", to!(conductor::webhooks::get)),
    route(Put,    "/api/metadata/webhook/{name}", Author, Raw, NONE, "Replace a webhook.", to!(conductor::webhooks::update)),
    route(Delete, "/api/metadata/webhook/{name}", Author, Raw, NONE, "Forget a webhook.", to!(conductor::webhooks::delete)),
    route(Get,    "/api/metadata/webhook/{name}/tags", Viewer, Nothing, NONE, "The tags of a webhook.", to!(conductor::tags::webhook::get)),
    route(Put,    "/api/metadata/webhook/{name}/tags", Author, Raw, NONE, "Add tags to a webhook.", to!(conductor::tags::webhook::put)),
    route(Delete, "/api/metadata/webhook/{name}/tags", Author, Raw, NONE, "Remove tags from a webhook.", to!(conductor::tags::webhook::remove)),
    route(Get,    "/webhook/{name}", Webhook, Raw, ANY_QUERY, "Deliver an event without a body, or ask whether the secret is known.", to!(conductor::receive::get)).at(Door::Webhook),
    route(Post,   "/webhook/{name}", Webhook, Raw, ANY_QUERY, "Deliver an event.", to!(conductor::receive::post)).at(Door::Webhook),
    route(Get,    "/api/webhook/{name}", Webhook, Raw, ANY_QUERY, "Deliver an event without a body, or ask whether the secret is known.", to!(conductor::receive::get)).at(Door::Webhook),
    route(Post,   "/api/webhook/{name}", Webhook, Raw, ANY_QUERY, "Deliver an event.", to!(conductor::receive::post)).at(Door::Webhook),
    route(Get,    "/api/schema", Viewer, Nothing, &["short"], "All schemas.", to!(conductor::schemas::list)),
    route(Post,   "/api/schema", Author, Raw, &["newVersion"], "Register schemas.", to!(conductor::schemas::save)),
    route(Get,    "/api/schema/{name}", Viewer, Nothing, NONE, "The newest version of a schema.", to!(conductor::schemas::get)),
    route(Delete, "/api/schema/{name}", Author, Raw, NONE, "Forget all versions of a schema.", to!(conductor::schemas::delete)),
    route(Get,    "/api/schema/{name}/{version}", Viewer, Nothing, NONE, "One version of a schema.", to!(conductor::schemas::get_version)),
    route(Delete, "/api/schema/{name}/{version}", Author, Raw, NONE, "Forget a version of a schema.", to!(conductor::schemas::delete_version)),
    route(Get,    "/api/event", Viewer, Nothing, NONE, "All event handlers.", to!(conductor::events::list)),
    route(Post,   "/api/event", Author, Raw, NONE, "Register event handlers.", to!(conductor::events::create)),
    route(Put,    "/api/event", Author, Raw, NONE, "Replace an event handler.", to!(conductor::events::update)),
    route(Get,    "/api/event/handler/", Viewer, Nothing, NONE, "All event handlers, where one client looks whether they are there.", to!(conductor::events::list)),
    route(Get,    "/api/event/handler/{name}", Viewer, Nothing, NONE, "One event handler.", to!(conductor::events::get)),
    route(Post,   "/api/event/handleIncomingEvent", Operator, Raw, NONE, "Send an event to its handlers.", to!(conductor::event_history::send)),
    route(Get,    "/api/event/execution", Viewer, Nothing, ANY_QUERY, "Handlers that are active, with how many events there were for each.", to!(conductor::event_history::overview)),
    route(Get,    "/api/event/execution/{name}", Viewer, Nothing, &["from"], "What the actions of a handler have come to.", to!(conductor::event_history::executions)),
    route(Get,    "/api/event/message", Viewer, Nothing, &["from"], "The same as the handlers of events.", to!(conductor::event_history::overview)),
    route(Get,    "/api/event/message/{name}", Viewer, Nothing, &["from"], "Events of a name that a handler was there for.", to!(conductor::event_history::messages)),
    route(Get,    "/api/event/queue/config", Viewer, Nothing, NONE, "Queues outside that events come from: none.", to!(conductor::event_history::queues)),
    route(Get,    "/api/event/queue/config/{type}/{name}", Viewer, Nothing, NONE, "One of them: 404.", to!(conductor::event_history::queue)),
    route(Put,    "/api/event/queue/config/{type}/{name}", Author, Raw, NONE, "A queue outside cannot be registered.", to!(conductor::event_history::put_queue)),
    route(Delete, "/api/event/queue/config/{type}/{name}", Author, Raw, NONE, "One of them: 404.", to!(conductor::event_history::queue)),
    route(Post,   "/api/event/queue/connectivity", Viewer, Raw, NONE, "Whether a sink can be reached.", to!(conductor::event_history::connectivity)),
    route(Get,    "/api/event/{name}", Viewer, Nothing, &["activeOnly"], "The handlers of an event.", to!(conductor::events::of_event)),
    route(Delete, "/api/event/{name}", Author, Raw, NONE, "Forget an event handler.", to!(conductor::events::delete)),
    route(Get,    "/api/event/{name}/tags", Viewer, Nothing, NONE, "The tags of a event handler.", to!(conductor::tags::event::get)),
    route(Put,    "/api/event/{name}/tags", Author, Raw, NONE, "Add tags to a event handler.", to!(conductor::tags::event::put)),
    route(Delete, "/api/event/{name}/tags", Author, Raw, NONE, "Remove tags from a event handler.", to!(conductor::tags::event::remove)),
    route(Post,   "/api/human/tasks/search", Viewer, Raw, NONE, "Tasks that people do.", to!(conductor::human::search)),
    route(Post,   "/api/human/tasks/update/taskRef", Operator, Raw, &["workflowId", "taskRefName", "complete", "iteration"], "What a person says of a task of a workflow.", to!(conductor::human::update_by_name)),
    route(Get,    "/api/human/tasks/getTaskDisplayNames", Viewer, Nothing, &["searchType"], "Names of tasks that people do.", to!(conductor::human::display_names)),
    route(Delete, "/api/human/tasks/delete", Operator, Raw, NONE, "Forget tasks that have ended.", to!(conductor::human::delete_many)),
    route(Delete, "/api/human/tasks/delete/{id}", Operator, Raw, NONE, "Forget a task that has ended.", to!(conductor::human::delete)),
    route(Get,    "/api/human/tasks/{id}/conductorTask", Viewer, Nothing, NONE, "The task of the workflow.", to!(conductor::tasks::get)),
    route(Get,    "/api/human/tasks/{id}", Viewer, Nothing, &["withTemplate"], "One task that a person does.", to!(conductor::human::get)),
    route(Post,   "/api/human/tasks/{id}/claim", Operator, Raw, &["overrideAssignment", "withTemplate"], "Take a task.", to!(conductor::human::claim)),
    route(Post,   "/api/human/tasks/{id}/externalUser/{user}", Operator, Raw, &["overrideAssignment", "withTemplate"], "Take a task for somebody.", to!(conductor::human::claim_for)),
    route(Post,   "/api/human/tasks/{id}/release", Operator, Raw, NONE, "Give a task back.", to!(conductor::human::release)),
    route(Post,   "/api/human/tasks/{id}/reassign", Operator, Raw, NONE, "Let a task be for somebody else.", to!(conductor::human::reassign)),
    route(Post,   "/api/human/tasks/{id}/skip", Operator, Raw, &["reason"], "Let a task be for whoever is named next.", to!(conductor::human::skip)),
    route(Post,   "/api/human/tasks/{id}/update", Operator, Raw, &["complete"], "What a person says of a task.", to!(conductor::human::update)),
    route(Get,    "/api/human/template", Viewer, Nothing, &["name", "version"], "All forms.", to!(conductor::human_templates::list)),
    route(Post,   "/api/human/template", Author, Raw, &["newVersion"], "Register a form.", to!(conductor::human_templates::post)),
    route(Post,   "/api/human/template/bulk", Author, Raw, &["newVersion"], "Register forms.", to!(conductor::human_templates::post_all)),
    route(Get,    "/api/human/template/{name}", Viewer, Nothing, NONE, "The newest version of a form.", to!(conductor::human_templates::get)),
    route(Delete, "/api/human/template/{name}", Author, Raw, NONE, "Forget all versions of a form.", to!(conductor::human_templates::delete)),
    route(Get,    "/api/human/template/{name}/tags", Viewer, Nothing, NONE, "The tags of a form.", to!(conductor::tags::template::get)),
    route(Put,    "/api/human/template/{name}/tags", Author, Raw, NONE, "Add tags to a form.", to!(conductor::tags::template::put)),
    route(Delete, "/api/human/template/{name}/tags", Author, Raw, NONE, "Remove tags from a form.", to!(conductor::tags::template::remove)),
    route(Get,    "/api/human/template/{name}/{version}", Viewer, Nothing, NONE, "One version of a form.", to!(conductor::human_templates::get_version)),
    route(Delete, "/api/human/template/{name}/{version}", Author, Raw, NONE, "Forget a version of a form.", to!(conductor::human_templates::delete_version)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_row_is_there_twice() {
        let rows: BTreeSet<(&str, &str)> = ROUTES.iter().map(|route| (route.path, route.method.word())).collect();
        assert_eq!(rows.len(), ROUTES.len());
    }

    #[test]
    fn only_health_the_description_and_webhooks_are_open() {
        let open: BTreeSet<&str> =
            ROUTES.iter().filter(|route| route.access.is_open()).map(|route| route.path).collect();
        let expected = [
            "/api/token",
            "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}",
            "/api/v1/{tenant}/executions/webhook/{namespace}/{flow}/{key}/{path}",
            "/api/webhook/{name}",
            "/health",
            "/health/live",
            "/health/ready",
            "/openapi.json",
            "/v1/webhooks/{namespace}/{flow}/{key}",
            "/webhook/{name}",
        ];
        assert_eq!(open.into_iter().collect::<Vec<_>>(), expected);
    }

    /// The table in the API reference, as it must be printed there.
    fn table() -> String {
        let mut out = String::from("| method | path | role | what it does |\n|---|---|---|---|\n");
        for route in ROUTES {
            out.push_str(&format!(
                "| {} | `{}` | {} | {} |\n",
                route.method,
                route.path,
                route.access.text(),
                route.summary
            ));
        }
        out
    }

    #[test]
    fn the_reference_prints_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/api.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page.contains(&table()), "docs/reference/api.md must hold this table:\n{}", table());
    }
}
