//! The payment provider: delivers one event many times at once, and again whenever nobody answered.
//!
//! That is what webhooks do. A delivery ends with an answer; a broken connection or a 5xx only means "again".

use crate::failure::Failure;
use reqwest::{Client, Url};
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;

const AGAIN_AFTER: Duration = Duration::from_millis(50);
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// One answered delivery.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub run_id: String,
    pub replayed: bool,
    /// How often it was sent; more than once after a lost answer.
    pub sends: u32,
}

/// What the demo hears while deliveries go on.
#[derive(Debug)]
pub enum News {
    Answered(Delivery),
    /// No answer; it will be sent again.
    CutOff,
}

pub struct Provider {
    pub news: mpsc::UnboundedReceiver<News>,
    deliveries: JoinSet<Result<(), Failure>>,
}

impl Provider {
    /// Sends the event `count` times at the same moment, each on a connection of its own.
    pub fn deliver(url: Url, event: &Json, count: u32) -> Result<Provider, Failure> {
        let client = client()?;
        let (teller, news) = mpsc::unbounded_channel();
        let start = Arc::new(Barrier::new(count as usize));
        let body = event.to_string();
        let mut deliveries = JoinSet::new();
        for _ in 0..count {
            let (client, url, body) = (client.clone(), url.clone(), body.clone());
            let (start, teller) = (start.clone(), teller.clone());
            deliveries.spawn(async move {
                start.wait().await;
                deliver_until_answered(&client, &url, &body, &teller).await
            });
        }
        Ok(Provider { news, deliveries })
    }

    /// The first failure among the deliveries, if there is one. Call it once the news has ended.
    pub async fn finish(mut self) -> Result<(), Failure> {
        while let Some(outcome) = self.deliveries.join_next().await {
            outcome.map_err(|error| Failure::refused("demo_failed", format!("a delivery broke: {error}")))??;
        }
        Ok(())
    }
}

fn client() -> Result<Client, Failure> {
    let builder = Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(0);
    builder.build().map_err(|error| Failure::refused("demo_failed", error.to_string()))
}

async fn deliver_until_answered(
    client: &Client,
    url: &Url,
    body: &str,
    teller: &mpsc::UnboundedSender<News>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut sends = 0;
    loop {
        sends += 1;
        if let Some(answer) = send(client, url, body).await? {
            let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
            let replayed = answer["idempotent_replayed"].as_bool().unwrap_or(false);
            // The demo may have been interrupted; then nobody counts any more.
            let _ = teller.send(News::Answered(Delivery { run_id: text("run_id"), replayed, sends }));
            return Ok(());
        }
        if started.elapsed() > GIVE_UP_AFTER {
            return Err(Failure::refused("demo_failed", "a delivery was not answered within a minute"));
        }
        let _ = teller.send(News::CutOff);
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// `None` means that it must be sent again.
async fn send(client: &Client, url: &Url, body: &str) -> Result<Option<Json>, Failure> {
    let request = client.post(url.clone()).header("content-type", "application/json").body(body.to_owned());
    let Ok(response) = request.send().await else { return Ok(None) };
    let status = response.status();
    let Ok(answer) = response.json::<Json>().await else { return Ok(None) };
    if status.is_success() {
        return Ok(Some(answer));
    }
    if status.is_server_error() {
        return Ok(None);
    }
    let why = answer["detail"].as_str().unwrap_or("no reason given");
    Err(Failure::refused("demo_failed", format!("a delivery was refused with {status}: {why}")))
}
