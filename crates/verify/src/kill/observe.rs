//! What the server says at the end, read over its API.

use futures_util::StreamExt;
use reqwest::{Client, RequestBuilder};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Reads in flight at once.
const READS: usize = 8;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub id: String,
    pub flow: String,
    pub status: String,
    pub key: Option<String>,
    pub door: String,
    pub is_child: bool,
    pub generation: u64,
    pub open_doubts: u64,
    /// Code and message of a run that failed.
    pub error: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effect {
    pub step: String,
    pub state: String,
    pub class: String,
    pub key: String,
    /// Intents in the journal: how often it may have been sent.
    pub intents: u64,
    /// A person had it sent again.
    pub repeats: u64,
    /// A person said how it ended.
    pub judged: bool,
}

/// A claim of an event key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    pub key: String,
    pub flow: String,
    pub run: String,
    pub state: String,
}

#[derive(Clone, Debug, Default)]
pub struct World {
    pub runs: Vec<Run>,
    /// By run.
    pub effects: BTreeMap<String, Vec<Effect>>,
    pub claims: Vec<Claim>,
}

/// A caller of one server, or of any of several: after an error it asks the next one.
#[derive(Clone)]
pub struct Api {
    client: Client,
    urls: Vec<String>,
    turn: Arc<AtomicUsize>,
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn flow_name(json: &Json) -> String {
    let id = text(json);
    id.split_once(':').map_or(id.clone(), |(_, flow)| flow.to_owned())
}

impl Api {
    pub fn new(url: &str) -> Result<Api, reqwest::Error> {
        Api::of_any(&[url.to_owned()], Duration::from_secs(30))
    }

    pub fn of_any(urls: &[String], patience: Duration) -> Result<Api, reqwest::Error> {
        let client = Client::builder().no_proxy().timeout(patience).build()?;
        Ok(Api { client, urls: urls.to_owned(), turn: Arc::default() })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.urls[self.turn.load(Ordering::Relaxed) % self.urls.len()])
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Json, reqwest::Error> {
        let answer = async { request.send().await?.error_for_status()?.json().await }.await;
        if answer.is_err() {
            self.turn.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    pub async fn get(&self, path: &str) -> Result<Json, reqwest::Error> {
        self.answer(self.client.get(self.url(path))).await
    }

    pub async fn post(&self, path: &str, body: &Json) -> Result<Json, reqwest::Error> {
        self.answer(self.client.post(self.url(path)).json(body)).await
    }

    pub async fn push(&self, source: &str) -> Result<(), String> {
        let request = self.client.put(self.url("/v1/workflows")).header("content-type", "application/yaml");
        let answer = request.body(source.to_owned()).send().await.map_err(|error| error.to_string())?;
        let (status, body) = (answer.status(), answer.text().await.unwrap_or_default());
        if status.is_success() { Ok(()) } else { Err(format!("{status}: {body}\n{source}")) }
    }

    /// All items of a list, page by page.
    pub async fn all(&self, path: &str) -> Result<Vec<Json>, reqwest::Error> {
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let sign = if path.contains('?') { '&' } else { '?' };
            let page = self.get(&format!("{path}{sign}limit=500{cursor}")).await?;
            items.extend(page["items"].as_array().cloned().unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(items),
            }
        }
    }

    pub async fn runs(&self, filter: &str) -> Result<Vec<Run>, reqwest::Error> {
        let rows = self.all(&format!("/v1/runs{filter}")).await?;
        let run = |row: &Json| Run {
            id: text(&row["run_id"]),
            flow: flow_name(&row["workflow_id"]),
            status: text(&row["status"]),
            key: row["key"].as_str().map(str::to_owned),
            door: text(&row["door"]),
            is_child: !row["parent_run_id"].is_null(),
            generation: row["generation"].as_u64().unwrap_or(0),
            open_doubts: row["open_doubts"].as_u64().unwrap_or(0),
            error: if row["error"].is_null() { String::new() } else { row["error"].to_string() },
        };
        Ok(rows.iter().map(run).collect())
    }

    async fn effects(&self, run: &str) -> Result<Vec<Effect>, reqwest::Error> {
        let rows = self.all(&format!("/v1/runs/{run}/steps")).await?;
        let journal = self.all(&format!("/v1/runs/{run}/journal")).await?;
        let events: Vec<&Json> =
            journal.iter().flat_map(|row| row["events"].as_array().into_iter().flatten()).collect();
        let count = |step: &Json, is: &dyn Fn(&Json) -> bool| {
            events.iter().filter(|event| event["step"] == *step && is(event)).count() as u64
        };
        let effect = |row: &Json| Effect {
            step: text(&row["step"]),
            state: text(&row["state"]),
            class: text(&row["class"]),
            key: text(&row["key"]),
            intents: count(&row["step"], &|event| event["event"] == "intent"),
            repeats: count(&row["step"], &|event| {
                event["event"] == "verdict" && text(&event["verdict"]).starts_with("repeat")
            }),
            judged: count(&row["step"], &|event| {
                event["event"] == "verdict" && !text(&event["verdict"]).starts_with("repeat")
            }) > 0,
        };
        Ok(rows.iter().map(effect).collect())
    }

    /// Everything the end check asks the server.
    pub async fn world(&self) -> Result<World, reqwest::Error> {
        let runs = self.runs("").await?;
        let reads = futures_util::stream::iter(runs.iter().map(|run| {
            let api = self.clone();
            let id = run.id.clone();
            async move { api.effects(&id).await.map(|effects| (id, effects)) }
        }));
        let found: Vec<Result<(String, Vec<Effect>), reqwest::Error>> = reads.buffer_unordered(READS).collect().await;
        let effects = found.into_iter().collect::<Result<BTreeMap<_, _>, _>>()?;
        let claim = |row: &Json| Claim {
            key: text(&row["key"]),
            flow: flow_name(&row["workflow_id"]),
            run: text(&row["run_id"]),
            state: text(&row["state"]),
        };
        let claims = self.all("/v1/keys").await?.iter().map(claim).collect();
        Ok(World { runs, effects, claims })
    }
}
