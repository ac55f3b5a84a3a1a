//! Fields of a JSON object, as Conductor's own reader takes them: null is absent, and a scalar may come as text.

use super::Violation;
use serde_json::{Map, Value as Json};

/// One object of the definition, and where it is.
pub struct Object<'a> {
    pub path: String,
    fields: &'a Map<String, Json>,
}

/// Notes what is wrong while reading.
#[derive(Default)]
pub struct Reader {
    pub violations: Vec<Violation>,
}

impl<'a> Object<'a> {
    pub fn get(&self, name: &str) -> Option<&'a Json> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

impl Reader {
    fn wrong(&mut self, path: &str, wanted: &str, found: &Json) {
        let message = format!("{wanted} is expected here, not {}", kind(found));
        self.violations.push(Violation::new(path, message).with(found));
    }

    pub fn object<'a>(&mut self, json: &'a Json, path: &str) -> Option<Object<'a>> {
        match json {
            Json::Object(fields) => Some(Object { path: path.to_owned(), fields }),
            other => {
                self.wrong(path, "an object", other);
                None
            }
        }
    }

    pub fn text(&mut self, object: &Object<'_>, name: &str) -> Option<String> {
        match object.get(name)? {
            Json::String(text) => Some(text.clone()),
            scalar @ (Json::Number(_) | Json::Bool(_)) => Some(scalar.to_string()),
            other => {
                self.wrong(&object.at(name), "a text", other);
                None
            }
        }
    }

    pub fn flag(&mut self, object: &Object<'_>, name: &str) -> Option<bool> {
        match object.get(name)? {
            Json::Bool(flag) => Some(*flag),
            Json::String(text) if text == "true" || text == "false" => Some(text == "true"),
            other => {
                self.wrong(&object.at(name), "true or false", other);
                None
            }
        }
    }

    /// A whole number that is not negative.
    pub fn number(&mut self, object: &Object<'_>, name: &str) -> Option<u64> {
        let found = object.get(name)?;
        let number = match found {
            Json::String(text) => text.trim().parse().ok(),
            // Some clients write whole numbers with a point.
            Json::Number(number) => number.as_u64().or_else(|| {
                number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..1e15).contains(float)).map(|f| f as u64)
            }),
            _ => None,
        };
        if number.is_none() {
            self.wrong(&object.at(name), "a whole number, 0 or more,", found);
        }
        number
    }

    /// A map of anything, as it stands.
    pub fn map(&mut self, object: &Object<'_>, name: &str) -> Map<String, Json> {
        match object.get(name) {
            None => Map::new(),
            Some(Json::Object(fields)) => fields.clone(),
            Some(other) => {
                self.wrong(&object.at(name), "an object", other);
                Map::new()
            }
        }
    }

    pub fn texts(&mut self, object: &Object<'_>, name: &str) -> Vec<String> {
        let path = object.at(name);
        let items = self.items(object.get(name), &path);
        let mut texts = Vec::with_capacity(items.len());
        for (place, item) in items {
            match item {
                Json::String(text) => texts.push(text.clone()),
                other => self.wrong(&place, "a text", other),
            }
        }
        texts
    }

    /// The items of a list, each with its path.
    pub fn items<'a>(&mut self, json: Option<&'a Json>, path: &str) -> Vec<(String, &'a Json)> {
        match json {
            None => Vec::new(),
            Some(Json::Array(items)) => {
                items.iter().enumerate().map(|(place, item)| (format!("{path}[{place}]"), item)).collect()
            }
            Some(other) => {
                self.wrong(path, "a list", other);
                Vec::new()
            }
        }
    }
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "this number",
        Json::String(_) => "this text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}
