//! `semel run show`

use super::object;
use crate::cli::paging::{EVERYTHING, fetch};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, column, field, table, time};
use clap::Args;
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
const DETAILS_CHARS_MAX: usize = 100;

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

fn line(row: &Json, mut event: Json) -> Json {
    let (name, step) = (field(&event, "event"), field(&event, "step"));
    if let Some(fields) = event.as_object_mut() {
        // The row has its own time, and these two have their own columns.
        fields.retain(|field, value| !matches!(field.as_str(), "event" | "step" | "at") && !value.is_null());
    }
    let mut details =
        if event.as_object().is_some_and(|fields| fields.is_empty()) { String::new() } else { event.to_string() };
    if let Some((end, _)) = details.char_indices().nth(DETAILS_CHARS_MAX) {
        details.truncate(end);
        details.push('…');
    }
    json!({ "seq": row["seq"], "at": row["at"], "event": name, "step": step, "details": details })
}
