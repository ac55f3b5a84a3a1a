//! Keys that are computed from what has arrived: an event of a webhook, an instant of a schedule.

use semel_expr::conductor::{render_name, render_text};
use semel_expr::{Budget, Part, Scope, SecretRef, Value};
use serde_json::{Map, Value as Json};

/// What an expression sees that belongs to no run yet.
struct Arrived<'a>(&'a Map<String, Json>);

impl Scope for Arrived<'_> {
    fn root(&self, name: &str) -> Option<Value> {
        self.0.get(name).map(Value::from_json)
    }

    fn secret(&self, _: &str, _: Option<&str>) -> Result<SecretRef, String> {
        Err("a key is recorded as it is, so it cannot hold a secret".to_owned())
    }

    fn reveal(&self, _: &Part) -> Result<String, String> {
        Err("a key cannot hold a secret".to_owned())
    }

    fn seal(&self, _: &str) -> Result<String, String> {
        Err("a key cannot hold a secret".to_owned())
    }

    fn kv(&self, _: &str, _: Option<&str>, _: bool) -> Result<Value, String> {
        Err("a key is made of what has arrived".to_owned())
    }

    fn now_millis(&self) -> i64 {
        0
    }

    fn random_u64(&self) -> u64 {
        0
    }
}

/// The text of a template over what has arrived. One that does not resolve is no key, and the reason says so.
pub fn arrived_name(template: &str, roots: &Map<String, Json>) -> Result<String, String> {
    let text = render_name(template, &Arrived(roots), &mut Budget::default()).map_err(|error| error.message)?;
    match text.trim().is_empty() {
        true => Err("it gives an empty text".to_owned()),
        false => Ok(text),
    }
}

/// What a JSON path such as `$['event']['type']` finds in what has arrived.
pub fn arrived_value(path: &str, arrived: &Json) -> Option<Json> {
    let roots = Map::from_iter([("arrived".to_owned(), arrived.clone())]);
    let rest = path.trim().strip_prefix('$')?;
    let scope = Arrived(&roots);
    let found = render_text(&format!("${{arrived{rest}}}"), &scope, &mut Budget::default()).ok()?;
    found.to_plain_json().filter(|found| !found.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_there_makes_no_key() {
        let Json::Object(roots) = json!({"workflow": {"input": {"id": "e1", "n": 7, "none": null, "blank": ""}}})
        else {
            panic!()
        };
        let key = |template: &str| arrived_name(template, &roots);
        assert_eq!(key("${workflow.input.id}").as_deref(), Ok("e1"));
        assert_eq!(key("order-${workflow.input.n}-x").as_deref(), Ok("order-7-x"));
        assert_eq!(key("plain").as_deref(), Ok("plain"));
        assert_eq!(key("$${x}").as_deref(), Ok("${x}"));
        for nothing in [
            "${workflow.input.gone}",
            "order-${workflow.input.gone}",
            "${workflow.input.none}",
            "${}",
            "",
            "a${workflow.input.blank}",
        ] {
            assert!(key(nothing).is_err(), "{nothing}");
        }
        assert!(key("${workflow.secrets.X}").is_err());
    }

    #[test]
    fn paths_find_what_is_there() {
        let arrived = json!({"a": {"b": [1, "x"]}, "n": null});
        assert_eq!(arrived_value("$['a']['b'][1]", &arrived), Some(json!("x")));
        assert_eq!(arrived_value("$.a.b[0]", &arrived), Some(json!(1)));
        for nothing in ["$.n", "$.gone", "a.b", ""] {
            assert_eq!(arrived_value(nothing, &arrived), None, "{nothing}");
        }
    }
}
