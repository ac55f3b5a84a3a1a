//! `semel run show`

use super::object;
use crate::cli::paging::{EVERYTHING, fetch};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, table, time};
use clap::Args;
use semel_core::Millis;
use serde_json::{Value as Json, json};

/// Show one run: its state, and on demand its logs, its effects, its journal
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run show 0198c0de-0000-7000-8000-000000000001
  semel run show 0198c0de-0000-7000-8000-000000000001 --logs --steps
  semel run show 0198c0de-0000-7000-8000-000000000001 --journal --json")]
pub struct Show {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// The events that made the run what it is
    #[arg(long)]
    journal: bool,
    /// What its steps logged
    #[arg(long)]
    logs: bool,
    /// The effects ledger: what left the process, and what is known of it
    #[arg(long)]
    steps: bool,
}

const LOGS: &[Column] = &[
    column("AT", |item| time(item, "at")),
    column("LEVEL", |item| field(item, "level")),
    column("STEP", |item| field(item, "step")),
    column("MESSAGE", |item| field(item, "message")),
];
const STEPS: &[Column] = &[
    column("STEP", |item| field(item, "step")),
    column("CLASS", |item| field(item, "class")),
    column("STATE", |item| field(item, "state")),
    column("ATTEMPT", |item| field(item, "attempt")),
    column("SENDS", |item| field(item, "sends")),
    column("KEY", |item| field(item, "key")),
    column("AT", |item| time(item, "at")),
];
const JOURNAL: &[Column] = &[
    column("SEQ", |item| field(item, "seq")),
    column("AT", |item| time(item, "at")),
    column("EVENT", |item| field(item, "event")),
    column("STEP", |item| field(item, "step")),
    column("DETAILS", |item| field(item, "details")),
];
const DETAIL_CHARS_MAX: usize = 80;

impl Show {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let mut run = client.get(&["v1", "runs", &self.run], &[]).await?;
        let mut text = object::card(shell, &run);
        for (asked, name, columns) in
            [(self.steps, "steps", STEPS), (self.logs, "logs", LOGS), (self.journal, "journal", JOURNAL)]
        {
            if asked {
                let (items, _) = fetch(client, &["v1", "runs", &self.run, name], vec![], &EVERYTHING).await?;
                let rows = if name == "journal" { events(&items) } else { items.clone() };
                text.push_str(&format!("\n\n{}\n{}", shell.out.bold(name), table(shell, columns, &rows)));
                run[name] = Json::Array(items);
            }
        }
        Ok(Reply::new(run, text))
    }
}

/// One row per event, for reading; `--json` has each event whole.
fn events(rows: &[Json]) -> Vec<Json> {
    let events = |row: &Json| row["events"].as_array().cloned().unwrap_or_default();
    rows.iter().flat_map(|row| events(row).into_iter().map(|event| line(row, event))).collect()
}

fn line(row: &Json, event: Json) -> Json {
    let (name, step) = (field(&event, "event"), field(&event, "step"));
    // The row has its own time, and these two have their own columns.
    let fields = event.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| !matches!(name.as_str(), "event" | "step" | "at") && !value.is_null());
    let details: Vec<String> = fields.map(|(name, value)| format!("{name}={}", detail(name, value))).collect();
    json!({ "seq": row["seq"], "at": row["at"], "event": name, "step": step, "details": details.join(" ") })
}

/// One field of an event, short enough for its line.
fn detail(name: &str, value: &Json) -> String {
    let text = match (name, value) {
        ("due" | "safe_until", Json::Number(ms)) => Millis(ms.as_i64().unwrap_or_default()).to_rfc3339(),
        ("by", Json::Object(_)) => join(&value["who"], &value["why"]),
        ("failure", Json::Object(_)) => join(&value["code"], &value["message"]),
        ("flow", Json::Object(_)) => join(&value["namespace"], &value["id"]),
        (_, Json::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    };
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn join(one: &Json, two: &Json) -> String {
    let texts = [one, two].map(|value| value.as_str().unwrap_or_default());
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let row = json!({"seq": 3, "at": "2026-01-01T00:00:00.000Z"});
        let intent = json!({"event": "intent", "step": "pay", "attempt": 1, "send": 2, "class": "keyed",
            "out_key": "k-1", "safe_until": 1_700_000_000_123_i64, "request": null});
        let shown = line(&row, intent);
        assert_eq!((&shown["event"], &shown["step"]), (&json!("intent"), &json!("pay")));
        assert_eq!(shown["details"], "attempt=1 send=2 class=keyed out_key=k-1 safe_until=2023-11-14T22:13:20.123Z");
        let failed =
            json!({"event": "attempt_failed", "step": "pay", "failure": {"code": "lost", "message": "é".repeat(200)}});
        let shown = field(&line(&row, failed), "details");
        assert!(shown.starts_with("failure=lost: é") && shown.ends_with('…'), "{shown}");
        let released = json!({"event": "released", "by": {"who": "ann", "why": "looked"}});
        assert_eq!(line(&row, released)["details"], "by=ann: looked");
    }
}
