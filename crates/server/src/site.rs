//! The table of routes as one service: finds the row of a request and sees it answered.
//!
//! A path is matched to its rows, then the method to one of them; all else is the business of [`dispatch`]. There is
//! one boxed future per request.

use crate::dispatch;
use crate::doors::kestra::tenant;
use crate::routes::{ROUTES, Route};
use crate::state::AppState;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use percent_encoding::percent_decode_str;
use std::sync::Arc;

#[derive(Clone)]
pub struct Site(Arc<Inner>);

struct Inner {
    app: AppState,
    paths: matchit::Router<Vec<&'static Route>>,
}

/// What a request asks for.
pub(crate) enum Found {
    Route(&'static Route, Params),
    WrongMethod,
    Nothing,
}

/// The open parts of a path, by name, decoded; `None` if one is not UTF-8.
pub(crate) type Params = Option<Vec<(String, String)>>;

impl Site {
    pub fn new(app: AppState) -> Site {
        let mut paths = matchit::Router::new();
        for (at, route) in ROUTES.iter().enumerate() {
            if ROUTES[..at].iter().all(|earlier| earlier.path != route.path) {
                let rows = ROUTES.iter().filter(|row| row.path == route.path).collect();
                // A test matches every row of the table.
                let _ = paths.insert(route.path, rows);
            }
        }
        Site(Arc::new(Inner { app, paths }))
    }

    pub async fn answer(&self, request: Request) -> Response {
        let found = self.find(request.method(), request.uri().path());
        let is_head = *request.method() == Method::HEAD;
        let response = dispatch::around(&self.0.app, found, request).await;
        if is_head { without_body(response) } else { response }
    }

    fn find(&self, method: &Method, path: &str) -> Found {
        let mut path = tenant::named(path);
        if let Some(flow) = (method == Method::POST).then(|| tenant::flow_called_as_a_word(&path)).flatten() {
            path = flow.into();
        }
        let Ok(matched) = self.0.paths.at(&path) else { return Found::Nothing };
        // Where something can be got, it can be looked at.
        let wanted = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        match matched.value.iter().find(|route| route.method.word() == wanted) {
            Some(route) => Found::Route(route, params(&matched.params)),
            None => Found::WrongMethod,
        }
    }
}

fn params(found: &matchit::Params<'_, '_>) -> Params {
    let decoded = |value| percent_decode_str(value).decode_utf8().ok();
    found.iter().map(|(name, value)| Some((name.to_owned(), decoded(value)?.into_owned()))).collect()
}

/// The head of an answer, with the length that the body would have.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact().filter(|length| *length > 0) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> matchit::Router<Vec<&'static Route>> {
        let mut paths = matchit::Router::new();
        for route in ROUTES {
            let _ = paths.insert(route.path, vec![route]);
        }
        paths
    }

    #[test]
    fn every_row_can_be_reached() {
        let paths = paths();
        for route in ROUTES {
            let path: Vec<&str> =
                route.path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
            let found = paths.at(&path.join("/")).map(|matched| matched.value[0].path);
            assert_eq!(found.ok(), Some(route.path));
        }
    }

    #[test]
    fn parts_of_a_path_are_decoded() {
        let paths = paths();
        let read = |path: &'static str| params(&paths.at(path).unwrap().params);
        assert_eq!(read("/v1/runs/a%20b"), Some(vec![("id".into(), "a b".into())]));
        assert_eq!(
            read("/v1/kv/n%2fs/%C3%A9"),
            Some(vec![("namespace".into(), "n/s".into()), ("key".into(), "é".into())])
        );
        assert_eq!(read("/v1/runs/%FF"), None);
    }
}
