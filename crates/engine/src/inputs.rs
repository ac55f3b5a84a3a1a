//! Declared inputs: checked and converted before anything is stored.

use crate::api::FieldError;
use crate::masking::{Mask, Masker};
use semel_core::ir::{InputDef, InputType};
use semel_core::limits::Limits;
use semel_core::time::Millis;
use semel_core::{duration, files};
use semel_expr::{Scope, Value};
use serde_json::Value as Json;

mod resolve;

pub use resolve::{Resolved, check, resolve};

/// The inputs of a Conductor workflow in stored form: whatever its caller gives, over what its author gives. It may be
/// any map.
pub fn untyped(given: &Json, template: &Json) -> Result<Json, Vec<FieldError>> {
    let mut all = match given {
        Json::Object(given) => given.clone(),
        Json::Null => serde_json::Map::new(),
        _ => {
            let message = "the input of a workflow must be an object".to_owned();
            return Err(vec![FieldError { field: "input".to_owned(), message }]);
        }
    };
    for (name, value) in template.as_object().into_iter().flatten() {
        all.entry(name.clone()).or_insert_with(|| value.clone());
    }
    Ok(Value::from_json(&Json::Object(all)).to_stored())
}

/// The trigger with holes where it carries the text of a `SECRET` input: whole texts of any length,
/// and longer ones inside others.
pub fn hide_secrets(trigger: &Json, defs: &[InputDef], given: &Json, stored: &Json) -> Value {
    let hole = |def: &InputDef| match Value::from_stored(find(stored, &def.id)?) {
        Value::Tainted(tainted) => tainted.parts.first().cloned(),
        _ => None,
    };
    let masks: Vec<Mask> = defs
        .iter()
        .filter(|def| def.input_type == InputType::Secret)
        .filter_map(|def| Some((hole(def)?, find(given, &def.id)?.as_str()?.to_owned())))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    let value = Value::from_json(trigger);
    if masks.is_empty() { value } else { Masker::of_texts(&masks).hide(&hide_whole(&value, &masks)) }
}

fn hide_whole(value: &Value, masks: &[Mask]) -> Value {
    match value {
        Value::Str(text) => match masks.iter().find(|(_, plain)| **plain == **text) {
            Some((hole, _)) => Value::Tainted(semel_expr::Tainted { parts: vec![hole.clone()] }.into()),
            None => value.clone(),
        },
        Value::List(items) => Value::list(items.iter().map(|item| hide_whole(item, masks)).collect()),
        Value::Map(map) => Value::map(map.iter().map(|(name, item)| (name.clone(), hide_whole(item, masks))).collect()),
        other => other.clone(),
    }
}

/// Refuses values for inputs that the flow does not declare. A flow that declares none reads
/// `trigger.data`, whatever is in it.
pub fn check_names(defs: &[InputDef], given: &Json) -> Result<(), Vec<FieldError>> {
    let known = |name: &str| defs.iter().any(|def| def.id == name || def.id.split('.').next() == Some(name));
    let names: Vec<&str> = defs.iter().map(|def| def.id.as_str()).collect();
    let message = format!("the flow has no such input; it has {}", names.join(", "));
    let unknown = given.as_object().into_iter().flatten().filter(|(name, _)| !defs.is_empty() && !known(name));
    let errors: Vec<FieldError> =
        unknown.map(|(name, _)| FieldError { field: name.clone(), message: message.clone() }).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn find<'a>(given: &'a Json, id: &str) -> Option<&'a Json> {
    given.get(id).or_else(|| id.split('.').try_fold(given, |at, part| at.get(part)))
}

/// What the author of a flow wrote for inputs, or what came of a template of the author's: where an input is text, Kestra
/// makes text of it. A caller who sends a number for a text is told so instead.
pub fn written_by_author(defs: &[InputDef], given: &mut Json) {
    for def in defs {
        let place = match given.get(&def.id) {
            Some(_) => given.get_mut(&def.id),
            None => def.id.split('.').try_fold(&mut *given, |at, part| at.get_mut(part)),
        };
        if let Some(place) = place {
            *place = as_written(def, place.take());
        }
    }
}

fn as_written(def: &InputDef, value: Json) -> Json {
    let text = |value: Json| match value {
        Json::Number(_) | Json::Bool(_) => Json::String(value.to_string()),
        Json::Array(_) | Json::Object(_) if def.input_type == InputType::String => Json::String(value.to_string()),
        other => other,
    };
    match def.input_type {
        InputType::Multiselect => match value {
            Json::Array(items) => items.into_iter().map(text).collect(),
            other => other,
        },
        InputType::Int
        | InputType::Float
        | InputType::Bool
        | InputType::Json
        | InputType::Yaml
        | InputType::Array
        | InputType::File => value,
        InputType::String
        | InputType::Secret
        | InputType::Uri
        | InputType::Email
        | InputType::Select
        | InputType::Date
        | InputType::Time
        | InputType::Datetime
        | InputType::Duration => text(value),
    }
}

fn type_word(input_type: InputType) -> String {
    serde_json::json!(input_type).as_str().unwrap_or_default().to_owned()
}

/// Converts one value and checks its bounds; the result is in stored form.
fn convert(def: &InputDef, value: &Json, scope: &dyn Scope) -> Result<Json, String> {
    if def.input_type == InputType::Secret {
        let text = value.as_str().ok_or("expected a text")?;
        check_bounds(def, value)?;
        let sealed = scope.seal(text)?;
        let tainted = semel_expr::Tainted { parts: vec![semel_expr::Part::Sealed(sealed)] };
        return Ok(Value::Tainted(tainted.into()).to_stored());
    }
    let plain = match value.as_str().filter(|text| def.input_type == InputType::File && text.starts_with("nsfile://")) {
        // Kept with the namespace that it means.
        Some(text) => match scope.host("fileURI", &[Value::str(text)], &[]) {
            Some(Ok(address)) => typed(def.input_type, def, &Json::String(address.to_text()))?,
            Some(Err(message)) => return Err(message),
            None => return Err("files of a namespace are not known here".to_owned()),
        },
        None => typed(def.input_type, def, value)?,
    };
    check_bounds(def, &plain)?;
    if def.input_type == InputType::File
        && let Some(Ok(Value::Bool(false))) = scope.host("fileExists", &[Value::from_json(&plain)], &[])
    {
        return Err("there is no such file".to_owned());
    }
    // Escapes anything in the caller's data that looks like one of our holes.
    Ok(Value::from_json(&plain).to_stored())
}

fn typed(input_type: InputType, def: &InputDef, value: &Json) -> Result<Json, String> {
    let wrong = || format!("expected {}, got {}", type_word(input_type), kind(value));
    match input_type {
        InputType::String | InputType::Secret => value.as_str().map(|_| value.clone()).ok_or_else(wrong),
        InputType::Uri => match value.as_str().map(is_uri) {
            Some(true) => Ok(value.clone()),
            Some(false) => Err("expected a URI such as https://example.com/a".to_owned()),
            None => Err(wrong()),
        },
        InputType::Yaml => match value {
            Json::String(text) => semel_flow::yaml_value(text, &Limits::default()),
            other => Ok(other.clone()),
        },
        InputType::Int => integer(value).map(Json::from).ok_or_else(wrong),
        InputType::Float => number(value).and_then(serde_json::Number::from_f64).map(Json::Number).ok_or_else(wrong),
        InputType::Bool => match value {
            Json::Bool(_) => Ok(value.clone()),
            Json::String(s) if s.eq_ignore_ascii_case("true") => Ok(Json::Bool(true)),
            Json::String(s) if s.eq_ignore_ascii_case("false") => Ok(Json::Bool(false)),
            _ => Err(wrong()),
        },
        InputType::File => file(def, value),
        InputType::Email => match value.as_str() {
            Some(s) if is_email(s) => Ok(value.clone()),
            _ => Err("expected an e-mail address".to_owned()),
        },
        InputType::Select => {
            let word = value.as_str().ok_or_else(wrong)?;
            choice(def, word).map(|()| value.clone())
        }
        InputType::Multiselect => {
            let list = list_of(value).ok_or_else(wrong)?;
            for item in &list {
                choice(def, item.as_str().ok_or_else(wrong)?)?;
            }
            Ok(Json::Array(list))
        }
        InputType::Array => {
            let list = list_of(value).ok_or_else(wrong)?;
            let Some(item_type) = def.item_type else { return Ok(Json::Array(list)) };
            let items: Result<Vec<Json>, String> = list
                .iter()
                .enumerate()
                .map(|(i, item)| typed(item_type, def, item).map_err(|e| format!("item {i}: {e}")))
                .collect();
            items.map(Json::Array)
        }
        InputType::Json => match value {
            // What begins like a map or a list was meant as one; other text is a text.
            Json::String(text) => match serde_json::from_str(text) {
                Ok(read) => Ok(read),
                Err(error) if text.trim_start().starts_with(['{', '[']) => Err(format!("this is not JSON: {error}")),
                Err(_) => Ok(value.clone()),
            },
            other => Ok(other.clone()),
        },
        InputType::Datetime => {
            let text = value.as_str().ok_or_else(wrong)?;
            Millis::parse_rfc3339(text)
                .map(|_| value.clone())
                .ok_or_else(|| "expected a date-time such as 2026-01-31T12:00:00Z".to_owned())
        }
        InputType::Date => parsed::<jiff::civil::Date>(value, "expected a date such as 2026-01-31"),
        InputType::Time => parsed::<jiff::civil::Time>(value, "expected a time such as 12:30:00"),
        InputType::Duration => {
            let text = value.as_str().ok_or_else(wrong)?;
            duration::parse_ms(text).map(|_| value.clone()).map_err(|e| e.to_string())
        }
    }
}

fn is_uri(text: &str) -> bool {
    let letters = |scheme: &str| scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    text.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && letters(scheme)
            && !rest.is_empty()
            && !rest.contains(char::is_whitespace)
    })
}

/// The address of a file that is stored already: a door takes uploads in before the inputs are checked.
fn file(def: &InputDef, value: &Json) -> Result<Json, String> {
    let uri = value.as_str().filter(|uri| files::parse(uri).is_some());
    let uri = uri.ok_or("expected a file: upload it, or give the address of one that is stored (kestra:///…)")?;
    let endings = &def.allowed_file_extensions;
    let ending = files::extension(uri).unwrap_or_default();
    let fits = |allowed: &String| allowed.trim_start_matches('.').eq_ignore_ascii_case(ending.trim_start_matches('.'));
    if !endings.is_empty() && !endings.iter().any(fits) {
        return Err(format!("its name must end with one of {}", endings.join(", ")));
    }
    Ok(value.clone())
}

/// A value of the flow's outputs as the type that it is declared with; texts are read, other values become texts.
pub fn output(output_type: InputType, value: &Json) -> Result<Json, String> {
    let wrong = || format!("expected {}, got {}", type_word(output_type), kind(value));
    match (output_type, value) {
        (_, Json::Null) => Ok(Json::Null),
        (InputType::Int, _) => integer(value).map(Json::from).ok_or_else(wrong),
        (InputType::Float, _) => {
            number(value).and_then(serde_json::Number::from_f64).map(Json::Number).ok_or_else(wrong)
        }
        (InputType::Bool, Json::Bool(_)) => Ok(value.clone()),
        (InputType::Bool, Json::String(text)) => {
            text.trim().to_ascii_lowercase().parse().map(Json::Bool).map_err(|_| wrong())
        }
        (InputType::Bool, _) => Err(wrong()),
        (InputType::Json, Json::String(text)) => serde_json::from_str(text).map_err(|_| wrong()),
        (InputType::Yaml, Json::String(text)) => semel_flow::yaml_value(text, &Limits::default()),
        (InputType::Json | InputType::Yaml, _) => Ok(value.clone()),
        (InputType::Array | InputType::Multiselect, _) => list_of(value).map(Json::Array).ok_or_else(wrong),
        _ => Ok(Json::String(plain(value))),
    }
}

fn parsed<T: std::str::FromStr>(value: &Json, message: &str) -> Result<Json, String> {
    let text = value.as_str().ok_or_else(|| message.to_owned())?;
    text.parse::<T>().map(|_| value.clone()).map_err(|_| message.to_owned())
}

fn integer(value: &Json) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn number(value: &Json) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|f: &f64| f.is_finite())
}

fn list_of(value: &Json) -> Option<Vec<Json>> {
    match value {
        Json::Array(items) => Some(items.clone()),
        Json::String(text) => serde_json::from_str::<Vec<Json>>(text).ok(),
        _ => None,
    }
}

fn is_email(text: &str) -> bool {
    matches!(text.split_once('@'), Some((local, domain)) if !local.is_empty() && domain.contains('.') && !text.contains(char::is_whitespace))
}

fn choice(def: &InputDef, word: &str) -> Result<(), String> {
    match &def.values {
        Some(values) if !def.allow_custom_value && !values.iter().any(|v| v == word) => {
            Err(format!("`{word}` is not one of {}", values.join(", ")))
        }
        _ => Ok(()),
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn check_bounds(def: &InputDef, value: &Json) -> Result<(), String> {
    if let (Some(pattern), Some(text)) = (&def.validator, value.as_str()) {
        let regex = regex::Regex::new(&format!("^(?:{pattern})$")).map_err(|e| e.to_string())?;
        if !regex.is_match(text) {
            return Err(format!("it does not match the pattern {pattern}"));
        }
    }
    let measure = |json: &Json| -> Option<f64> {
        match def.input_type {
            InputType::Duration => json.as_str().and_then(|t| duration::parse_ms(t).ok()).map(|ms| ms as f64),
            InputType::Int | InputType::Float => number(json),
            _ => None,
        }
    };
    if let Some(found) = measure(value) {
        if let Some(min) = &def.min
            && measure(min).is_some_and(|min| found < min)
        {
            return Err(format!("it must be at least {}", plain(min)));
        }
        if let Some(max) = &def.max
            && measure(max).is_some_and(|max| found > max)
        {
            return Err(format!("it must be at most {}", plain(max)));
        }
    }
    if let Some(text) = value.as_str() {
        let order = |other: &str| -> Option<std::cmp::Ordering> {
            match def.input_type {
                InputType::Date => Some(text.parse::<jiff::civil::Date>().ok()?.cmp(&other.parse().ok()?)),
                InputType::Time => Some(text.parse::<jiff::civil::Time>().ok()?.cmp(&other.parse().ok()?)),
                InputType::Datetime => Some(Millis::parse_rfc3339(text)?.cmp(&Millis::parse_rfc3339(other)?)),
                _ => None,
            }
        };
        if let Some(after) = &def.after
            && order(after).is_some_and(|o| o.is_lt())
        {
            return Err(format!("it must not be before {after}"));
        }
        if let Some(before) = &def.before
            && order(before).is_some_and(|o| o.is_gt())
        {
            return Err(format!("it must not be after {before}"));
        }
    }
    Ok(())
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
