//! Lists for people: a table on a terminal, tab-separated lines in a pipe.

use crate::output::{Paint, Shell};
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use serde_json::Value as Json;

/// A column: its title and where its text comes from.
pub struct Column {
    pub title: &'static str,
    pub text: fn(&Json) -> String,
}

pub const fn column(title: &'static str, text: fn(&Json) -> String) -> Column {
    Column { title, text }
}

pub fn table(shell: &Shell, columns: &[Column], items: &[Json]) -> String {
    if shell.terminal { drawn(shell.out, columns, items) } else { tabbed(columns, items) }
}

fn drawn(paint: Paint, columns: &[Column], items: &[Json]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(|column| Cell::new(column.title)));
    for item in items {
        table.add_row(columns.iter().map(|column| cell(paint, column, item)));
    }
    table.to_string()
}

fn cell(paint: Paint, column: &Column, item: &Json) -> Cell {
    let text = (column.text)(item);
    match status_color(&text) {
        Some(color) if paint.0 && column.title == "STATUS" => Cell::new(text).fg(color),
        _ => Cell::new(text),
    }
}

fn status_color(status: &str) -> Option<Color> {
    match status {
        "completed" => Some(Color::Green),
        "failed" => Some(Color::Red),
        "held" | "paused" | "cancelled" => Some(Color::Yellow),
        "running" | "queued" | "waiting" => Some(Color::Cyan),
        _ => None,
    }
}

/// One line per item, so that `cut`, `awk` and `grep` work; the title line stays.
fn tabbed(columns: &[Column], items: &[Json]) -> String {
    let titles = columns.iter().map(|column| column.title).collect::<Vec<_>>().join("\t");
    let rows = items.iter().map(|item| {
        columns.iter().map(|column| (column.text)(item).replace(['\t', '\n', '\r'], " ")).collect::<Vec<_>>().join("\t")
    });
    std::iter::once(titles).chain(rows).collect::<Vec<_>>().join("\n")
}

/// A field as text: nothing for null, compact JSON for what is nested.
pub fn field(item: &Json, name: &str) -> String {
    plain(item.get(name).unwrap_or(&Json::Null))
}

pub fn plain(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => harmless(text),
        other => other.to_string(),
    }
}

/// Keys and log lines come from strangers: an escape sequence in one must not drive the reader's terminal.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// An RFC 3339 instant without what a person does not read.
pub fn time(item: &Json, name: &str) -> String {
    field(item, name).replace('T', " ").trim_end_matches('Z').to_owned()
}

/// From one instant to another, if both are there.
pub fn lasted(item: &Json, from: &str, to: &str) -> String {
    let instant =
        |name: &str| item.get(name).and_then(Json::as_str).and_then(|text| text.parse::<jiff::Timestamp>().ok());
    match (instant(from), instant(to)) {
        (Some(from), Some(to)) => milliseconds(to.as_millisecond() - from.as_millisecond()),
        _ => String::new(),
    }
}

pub fn milliseconds(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Aligned `name  value` lines, leaving out what is empty.
pub fn card(paint: Paint, rows: &[(&str, String)]) -> String {
    let width = rows.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = rows.iter().filter(|(_, value)| !value.is_empty());
    lines
        .map(|(name, value)| format!("{}  {value}", paint.dim(&format!("{name:width$}"))))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pipe_gets_one_line_per_item() {
        let columns = [column("KEY", |item| field(item, "key")), column("N", |item| field(item, "n"))];
        let text = tabbed(&columns, &[json!({"key": "a\tb\nc", "n": 1}), json!({"n": null})]);
        assert_eq!(text, "KEY\tN\na b c\t1\n\t");
    }

    #[test]
    fn a_log_line_cannot_drive_the_terminal() {
        assert_eq!(field(&json!({"m": "a\u{1b}[2Jb\n"}), "m"), "a\u{fffd}[2Jb\n");
    }

    #[test]
    fn durations_read_well() {
        let item = json!({"a": "2025-01-01T00:00:00.000Z", "b": "2025-01-01T00:01:05.250Z"});
        assert_eq!(lasted(&item, "a", "b"), "1 min 5 s");
        assert_eq!(lasted(&item, "a", "missing"), "");
        assert_eq!(milliseconds(999), "999 ms");
        assert_eq!(milliseconds(1_500), "1.5 s");
        assert_eq!(milliseconds(7_260_000), "2 h 1 min");
    }
}
