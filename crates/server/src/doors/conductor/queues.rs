//! `/api/tasks/queue`: how much waits, and who asks.

use super::{body, text};
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use semel_store::ErrandQueue;
use serde_json::{Map, Value as Json, json};

/// How many wait in each queue, and how many somebody has.
async fn counts(call: &Call) -> Result<Vec<(ErrandQueue, u64, u64)>, Problem> {
    let workspace = call.workspace()?;
    call.app.read(move |store| store.errand_counts(&workspace)).await
}

/// The name of a queue, with its domain before it.
fn name(queue: &ErrandQueue) -> String {
    if queue.domain.is_empty() { queue.queue.clone() } else { format!("{}:{}", queue.domain, queue.queue) }
}

/// How many wait for somebody, for the task types that are named, or for all.
pub async fn sizes(call: Call) -> Answer {
    let asked: Vec<String> = call.query.all("taskType").map(str::to_owned).collect();
    let mut found: Map<String, Json> = asked.iter().map(|name| (name.clone(), json!(0))).collect();
    for (queue, waiting, _) in counts(&call).await? {
        let name = name(&queue);
        if asked.is_empty() || asked.contains(&name) {
            found.insert(name, json!(waiting));
        }
    }
    ok(found)
}

pub async fn size(call: Call) -> Answer {
    let task = body::query(&call, "taskType")?.ok_or_else(|| Problem::query("taskType", "must be given"))?;
    let domain = body::query(&call, "domain")?.unwrap_or_default();
    let found = counts(&call).await?;
    let own = found.iter().find(|(queue, _, _)| queue.queue == task && queue.domain == domain);
    ok(own.map_or(0, |(_, waiting, _)| *waiting))
}

pub async fn all(call: Call) -> Answer {
    let found = counts(&call).await?;
    ok(found.iter().map(|(queue, waiting, _)| (name(queue), json!(waiting))).collect::<Map<String, Json>>())
}

/// With how many somebody has, in the shape of a queue with one shard.
pub async fn verbose(call: Call) -> Answer {
    let found = counts(&call).await?;
    let one = |(queue, waiting, taken): &(ErrandQueue, u64, u64)| {
        (name(queue), json!({"a": {"size": waiting, "uacked": taken}}))
    };
    ok(found.iter().map(one).collect::<Map<String, Json>>())
}

/// Who asked for a task last, and when; by this node, since it began.
pub async fn poll_data(call: Call) -> Answer {
    let task = body::query(&call, "taskType")?.ok_or_else(|| Problem::query("taskType", "must be given"))?;
    polled(&call, Some(&task))
}

pub async fn all_poll_data(call: Call) -> Answer {
    polled(&call, None)
}

fn polled(call: &Call, task: Option<&str>) -> Answer {
    let found = call.app.engine().polled(&call.workspace()?);
    let own = found.iter().filter(|poll| task.is_none_or(|task| poll.from.queue == task));
    let shown = own.map(|poll| {
        let mut out = json!({"queueName": poll.from.queue, "workerId": poll.worker, "lastPollTime": poll.at.0});
        if !poll.from.domain.is_empty() {
            out["domain"] = poll.from.domain.as_str().into();
        }
        out
    });
    ok(shown.collect::<Vec<Json>>())
}

/// Nothing falls out of a queue here: what waits is in it. How many do is the answer.
pub async fn requeue(call: Call) -> Answer {
    let task = call.param("type")?.to_owned();
    let waiting: u64 = counts(&call).await?.iter().filter(|(queue, _, _)| queue.queue == task).map(|(_, n, _)| n).sum();
    text(waiting.to_string())
}
