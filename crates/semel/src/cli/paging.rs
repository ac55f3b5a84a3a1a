//! Lists: one page, or all of them.

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::{Column, table};
use clap::Args;
use serde_json::{Value as Json, json};

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Paging")]
pub struct Paging {
    /// Most rows to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub limit: u32,
    /// Go on after an earlier page
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Fetch every page
    #[arg(long, conflicts_with = "cursor")]
    pub all: bool,
}

/// For commands that need the whole list.
pub const EVERYTHING: Paging = Paging { limit: 500, cursor: None, all: true };

/// Fetches a list and prints it as a table.
pub async fn list(
    client: &Client,
    shell: &Shell,
    segments: &[&str],
    query: Vec<(&'static str, String)>,
    paging: &Paging,
    columns: &[Column],
) -> Result<Reply, Failure> {
    let (items, next) = fetch(client, segments, query, paging).await?;
    let text = if items.is_empty() && shell.terminal { String::new() } else { table(shell, columns, &items) };
    let note = match &next {
        Some(cursor) => Some(format!("more: --cursor {cursor} (or --all)")),
        None if items.is_empty() => Some("nothing found".to_owned()),
        None => None,
    };
    Ok(Reply::new(Json::Array(items), text).meta(json!({ "next_cursor": next })).maybe_note(note))
}

pub async fn fetch(
    client: &Client,
    segments: &[&str],
    mut query: Vec<(&'static str, String)>,
    paging: &Paging,
) -> Result<(Vec<Json>, Option<String>), Failure> {
    query.push(("limit", paging.limit.to_string()));
    let mut items = Vec::new();
    let mut cursor = paging.cursor.clone();
    loop {
        let mut page_query = query.clone();
        page_query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page = client.get(segments, &page_query).await?;
        if let Some(Json::Array(page_items)) = page.get_mut("items").map(Json::take) {
            items.extend(page_items);
        }
        cursor = page.get("next_cursor").and_then(Json::as_str).map(str::to_owned);
        if cursor.is_none() || !paging.all {
            return Ok((items, cursor));
        }
    }
}
