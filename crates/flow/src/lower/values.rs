//! Readers of single values. `name` is the field, for messages.

use super::Context;
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::{Node, Typed};
use semel_core::duration;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

impl<'a> Context<'a> {
    pub fn wrong_type(&mut self, node: &Node, name: &str, expected: &str) {
        let message = format!("`{name}` must be {expected}, not {}", node.shape());
        self.report(Finding::error(codes::WRONG_TYPE, node.at.clone(), message).expected(expected));
    }

    /// Text as written; numbers and booleans keep their spelling.
    pub fn text(&mut self, node: &'a Node, name: &str) -> Option<&'a str> {
        match node.scalar() {
            Some(scalar) if scalar.typed != Typed::Null => Some(&scalar.text),
            _ => {
                self.wrong_type(node, name, "text");
                None
            }
        }
    }

    /// Text that may hold expressions.
    pub fn template(&mut self, node: &'a Node, name: &str) -> Option<String> {
        let text = self.text(node, name)?;
        self.expressions(node);
        Some(text.to_owned())
    }

    /// Any tree of values whose texts may hold expressions.
    pub fn tree(&mut self, node: &'a Node) -> Json {
        self.expressions(node);
        node.to_json()
    }

    /// Text without expressions.
    pub fn literal(&mut self, node: &'a Node, name: &str) -> Option<&'a str> {
        let text = self.text(node, name)?;
        if node.scalar().is_some_and(|scalar| scalar.is_template()) {
            let message = format!("`{name}` is fixed when the flow is pushed, so it cannot be an expression");
            self.error(codes::BAD_VALUE, &node.at, message);
            return None;
        }
        Some(text)
    }

    pub fn bool(&mut self, node: &'a Node, name: &str) -> Option<bool> {
        match node.scalar().map(|scalar| (scalar.typed, scalar.text.as_str())) {
            Some((Typed::Bool(value), _)) => Some(value),
            Some((_, "true")) => Some(true),
            Some((_, "false")) => Some(false),
            Some((_, text)) => {
                let meant = match text.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "y" => Some("write `true`"),
                    "no" | "off" | "n" => Some("write `false`"),
                    _ => None,
                };
                let message = format!("`{name}` must be true or false, not `{}`", short(text));
                let finding = Finding::error(codes::WRONG_TYPE, node.at.clone(), message);
                self.report(finding.expected("true or false").maybe_suggest(meant.map(str::to_owned)));
                None
            }
            None => {
                self.wrong_type(node, name, "true or false");
                None
            }
        }
    }

    /// A whole number between two bounds, both allowed.
    pub fn int(&mut self, node: &'a Node, name: &str, min: i64, max: i64) -> Option<i64> {
        let value = node.scalar().and_then(|scalar| match scalar.typed {
            Typed::Int(value) => Some(value),
            Typed::Text => scalar.text.parse().ok(),
            _ => None,
        });
        let Some(value) = value else {
            self.wrong_type(node, name, "a whole number");
            return None;
        };
        if value < min || value > max {
            let message = match (value < min, max) {
                (true, _) => format!("`{name}` is {value}; it must be at least {min}"),
                (false, _) => format!("`{name}` is {value}; at most {max} is allowed"),
            };
            self.error(codes::LIMIT, &node.at, message);
            return None;
        }
        Some(value)
    }

    pub fn count(&mut self, node: &'a Node, name: &str, min: u32, max: u32) -> Option<u32> {
        self.int(node, name, min.into(), max.into()).and_then(|value| u32::try_from(value).ok())
    }

    /// A literal ISO 8601 duration in milliseconds.
    pub fn duration(&mut self, node: &'a Node, name: &str) -> Option<i64> {
        let text = self.literal(node, name)?;
        match duration::parse_ms(text) {
            Ok(ms) if ms > self.limits.wait_ms_max => {
                let most = duration::print_ms(self.limits.wait_ms_max);
                self.error(codes::LIMIT, &node.at, format!("`{name}` is {text}; at most {most} is allowed"));
                None
            }
            Ok(ms) => Some(ms),
            Err(error) => {
                let finding = Finding::error(codes::BAD_DURATION, node.at.clone(), error.to_string());
                self.report(finding.maybe_suggest(duration_meant(text)));
                None
            }
        }
    }

    /// A duration above zero.
    pub fn positive_duration(&mut self, node: &'a Node, name: &str) -> Option<i64> {
        let ms = self.duration(node, name)?;
        if ms == 0 {
            self.error(codes::BAD_DURATION, &node.at, format!("`{name}` must be longer than zero"));
            return None;
        }
        Some(ms)
    }

    /// One of these words, whatever its case; the answer is the word as listed.
    pub fn word(&mut self, node: &'a Node, name: &str, words: &[&'static str]) -> Option<&'static str> {
        let text = self.literal(node, name)?;
        let found = words.iter().find(|word| word.eq_ignore_ascii_case(text)).copied();
        if found.is_none() {
            let message = format!("`{}` is not a value of `{name}`", short(text));
            let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), message)
                .expected(format!("one of: {}", words.join(", ")))
                .maybe_suggest(suggest::did_you_mean(text, words.iter().copied()));
            self.report(finding);
        }
        found
    }

    /// One of these words, as the enum that serializes to it.
    pub fn choice<T: DeserializeOwned>(&mut self, node: &'a Node, name: &str, words: &[&'static str]) -> Option<T> {
        let word = self.word(node, name, words)?;
        serde_json::from_value(Json::String(word.to_owned())).ok()
    }

    pub fn list(&mut self, node: &'a Node, name: &str) -> Option<&'a [Node]> {
        let items = node.items();
        if items.is_none() {
            self.wrong_type(node, name, "a list");
        }
        items
    }
}

/// A long value is cut in messages: the place shows the rest.
pub(crate) fn short(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_owned() } else { text.chars().take(57).chain("...".chars()).collect() }
}

/// `30s` and the like are what people write first.
fn duration_meant(text: &str) -> Option<String> {
    let digits = text.trim().len() - text.trim().trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.trim().split_at(digits);
    if number.is_empty() {
        return None;
    }
    let meant = match unit.trim().to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => format!("PT{number}S"),
        "m" | "min" | "mins" | "minute" | "minutes" => format!("PT{number}M"),
        "h" | "hour" | "hours" => format!("PT{number}H"),
        "d" | "day" | "days" => format!("P{number}D"),
        "" => format!("PT{number}S"),
        _ => return None,
    };
    Some(format!("did you mean `{meant}`?"))
}
