//! What clients send: JSON under any content type, `{}` where there is nothing to say, text with or without quotes.

use crate::call::Call;
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use serde_json::{Map, Value as Json};

/// The body as JSON; nothing at all is `{}`.
pub fn any(call: &Call) -> Result<Json, Problem> {
    if call.body.trim_ascii().is_empty() {
        return Ok(Json::Object(Map::new()));
    }
    json::parse(&call.body, call.app.limits().json_depth_max)
}

pub fn object(call: &Call) -> Result<Map<String, Json>, Problem> {
    match any(call)? {
        Json::Object(fields) => Ok(fields),
        _ => Err(Problem::new(Code::BodyInvalid, "the body must be a JSON object")),
    }
}

pub fn list(call: &Call) -> Result<Vec<Json>, Problem> {
    match any(call)? {
        Json::Array(items) => Ok(items),
        _ => Err(Problem::new(Code::BodyInvalid, "the body must be a JSON list")),
    }
}

/// One thing, or a list of them.
pub fn one_or_more(call: &Call) -> Result<Vec<Json>, Problem> {
    match any(call)? {
        Json::Array(items) => Ok(items),
        one @ Json::Object(_) => Ok(vec![one]),
        _ => Err(Problem::new(Code::BodyInvalid, "the body must be a JSON object or a list of them")),
    }
}

/// A list of texts.
pub fn texts(call: &Call) -> Result<Vec<String>, Problem> {
    let text = |item: Json| match item {
        Json::String(text) => Ok(text),
        _ => Err(Problem::new(Code::BodyInvalid, "the body must be a list of texts")),
    };
    list(call)?.into_iter().map(text).collect()
}

/// A text as it is, or as JSON: some clients leave out the quotes and keep what stands for them inside.
pub fn text(call: &Call) -> Result<String, Problem> {
    let raw = json::utf8(&call.body)?;
    if let Ok(Json::String(text)) = serde_json::from_str(raw) {
        return Ok(text);
    }
    Ok(match serde_json::from_str(&format!("\"{raw}\"")) {
        Ok(Json::String(text)) => text,
        _ => raw.to_owned(),
    })
}

/// A text of an object; null is none, a number is its digits.
pub fn field(object: &Map<String, Json>, name: &str) -> Result<Option<String>, Problem> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(Json::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(Problem::field(name, "must be a text")),
    }
}

/// What would stand in a storage of the client's cannot be read from there: nothing is taken for it.
pub fn refuse_stored(object: &Map<String, Json>, name: &str, instead: &str) -> Result<(), Problem> {
    match field(object, name)?.filter(|path| !path.is_empty()) {
        None => Ok(()),
        Some(_) => Err(Problem::field(name, format!("there is no external storage for payloads: send `{instead}`"))),
    }
}

/// A whole number of an object that is not below 0; clients also send it as text, and an empty one for none.
pub fn whole(object: &Map<String, Json>, name: &str) -> Result<Option<u64>, Problem> {
    let wrong = || Problem::field(name, "must be a whole number, 0 or more");
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Number(number)) => number.as_u64().map(Some).ok_or_else(wrong),
        Some(Json::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Json::String(text)) => text.trim().parse().map(Some).map_err(|_| wrong()),
        Some(_) => Err(wrong()),
    }
}

/// A map of an object; null is none.
pub fn map(object: &Map<String, Json>, name: &str) -> Result<Option<Map<String, Json>>, Problem> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(fields)) => Ok(Some(fields.clone())),
        Some(_) => Err(Problem::field(name, "must be an object")),
    }
}

/// True or false of an object, also in Python's spelling.
pub fn flag(object: &Map<String, Json>, name: &str) -> Result<bool, Problem> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(false),
        Some(Json::Bool(flag)) => Ok(*flag),
        Some(Json::String(text)) => read_flag(text).ok_or_else(|| Problem::field(name, "must be true or false")),
        Some(_) => Err(Problem::field(name, "must be true or false")),
    }
}

fn read_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" | "" | "none" | "null" => Some(false),
        _ => None,
    }
}

/// A parameter; `None`, `null` and nothing are what clients send for what is not set.
pub fn query(call: &Call, name: &str) -> Result<Option<String>, Problem> {
    let given = call.query.one(name)?.filter(|text| !matches!(*text, "" | "None" | "null" | "undefined"));
    Ok(given.map(str::to_owned))
}

pub fn query_flag(call: &Call, name: &str, default: bool) -> Result<bool, Problem> {
    match query(call, name)? {
        None => Ok(default),
        Some(text) => read_flag(&text).ok_or_else(|| Problem::query(name, "must be true or false")),
    }
}

pub fn query_whole(call: &Call, name: &str) -> Result<Option<u64>, Problem> {
    let Some(text) = query(call, name)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Problem::query(name, "must be a whole number, 0 or more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_read_as_clients_write_them() {
        let Json::Object(given) =
            json!({"a": "x", "n": 7, "none": null, "t": "12", "e": "", "flag": "True", "bad": []})
        else {
            panic!()
        };
        assert_eq!(field(&given, "a").unwrap().as_deref(), Some("x"));
        assert_eq!(field(&given, "n").unwrap().as_deref(), Some("7"));
        assert_eq!(field(&given, "none").unwrap(), None);
        assert_eq!(whole(&given, "t").unwrap(), Some(12));
        assert_eq!(whole(&given, "e").unwrap(), None);
        assert!(flag(&given, "flag").unwrap());
        assert!(field(&given, "bad").is_err() && whole(&given, "bad").is_err() && flag(&given, "bad").is_err());
    }
}
