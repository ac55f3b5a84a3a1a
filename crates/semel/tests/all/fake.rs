//! A stand-in for the server: remembers what was asked and answers what it was told to.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
pub struct Asked {
    /// `METHOD /path?query`
    pub line: String,
    pub headers: axum::http::HeaderMap,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub struct Fake {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Fake {
    /// Answers in this order; what comes after the last one gets 500.
    pub fn answering(answers: &[(u16, &str)]) -> Fake {
        let answers: VecDeque<(u16, String)> =
            answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
        let answers = Arc::new(Mutex::new(answers));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = asked.clone();
        let router = Router::new().fallback(move |request: Request| {
            let (answers, remembered) = (answers.clone(), remembered.clone());
            async move {
                remember(request, &remembered).await;
                let (status, body) = answers.lock().unwrap().pop_front().unwrap_or((500, "{}".to_owned()));
                Response::builder().status(status).body(Body::from(body)).unwrap()
            }
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Fake { url, asked, _runtime: runtime }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn remember(request: Request, remembered: &Mutex<Vec<Asked>>) {
    let line = format!("{} {}", request.method(), request.uri());
    let headers = request.headers().clone();
    let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = String::from_utf8(bytes.to_vec()).unwrap();
    remembered.lock().unwrap().push(Asked { line, headers, body });
}
