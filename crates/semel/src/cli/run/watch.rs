//! `semel run watch`

use super::object;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell, print_line};
use crate::table::field;
use clap::Args;
use reqwest::Method;
use serde_json::{Value as Json, json};

/// Follow a run until it ends or is held; fails unless it completes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel run watch 0198c0de-0000-7000-8000-000000000001
  semel run watch 0198c0de-0000-7000-8000-000000000001 --json    one envelope per change and line")]
pub struct Watch {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
}

impl Watch {
    pub async fn run(self, client: &Client, shell: &Shell) -> Result<Reply, Failure> {
        let request = client.request(Method::GET, &["v1", "runs", &self.run, "follow"]);
        let mut response = client.open(request.header("accept", "text/event-stream")).await?;
        let mut events = Events::default();
        let mut last = Json::Null;
        'stream: loop {
            let chunk = response.chunk().await.map_err(|_| client.unreachable("the stream broke off"))?;
            let Some(chunk) = chunk else { break };
            for event in events.feed(&chunk) {
                if event.name == "run" {
                    let before = std::mem::replace(&mut last, event.data);
                    // People read states; a script may want every event.
                    if shell.json || field(&before, "status") != field(&last, "status") {
                        tell(shell, &last)?;
                    }
                }
                // The server follows a held run too, but nothing happens to it until somebody decides.
                if event.name == "end" || object::is_settled(&field(&last, "status")) {
                    break 'stream;
                }
            }
        }
        settled(client, shell, last, &self.run).await
    }
}

/// The stream may break off, so the last word comes from the server.
async fn settled(client: &Client, shell: &Shell, last: Json, id: &str) -> Result<Reply, Failure> {
    let settled = object::is_settled(&field(&last, "status"));
    let run = if settled { last } else { client.get(&["v1", "runs", id], &[]).await? };
    let text = object::card(shell, &run);
    match object::failure(&run) {
        Some(failure) => Err(failure.text(text)),
        None if object::is_settled(&field(&run, "status")) => Ok(Reply::new(run, text)),
        None => Err(client.unreachable("the stream ended before the run did").details(run)),
    }
}

fn tell(shell: &Shell, run: &Json) -> Result<(), Failure> {
    let line = if shell.json {
        json!({ "ok": true, "data": run, "meta": { "event": "run" } }).to_string()
    } else {
        format!("{}  {}", jiff::Timestamp::now().strftime("%H:%M:%S"), object::status(shell.out, &field(run, "status")))
    };
    print_line(&line).map_err(|error| Failure::refused("output_closed", error.to_string()))
}

/// One server-sent event.
struct Event {
    name: String,
    data: Json,
}

/// Cuts a stream of bytes into events: blocks of `name: value` lines that end with an empty line.
#[derive(Default)]
struct Events {
    pending: Vec<u8>,
}

impl Events {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.pending.extend(bytes.iter().filter(|byte| **byte != b'\r'));
        let mut events = Vec::new();
        while let Some(end) = self.pending.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.pending.drain(..end + 2).collect();
            events.extend(parse(&String::from_utf8_lossy(&block)));
        }
        events
    }
}

fn parse(block: &str) -> Option<Event> {
    let value = |line: &'_ str, name: &str| {
        line.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(':'))
            .map(|text| text.strip_prefix(' ').unwrap_or(text).to_owned())
    };
    let name = block.lines().filter_map(|line| value(line, "event")).next_back();
    let data = block.lines().filter_map(|line| value(line, "data")).collect::<Vec<_>>();
    if name.is_none() && data.is_empty() {
        // A comment, sent to keep the connection open.
        return None;
    }
    let data = serde_json::from_str(&data.join("\n")).unwrap_or(Json::Null);
    Some(Event { name: name.unwrap_or_else(|| "message".to_owned()), data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_wherever_the_chunks_are_cut() {
        let stream = b": hello\n\nevent: run\r\ndata: {\"status\":\r\ndata: \"running\"}\r\n\r\nevent:end\ndata:\n\n";
        for size in 1..stream.len() {
            let mut events = Events::default();
            let found: Vec<Event> = stream.chunks(size).flat_map(|chunk| events.feed(chunk)).collect();
            let names: Vec<&str> = found.iter().map(|event| event.name.as_str()).collect();
            assert_eq!(names, ["run", "end"], "chunks of {size}");
            assert_eq!(found[0].data, json!({"status": "running"}));
        }
    }
}
