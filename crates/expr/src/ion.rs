//! Amazon Ion as text, as far as flows carry it: JSON whose names need no quotes, with a few more forms of values.
//!
//! Reading is bounded in depth; what has no place in JSON (annotations, types of null) is dropped, timestamps are texts.

use indexmap::IndexMap;

use crate::EvalError;
use crate::budget::VALUE_DEPTH_MAX;
use crate::value::Value;

/// Writes a value: names without quotes where they are words, floats with an exponent.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Float(number) => {
            let text = format!("{number:?}");
            if text.contains(['e', 'E']) { text } else { text.trim_end_matches(".0").to_owned() + "e0" }
        }
        Value::List(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Map(entries) | Value::HeaderMap(entries) => {
            let entries = entries.iter().map(|(key, item)| format!("{}:{}", symbol(key), text(item)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        other => other.to_masked_json().to_string(),
    }
}

fn symbol(name: &str) -> String {
    let word = name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
        && !matches!(name, "null" | "true" | "false" | "nan");
    if word { name.to_owned() } else { format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'")) }
}

/// Reads one value.
pub(crate) fn parse(source: &str) -> Result<Value, EvalError> {
    let mut reader = Reader { rest: source };
    let value = reader.value(0)?;
    reader.space();
    if reader.rest.is_empty() { Ok(value) } else { Err(broken()) }
}

fn broken() -> EvalError {
    EvalError::new("function", "the text is not Ion")
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Passes white space and comments.
    fn space(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let comment = if let Some(line) = self.rest.strip_prefix("//") {
                line.split_once('\n').map_or("", |(_, rest)| rest)
            } else if let Some(block) = self.rest.strip_prefix("/*") {
                block.split_once("*/").map_or("", |(_, rest)| rest)
            } else {
                return;
            };
            self.rest = comment;
        }
    }

    fn accept(&mut self, symbol: &str) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(symbol);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize) -> Result<Value, EvalError> {
        if depth > VALUE_DEPTH_MAX {
            return Err(broken());
        }
        self.space();
        match self.rest.bytes().next().ok_or_else(broken)? {
            b'{' => self.structure(depth),
            b'[' => self.list(depth),
            b'"' => self.quoted('"').map(Value::str),
            b'\'' => {
                let text = self.quoted('\'')?;
                if self.accept("::") { self.value(depth + 1) } else { Ok(Value::str(text)) }
            }
            b'-' | b'+' | b'0'..=b'9' => Ok(self.number()),
            _ => self.word(depth),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, EvalError> {
        let mut items = Vec::new();
        self.accept("[");
        while !self.accept("]") {
            items.push(self.value(depth + 1)?);
            if !self.accept(",") && !self.rest.starts_with(']') {
                return Err(broken());
            }
        }
        Ok(Value::list(items))
    }

    fn structure(&mut self, depth: usize) -> Result<Value, EvalError> {
        let mut entries = IndexMap::new();
        self.accept("{");
        while !self.accept("}") {
            let name = match self.rest.bytes().next().ok_or_else(broken)? {
                b'"' => self.quoted('"')?,
                b'\'' => self.quoted('\'')?,
                _ => self.bare().to_owned(),
            };
            if !self.accept(":") {
                return Err(broken());
            }
            entries.insert(name, self.value(depth + 1)?);
            if !self.accept(",") && !self.rest.starts_with('}') {
                return Err(broken());
            }
        }
        Ok(Value::map(entries))
    }

    fn bare(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.')));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn word(&mut self, depth: usize) -> Result<Value, EvalError> {
        let word = self.bare();
        if word.is_empty() {
            return Err(broken());
        }
        if self.accept("::") {
            return self.value(depth + 1);
        }
        Ok(match word {
            "null" => Value::Null,
            typed if typed.starts_with("null.") => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            other => Value::str(other),
        })
    }

    /// A number, or a timestamp, which begins like one.
    fn number(&mut self) -> Value {
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | ':' | '_');
        let (text, rest) = self.rest.split_at(self.rest.find(|c| !part(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        let plain = text.replace('_', "");
        if let Ok(whole) = plain.parse::<i128>() {
            return Value::Int(whole);
        }
        match plain.replace(['d', 'D'], "e").parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Float(number),
            _ => Value::str(text),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, EvalError> {
        let mut out = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            if letter == quote {
                self.rest = &self.rest[at + 1..];
                return Ok(out);
            }
            if letter != '\\' {
                out.push(letter);
                continue;
            }
            match letters.next().ok_or_else(broken)?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                code @ ('x' | 'u') => {
                    let digits: String =
                        letters.by_ref().take(if code == 'x' { 2 } else { 4 }).map(|(_, digit)| digit).collect();
                    let code = u32::from_str_radix(&digits, 16).map_err(|_| broken())?;
                    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => out.push(other),
            }
        }
        Err(broken())
    }
}
