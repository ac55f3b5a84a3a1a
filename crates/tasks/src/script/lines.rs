//! What a line of output means: `::{"outputs":{…}}::` gives outputs, anything else is a line of the log.

use crate::inline::Level;
use serde_json::{Map, Value as Json};

#[derive(Debug, PartialEq)]
pub enum Line {
    Said(Level, String),
    Given { outputs: Map<String, Json>, said: Vec<(Level, String)> },
}

pub fn read(text: &str, is_error: bool) -> Line {
    let level = if is_error { Level::Error } else { Level::Info };
    let inner = text.strip_prefix("::{").and_then(|rest| rest.strip_suffix("}::"));
    let parsed = inner.and_then(|inner| serde_json::from_str::<Json>(&format!("{{{inner}}}")).ok());
    let Some(Json::Object(command)) = parsed else { return Line::Said(level, text.to_owned()) };
    let outputs = match command.get("outputs") {
        Some(Json::Object(outputs)) => outputs.clone(),
        _ => Map::new(),
    };
    let said = match command.get("logs") {
        Some(Json::Array(logs)) => logs.iter().filter_map(|log| said(log, level)).collect(),
        _ => Vec::new(),
    };
    Line::Given { outputs, said }
}

fn said(log: &Json, level: Level) -> Option<(Level, String)> {
    let given = log.get("level").and_then(|level| level.as_str()?.parse().ok());
    Some((given.unwrap_or(level), log.get("message")?.as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn outputs_are_taken_from_marked_lines() {
        let Line::Given { outputs, said } = read(r#"::{"outputs":{"a":1,"b":{"c":[2]}}}::"#, false) else {
            panic!("not an output");
        };
        assert_eq!((Json::Object(outputs), said.len()), (json!({"a": 1, "b": {"c": [2]}}), 0));
    }

    #[test]
    fn logs_have_their_level() {
        let text = r#"::{"logs":[{"level":"WARN","message":"careful"},{"message":"plain"}]}::"#;
        let Line::Given { said, .. } = read(text, false) else { panic!("not a log") };
        assert_eq!(said, [(Level::Warn, "careful".to_owned()), (Level::Info, "plain".to_owned())]);
    }

    #[test]
    fn what_is_not_marked_is_said() {
        for text in ["hello", "::{not json}::", "::{}", "x ::{\"outputs\":{}}::", ""] {
            assert_eq!(read(text, true), Line::Said(Level::Error, text.to_owned()));
        }
    }
}
