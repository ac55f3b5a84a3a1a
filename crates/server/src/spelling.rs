//! How a sender wrote the names of its headers.
//!
//! To HTTP a name is the same whatever its case, and the library keeps it in lower case. A flow may show names all the
//! same, so for webhooks they are kept as they came: each connection remembers the last bytes it has read, and the head
//! of a request is looked up in them. What is found must agree with what the library has read, else names stay as the
//! library has them; so they do under HTTP/2, which knows no upper case.

use crate::site::Site;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Version};
use axum::response::Response;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Names of one request, by their lower case; empty where nothing is known.
#[derive(Clone, Debug, Default)]
pub struct Spelling(Option<Arc<HashMap<String, String>>>);

impl Spelling {
    pub fn of<'a>(&'a self, lower: &'a str) -> &'a str {
        self.0.as_ref().and_then(|names| names.get(lower)).map_or(lower, String::as_str)
    }

    /// Reads the head of a request from the bytes that held it.
    fn read(bytes: &[u8], line: &str, headers: &HeaderMap) -> Spelling {
        let found = bytes.windows(line.len()).rposition(|window| window == line.as_bytes());
        let Some(at) = found else { return Spelling::default() };
        let mut names = HashMap::new();
        let mut fields = 0;
        for field in bytes[at..].split(|byte| *byte == b'\n').skip(1) {
            let field = field.strip_suffix(b"\r").unwrap_or(field);
            if field.is_empty() {
                break;
            }
            let name = field.split(|byte| *byte == b':').next().unwrap_or_default();
            let Ok(name) = std::str::from_utf8(name) else { return Spelling::default() };
            fields += 1;
            names.entry(name.to_ascii_lowercase()).or_insert_with(|| name.to_owned());
        }
        let agrees = fields == headers.len() && headers.keys().all(|name| names.contains_key(name.as_str()));
        if agrees { Spelling(Some(Arc::new(names))) } else { Spelling::default() }
    }
}

/// The last bytes of a connection.
pub struct Heard {
    bytes: Mutex<Vec<u8>>,
    bytes_max: usize,
}

impl Heard {
    pub fn new(bytes_max: usize) -> Arc<Heard> {
        Arc::new(Heard { bytes: Mutex::default(), bytes_max })
    }

    fn add(&self, new: &[u8]) {
        let mut bytes = self.bytes.lock();
        let new = &new[new.len().saturating_sub(self.bytes_max)..];
        let excess = (bytes.len() + new.len()).saturating_sub(self.bytes_max);
        bytes.drain(..excess);
        bytes.extend_from_slice(new);
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock())
    }
}

/// A connection that remembers.
pub struct Hearing<S> {
    pub stream: S,
    pub heard: Arc<Heard>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Hearing<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.heard.add(&buf.filled()[before..]);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hearing<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The site as one connection sees it.
pub struct Spelled {
    pub site: Site,
    pub heard: Arc<Heard>,
}

impl hyper::service::Service<Request<Incoming>> for Spelled {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let bytes = self.heard.take();
        if request.uri().path().contains("/webhook") && request.version() < Version::HTTP_2 {
            let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
            let line = format!("{} {target} HTTP/1.", request.method());
            let spelling = Spelling::read(&bytes, &line, request.headers());
            request.extensions_mut().insert(spelling);
        }
        let site = self.site.clone();
        Box::pin(async move { Ok(site.answer(request.map(Body::new)).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(names: &[&'static str]) -> HeaderMap {
        names.iter().map(|name| (axum::http::HeaderName::from_static(name), "x".parse().unwrap())).collect()
    }

    #[test]
    fn names_are_as_they_were_written() {
        let bytes = b"body of the one before\r\nPOST /v1/webhooks/a HTTP/1.1\r\nX-GitHub-Event: x\r\nhost: x\r\n\r\n{}";
        let line = "POST /v1/webhooks/a HTTP/1.";
        let read = |names: &[&'static str]| Spelling::read(bytes, line, &headers(names));
        let found = read(&["x-github-event", "host"]);
        assert_eq!(found.of("x-github-event"), "X-GitHub-Event");
        assert_eq!((found.of("host"), found.of("other")), ("host", "other"));
        for others in [&["x-github-event"][..], &["x-github-event", "cookie"], &["x-github-event", "host", "cookie"]] {
            assert_eq!(read(others).of("x-github-event"), "x-github-event", "what does not agree is not used");
        }
        assert!(Spelling::read(bytes, "GET / HTTP/1.", &headers(&["host"])).0.is_none());
    }

    #[test]
    fn a_connection_remembers_no_more_than_it_may() {
        let heard = Heard::new(8);
        heard.add(b"abcd");
        heard.add(b"efgh");
        heard.add(b"ij");
        assert_eq!(heard.take(), b"cdefghij");
        heard.add(b"0123456789");
        assert_eq!(heard.take(), b"23456789");
        assert!(heard.take().is_empty());
    }
}
