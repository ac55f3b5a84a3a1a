//! What happens to every request, in this order: limits known from the head, who asks, whether
//! that role may use the route, path and query, the body's bytes, the handler. Each step can only
//! refuse; nothing is stored before the handler runs.

use crate::auth::{self, Principal};
use crate::call::{Answer, Call, Incoming, Query};
use crate::codes::Code;
use crate::doors::conductor;
use crate::doors::kestra::{self, tenant};
use crate::problem::{Problem, ProblemCode};
use crate::refusals::Refused;
use crate::routes::{ANY_QUERY, ROUTES, Route, Takes};
use crate::site::{Found, Params};
use crate::spelling::Spelling;
use crate::state::AppState;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};
use semel_core::limits::Limits;
use semel_core::{Millis, WorkspaceId};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

tokio::task_local! {
    static REQUEST: RequestId;
}

/// Names one request in its answer and in the log.
#[derive(Clone, Copy)]
pub struct RequestId(u64);

impl RequestId {
    /// That of the request under way, if one is.
    pub fn current() -> Option<RequestId> {
        REQUEST.try_with(|id| *id).ok()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const WORKSPACE: HeaderName = HeaderName::from_static("x-semel-workspace");

/// Around everything: request id, panics, numbers, headers of every answer.
pub async fn around(app: &AppState, found: Found, request: Request) -> Response {
    let began = Instant::now();
    let id = RequestId(rand::random());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let route = match &found {
        Found::Route(route, _) => route.path,
        Found::WrongMethod | Found::Nothing => "(none)",
    };
    let answering = async {
        match check_head(&request, app.limits().header_bytes_max) {
            Ok(()) => unpanicked(&uri, answer(app, found, request)).await,
            Err(problem) => refusal(&uri, problem),
        }
    };
    // A span for each request costs more than most requests do, so it is made for those who debug.
    let span = tracing::debug_span!("request", %id);
    let mut response = REQUEST.scope(id, answering.instrument(span)).await;
    let status = response.status().as_u16();
    app.metrics().answered(route, status, began.elapsed());
    if let Some(ProblemCode(code)) = response.extensions().get() {
        app.metrics().refused(*code);
    }
    tracing::debug!(request_id = %id, %method, route, status, "answered");
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn answer(app: &AppState, found: Found, request: Request) -> Response {
    match found {
        Found::Route(route, params) => dispatch(app, route, params, request).await,
        Found::WrongMethod => refusal(request.uri(), method_not_allowed(request.uri())),
        Found::Nothing => {
            let detail = format!("nothing is at this path for {}; /openapi.json lists all paths", request.method());
            refusal(request.uri(), Problem::new(Code::PathNotFound, detail))
        }
    }
}

/// A refusal in the shape of the door that the path belongs to.
fn refusal(uri: &Uri, problem: Problem) -> Response {
    let path = uri.path();
    if kestra::is_under(path) {
        kestra::error::response(problem, uri)
    } else if conductor::is_under(path) {
        conductor::error::response(problem)
    } else {
        problem.into_response()
    }
}

/// The library stops reading a head that outgrows its buffer, and how far it reads depends on how the bytes come in;
/// this is the limit itself. Counted as HTTP/1 writes it.
fn check_head(request: &Request, bytes_max: usize) -> Result<(), Problem> {
    let target = request.uri().path_and_query().map_or(1, |target| target.as_str().len());
    let line = request.method().as_str().len() + target + " HTTP/1.1\r\n".len() + 1;
    let fields: usize =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum();
    if line + fields + "\r\n".len() <= bytes_max {
        return Ok(());
    }
    let detail = format!("the request line and the headers are larger than {bytes_max} bytes; nothing was stored");
    Err(Problem::new(Code::HeadTooLarge, detail))
}

/// A panic is answered like any other defect, and ends one request, not the connection's others.
async fn unpanicked(uri: &Uri, answering: impl Future<Output = Response>) -> Response {
    let answered = AssertUnwindSafe(answering).catch_unwind().await;
    answered.unwrap_or_else(|_| refusal(uri, Problem::internal("a handler panicked")))
}

/// A request that matched a row of the table.
async fn dispatch(app: &AppState, route: &'static Route, params: Params, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (uri, version) = (parts.uri.clone(), parts.version);
    let who = identify(app, route, &params, &parts.headers).await;
    let workspace = who.as_ref().ok().and_then(|who| who.as_ref()).map(|who| who.workspace.clone());
    match admit_request(app, route, params, parts, body, who).await {
        Ok(response) => response,
        Err(problem) => {
            note_refusal(app, route, workspace, uri.path(), problem.code);
            let unread = matches!(problem.code, Code::BodyTooLarge | Code::BodyTimeout | Code::BodyUnreadable);
            let mut response = refusal(&uri, problem);
            if unread && version < Version::HTTP_2 {
                // The rest of the body is not read, so the connection ends here; a client that is not told would
                // put its next request into it.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }
}

async fn admit_request(
    app: &AppState,
    route: &'static Route,
    params: Params,
    parts: Parts,
    body: Body,
    who: Result<Option<Principal>, Problem>,
) -> Answer {
    if parts.method == Method::HEAD && route.door.is_some() {
        // HEAD is served where GET is served, but looking must never start a run.
        return Err(method_not_allowed(&parts.uri));
    }
    check_declared_length(&parts.headers, bytes_max(route, app.limits()))?;
    if app.config().dev {
        check_browser(&parts.headers)?;
    }
    let who = who?;
    let params = params.ok_or_else(|| Problem::new(Code::PathNotFound, "the path is not UTF-8"))?;
    let query = query(route, &parts.uri)?;
    let (mut whole, mut incoming) = (Whole::default(), Incoming::default());
    match route.takes {
        Takes::Nothing => {}
        Takes::Json | Takes::Text | Takes::Raw => whole = read_body(app, route, body).await?,
        Takes::Form => incoming = Incoming::new(body),
    }
    let spelling = parts.extensions.get::<Spelling>().cloned().unwrap_or_default();
    let (state, headers, body, rest) = (app.clone(), parts.headers, whole.bytes, incoming.clone());
    // A large body keeps its place until it is dealt with.
    let _place = whole.place;
    let call = Call { app: state, who, params, query, headers, spelling, body, incoming };
    let answer = (route.handler)(call).await;
    if answer.is_err() {
        rest.discard(app.limits().body_bytes_max).await;
    }
    answer
}

/// How much a body may have. The bytes of a form are not kept in memory, and what webhooks send cannot be made smaller.
fn bytes_max(route: &Route, limits: &Limits) -> u64 {
    match (route.takes, route.access) {
        (Takes::Form, _) => limits.upload_bytes_max,
        (_, auth::Access::Webhook) => limits.webhook_bytes_max as u64,
        _ => limits.body_bytes_max as u64,
    }
}

/// The one place where a role is checked. Whatever is not allowed by the route's row is refused.
async fn identify(
    app: &AppState,
    route: &Route,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Option<Principal>, Problem> {
    if route.access.is_open() {
        return Ok(None);
    }
    let tenant = params.iter().flatten().find(|(name, _)| name == "tenant").map(|(_, value)| value.as_str());
    let principal = match tenant {
        Some(tenant) if app.config().dev => tenant::dev(app, tenant).await?,
        Some(tenant) => tenant::belongs(token_principal(app, &auth::bearer_or_password(headers)?).await?, tenant)?,
        None if app.config().dev => dev_principal(app, headers).await?,
        None if conductor::is_under(route.path) => token_principal(app, auth::bearer_or_own(headers)?).await?,
        None => token_principal(app, auth::bearer(headers)?).await?,
    };
    if !route.access.allows(&principal) {
        let detail = format!("the role `{}` may not do this; it takes {}", principal.role.word(), route.access.text());
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Ok(Some(principal))
}

pub(crate) async fn token_principal(app: &AppState, text: &str) -> Result<Principal, Problem> {
    let Some(presented) = auth::parse_token(text) else {
        return Err(Problem::new(Code::TokenInvalid, "this is not a token; tokens look like sml_<id>_<secret>"));
    };
    let row = match app.tokens().fresh(presented.id) {
        Some(row) => Some(row),
        None => {
            let (state, id) = (app.clone(), presented.id.to_owned());
            app.read(move |store| state.tokens().read(&id, || store.token(&id))).await?
        }
    };
    auth::verify(presented, row.as_ref(), app.store().now())
}

async fn dev_principal(app: &AppState, headers: &HeaderMap) -> Result<Principal, Problem> {
    let Some(named) = headers.get(WORKSPACE) else { return Ok(Principal::dev(WorkspaceId::default())) };
    let unknown = || {
        Problem::new(Code::WorkspaceUnknown, "X-Semel-Workspace names no workspace; `POST /v1/workspaces` makes one")
    };
    let workspace = named.to_str().ok().and_then(WorkspaceId::parse).ok_or_else(unknown)?;
    if workspace.0 == WorkspaceId::DEFAULT {
        return Ok(Principal::dev(workspace));
    }
    let known = app.read(|store| store.workspaces()).await?;
    if known.iter().any(|row| row.id == workspace) { Ok(Principal::dev(workspace)) } else { Err(unknown()) }
}

/// Without tokens, a web page open in the developer's browser could drive the server. A page
/// reveals itself by its Origin, and one that rebound its own name to loopback by its Host.
fn check_browser(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(HOST);
    if let Some(host) = host
        && !is_local_name(host)
    {
        return Err(Problem::new(Code::HostRefused, "a server with --dev answers to localhost and IP addresses only"));
    }
    let Some(origin) = text(ORIGIN) else { return Ok(()) };
    let same = origin.split_once("://").is_some_and(|(_, rest)| Some(rest) == host);
    if same {
        Ok(())
    } else {
        Err(Problem::new(
            Code::CrossOrigin,
            "a server with --dev does not answer other web pages; use a token instead of --dev",
        ))
    }
}

fn is_local_name(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.parse::<std::net::IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
}

fn query(route: &Route, uri: &Uri) -> Result<Query, Problem> {
    if uri.query().is_none() {
        return Ok(Query::default());
    }
    let read = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Ok(axum::extract::Query(pairs)) = read else {
        return Err(Problem::new(
            Code::QueryInvalid,
            "the query string cannot be read; encode it as name=value&name=value in UTF-8",
        ));
    };
    // Kestra and Conductor ignore what they do not know, and their clients rely on that.
    if route.query != ANY_QUERY
        && !kestra::is_under(uri.path())
        && !conductor::is_under(uri.path())
        && let Some((name, _)) = pairs.iter().find(|(name, _)| !route.query.contains(&name.as_str()))
    {
        // A misspelt filter that is ignored answers a question nobody asked.
        let known = if route.query.is_empty() { "none".to_owned() } else { route.query.join(", ") };
        return Err(Problem::query(
            &name.chars().take(100).collect::<String>(),
            format!("is not a parameter of this path; known: {known}"),
        ));
    }
    Ok(Query(pairs))
}

fn too_large(max: u64) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the body is larger than {max} bytes; nothing was stored"))
}

fn check_declared_length(headers: &HeaderMap, max: u64) -> Result<(), Problem> {
    let declared =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<u64>().ok());
    if declared.is_some_and(|length| length > max) { Err(too_large(max)) } else { Ok(()) }
}

/// A body as it came. One that is larger than most holds one of few places, so that many of them do not fill memory.
#[derive(Default)]
struct Whole {
    bytes: Bytes,
    place: Option<OwnedSemaphorePermit>,
}

/// Reads at most the limit, whatever the framing, in at most the limit's time.
async fn read_body(app: &AppState, route: &Route, body: Body) -> Result<Whole, Problem> {
    let limits = app.limits();
    let max = usize::try_from(bytes_max(route, limits)).unwrap_or(usize::MAX);
    let mut reading = std::pin::pin!(collect(body, max, limits.body_bytes_max, app.large_bodies()));
    if let Poll::Ready(read) = futures_util::poll!(reading.as_mut()) {
        return read; // it came with the head, as nearly all do
    }
    match tokio::time::timeout(Duration::from_millis(limits.body_read_ms_max), reading).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(Code::BodyTimeout, "the body did not arrive in time; nothing was stored")),
    }
}

async fn collect(body: Body, max: usize, usual: usize, places: &Arc<Semaphore>) -> Result<Whole, Problem> {
    if body.is_end_stream() {
        return Ok(Whole::default());
    }
    let mut chunks = body.into_data_stream();
    let mut next = async || match chunks.next().await {
        None => Ok(None),
        Some(Ok(chunk)) if chunk.len() > max => Err(too_large(max as u64)),
        Some(Ok(chunk)) => Ok(Some(chunk)),
        Some(Err(_)) => Err(Problem::new(Code::BodyUnreadable, "the body broke off; nothing was stored")),
    };
    // Nearly every body comes in one piece, and is taken as it is.
    let Some(first) = next().await? else { return Ok(Whole::default()) };
    let Some(second) = next().await? else { return Ok(Whole { bytes: first, place: None }) };
    let mut all = BytesMut::from(first);
    let (mut chunk, mut place) = (second, None);
    loop {
        let bytes = all.len() + chunk.len();
        if bytes > max {
            return Err(too_large(max as u64));
        }
        if bytes > usual && place.is_none() {
            // Nobody closes these places.
            place = places.clone().acquire_owned().await.ok();
        }
        all.extend_from_slice(&chunk);
        match next().await? {
            Some(more) => chunk = more,
            None => return Ok(Whole { bytes: all.freeze(), place }),
        }
    }
}

fn note_refusal(app: &AppState, route: &Route, workspace: Option<WorkspaceId>, path: &str, code: Code) {
    let Some(door) = route.door else { return };
    // A webhook's path holds its key.
    let path = if route.access == auth::Access::Webhook { route.path } else { path };
    let at: Millis = app.store().now();
    app.refusals().add(Refused { at, workspace, door, code, path: path.to_owned() });
}

/// Names the methods of the path. The path matched, so at least one row has it.
fn method_not_allowed(uri: &Uri) -> Problem {
    let path = tenant::named(uri.path());
    let given: Vec<&str> = path.split('/').collect();
    let matches = |pattern: &str| {
        let parts: Vec<&str> = pattern.split('/').collect();
        parts.len() == given.len() && parts.iter().zip(&given).all(|(part, text)| part.starts_with('{') || part == text)
    };
    // As in the site: where several patterns match, the one with the fewest open parts has the path.
    let open_parts = |route: &&Route| route.path.matches('{').count();
    let found = ROUTES.iter().filter(|route| matches(route.path)).min_by_key(open_parts);
    let rows = ROUTES.iter().filter(|route| found.is_some_and(|found| found.path == route.path));
    let allowed = rows.map(|route| route.method.word()).collect::<Vec<_>>().join(", ");
    Problem::new(Code::MethodNotAllowed, format!("this path takes {allowed}")).with("allow", allowed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_rebound_are_local() {
        for good in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "app.localhost"] {
            assert!(is_local_name(good), "{good}");
        }
        for bad in ["evil.example", "localhost.evil.example:8080", "127.0.0.1.nip.io", ""] {
            assert!(!is_local_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_foreign_page_is_refused_and_a_plain_client_is_not() {
        let check = |host: Option<&'static str>, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            check_browser(&headers).map_err(|problem| problem.code)
        };
        assert_eq!(check(None, None), Ok(()));
        assert_eq!(check(Some("localhost:8080"), Some("http://localhost:8080")), Ok(()));
        assert_eq!(check(Some("localhost:8080"), Some("http://evil.example")), Err(Code::CrossOrigin));
        assert_eq!(check(Some("localhost:8080"), Some("null")), Err(Code::CrossOrigin));
        assert_eq!(check(Some("evil.example:8080"), None), Err(Code::HostRefused));
    }

    #[test]
    fn a_head_is_counted_as_it_was_written() {
        let head = "POST /v1/runs?x=1 HTTP/1.1\r\nhost: localhost\r\nx-a: b\r\n\r\n";
        let request = Request::post("http://localhost/v1/runs?x=1").header("host", "localhost").header("x-a", "b");
        let request = request.body(Body::empty()).unwrap();
        assert_eq!(check_head(&request, head.len()), Ok(()));
        assert_eq!(check_head(&request, head.len() - 1).unwrap_err().code, Code::HeadTooLarge);
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_without_its_text() {
        let response = unpanicked(&"/v1/runs".parse().unwrap(), async { panic!("the secret is 4111") }).await;
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.contains("\"internal\"") && !text.contains("4111"), "{text}");
    }

    #[tokio::test]
    async fn a_body_is_cut_at_its_limit_whatever_its_framing() {
        let chunks = |n: usize| {
            Body::from_stream(futures_util::stream::iter(
                (0..n).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"abcd"))),
            ))
        };
        let places = Arc::new(Semaphore::new(1));
        let read = async |body, max| {
            let read = collect(body, max, 8, &places).await;
            read.map(|whole| (whole.bytes.len(), whole.place.is_some())).map_err(|problem| problem.code)
        };
        assert_eq!(read(chunks(4), 16).await, Ok((16, true)), "it has a place among the large ones");
        assert_eq!(read(chunks(2), 16).await, Ok((8, false)));
        assert_eq!(read(chunks(5), 16).await, Err(Code::BodyTooLarge));
        assert_eq!(read(Body::empty(), 0).await, Ok((0, false)));
        assert_eq!(places.available_permits(), 1, "places become free again");
    }

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        let problem = method_not_allowed(&"/v1/kv/ns/key".parse().unwrap());
        assert_eq!(problem.more.extra["allow"], "GET, PUT, DELETE");
        let shadowed = method_not_allowed(&"/v1/workflows/validate".parse().unwrap());
        assert_eq!(shadowed.more.extra["allow"], "POST");
    }
}
