//! JSON Schema: whether a value has the shape that an author asks for.
//!
//! The words that drafts 6 to 2020-12 share, and the older spellings of some. What a schema says that is not among them
//! falls into two kinds: words that no draft knows are remarks, as the drafts have it; words that a draft knows and that
//! are not carried out here are refused by [`check`], so that nobody relies on a test that is not made.
//!
//! | of | words |
//! |---|---|
//! | any value | `type`, `enum`, `const`, `allOf`, `anyOf`, `oneOf`, `not`, `if` `then` `else`, `$ref` within the schema |
//! | numbers | `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf` |
//! | texts | `minLength`, `maxLength`, `pattern` |
//! | lists | `items`, `prefixItems`, `additionalItems`, `contains`, `minContains`, `maxContains`, `minItems`, `maxItems`, `uniqueItems` |
//! | objects | `properties`, `required`, `additionalProperties`, `patternProperties`, `propertyNames`, `minProperties`, `maxProperties`, `dependentRequired`, `dependentSchemas`, `dependencies` |
//!
//! `format` and what begins with `content` are remarks, which is their meaning where nobody says otherwise. A schema that
//! refers to itself without end, or that asks for more than [`STEPS_MAX`] looks at a value, fits nothing, and says why.

use regex::Regex;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};

/// Looks at parts of a value by parts of a schema.
const STEPS_MAX: u32 = 200_000;
/// Schemas inside each other.
const DEPTH_MAX: u32 = 128;
/// Things that are told of one value.
const TOLD_MAX: usize = 10;

/// Words that a draft knows and that are not carried out.
const NOT_BUILT: &[&str] = &[
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$anchor",
    "unevaluatedItems",
    "unevaluatedProperties",
];

const TYPES: &[&str] = &["null", "boolean", "object", "array", "number", "integer", "string"];

/// What does not fit, or what is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where, as a JSON pointer: in the value, or in the schema.
    pub path: String,
    pub message: String,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Everything in which the value does not fit; empty when it does. No more than ten things are told.
pub fn misfits(schema: &Json, value: &Json) -> Vec<Misfit> {
    let mut look = Look { root: schema, steps: 0, patterns: BTreeMap::new(), found: Vec::new() };
    look.at(schema, value, "", 0);
    look.found
}

/// All of it in one line.
pub fn in_words(misfits: &[Misfit]) -> String {
    misfits.iter().map(Misfit::to_string).collect::<Vec<_>>().join("; ")
}

/// What is wrong with a schema itself.
pub fn check(schema: &Json) -> Result<(), Misfit> {
    check_at(schema, schema, "", 0)
}

fn wrong<T>(path: &str, message: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit { path: path.to_owned(), message: message.into() })
}

/// One more name in a pointer.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The part of the schema that `#/…` names.
fn referred<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
    root.pointer(reference.strip_prefix('#')?)
}

fn check_at(root: &Json, schema: &Json, path: &str, depth: u32) -> Result<(), Misfit> {
    let fields = match schema {
        Json::Bool(_) => return Ok(()),
        Json::Object(fields) => fields,
        _ => return wrong(path, "a schema is an object, true or false"),
    };
    if depth > DEPTH_MAX {
        return wrong(path, format!("at most {DEPTH_MAX} schemas may be inside each other"));
    }
    for (word, value) in fields {
        let at = below(path, word);
        let inner = |value: &Json, at: &str| check_at(root, value, at, depth + 1);
        match word.as_str() {
            word if NOT_BUILT.contains(&word) => return wrong(&at, format!("`{word}` is not built")),
            "$ref" => match value.as_str() {
                Some(reference) if referred(root, reference).is_some() => {}
                Some(reference) if reference.starts_with('#') => {
                    return wrong(&at, format!("there is nothing at `{reference}`"));
                }
                _ => return wrong(&at, "only references within the schema are built: `#`, or `#/…`"),
            },
            "type" => check_types(value, &at)?,
            "enum" if !value.is_array() => return wrong(&at, "`enum` is a list"),
            "properties" | "patternProperties" | "dependentSchemas" | "definitions" | "$defs" => {
                let Json::Object(all) = value else { return wrong(&at, "an object of schemas is expected") };
                for (name, value) in all.iter().filter(|(name, value)| !is_slip(name, value)) {
                    if word == "patternProperties" {
                        check_pattern(name, &below(&at, name))?;
                    }
                    inner(value, &below(&at, name))?;
                }
            }
            "dependencies" => {
                let Json::Object(all) = value else { return wrong(&at, "an object is expected") };
                for (name, value) in all.iter().filter(|(_, value)| !value.is_array()) {
                    inner(value, &below(&at, name))?;
                }
            }
            "additionalProperties"
            | "propertyNames"
            | "additionalItems"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else" => inner(value, &at)?,
            "items" if !value.is_array() => inner(value, &at)?,
            "items" | "prefixItems" | "allOf" | "anyOf" | "oneOf" => {
                let Json::Array(all) = value else { return wrong(&at, "a list of schemas is expected") };
                for (place, value) in all.iter().enumerate() {
                    inner(value, &format!("{at}/{place}"))?;
                }
            }
            "required" => {
                let is_list = value.as_array().is_some_and(|names| names.iter().all(Json::is_string));
                if !is_list {
                    return wrong(&at, "`required` is a list of names");
                }
            }
            "pattern" => match value.as_str() {
                Some(pattern) => check_pattern(pattern, &at)?,
                None => return wrong(&at, "`pattern` is a text"),
            },
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => {
                return wrong(&at, format!("`{word}` is a number"));
            }
            "multipleOf" if value.as_f64().is_none_or(|number| number <= 0.0) => {
                return wrong(&at, "`multipleOf` is a number above 0");
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
            | "maxContains"
                if count(value).is_none() =>
            {
                return wrong(&at, format!("`{word}` is a whole number, 0 or more"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The word for the draft, one level too deep: so stands in examples that many have copied, and says nothing.
fn is_slip(name: &str, schema: &Json) -> bool {
    name == "$schema" && schema.is_string()
}

fn check_types(value: &Json, at: &str) -> Result<(), Misfit> {
    let known = |word: &Json| word.as_str().is_some_and(|word| TYPES.contains(&word));
    let fits = match value {
        Json::Array(words) => !words.is_empty() && words.iter().all(known),
        word => known(word),
    };
    if fits { Ok(()) } else { wrong(at, format!("`type` is one of {}, or a list of them", TYPES.join(", "))) }
}

fn check_pattern(pattern: &str, at: &str) -> Result<(), Misfit> {
    match Regex::new(pattern) {
        Ok(_) => Ok(()),
        Err(_) => wrong(at, format!("`{pattern}` is not a pattern that is understood here")),
    }
}

/// A whole number of things; drafts also write it as `2.0`.
fn count(value: &Json) -> Option<u64> {
    let whole = |number: f64| (number >= 0.0 && number.fract() == 0.0).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn is_type(word: &str, value: &Json) -> bool {
    match (word, value) {
        ("null", Json::Null)
        | ("boolean", Json::Bool(_))
        | ("object", Json::Object(_))
        | ("array", Json::Array(_))
        | ("number", Json::Number(_))
        | ("string", Json::String(_)) => true,
        // 2.0 is a whole number there.
        ("integer", Json::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => false,
    }
}

/// 1 and 1.0 are the same number.
fn same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A text that only equal values have.
fn spelled(value: &Json) -> String {
    match value {
        Json::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => (float as i64).to_string(),
            _ => number.to_string(),
        },
        Json::Array(items) => format!("[{}]", items.iter().map(spelled).collect::<Vec<_>>().join(",")),
        Json::Object(fields) => {
            let sorted: BTreeMap<&String, String> = fields.iter().map(|(name, value)| (name, spelled(value))).collect();
            format!("{sorted:?}")
        }
        other => other.to_string(),
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

/// A look at one value by one schema.
struct Look<'a> {
    root: &'a Json,
    steps: u32,
    /// Each is made ready once.
    patterns: BTreeMap<&'a str, Option<Regex>>,
    found: Vec<Misfit>,
}

impl<'a> Look<'a> {
    fn say(&mut self, path: &str, message: impl Into<String>) {
        if self.found.len() < TOLD_MAX {
            self.found.push(Misfit { path: path.to_owned(), message: message.into() });
        }
    }

    /// Whether a value fits, without a word about it.
    fn fits(&mut self, schema: &'a Json, value: &Json, depth: u32) -> bool {
        let told = std::mem::take(&mut self.found);
        self.at(schema, value, "", depth);
        std::mem::replace(&mut self.found, told).is_empty()
    }

    fn at(&mut self, schema: &'a Json, value: &Json, path: &str, depth: u32) {
        self.steps = self.steps.saturating_add(1);
        if self.steps > STEPS_MAX || depth > DEPTH_MAX {
            return self.say(path, "the schema asks for too many looks at it");
        }
        let fields = match schema {
            Json::Bool(true) => return,
            Json::Object(fields) => fields,
            _ => return self.say(path, "nothing is allowed here"),
        };
        if let Some(reference) = fields.get("$ref").and_then(Json::as_str) {
            match referred(self.root, reference) {
                Some(other) => self.at(other, value, path, depth + 1),
                None => self.say(path, format!("the schema refers to `{reference}`, which is not there")),
            }
        }
        self.any(fields, value, path);
        self.several(fields, value, path, depth);
        match value {
            Json::Number(number) => self.number(fields, number.as_f64().unwrap_or(f64::NAN), path),
            Json::String(text) => self.text(fields, text, path),
            Json::Array(items) => self.list(fields, items, path, depth),
            Json::Object(values) => self.object(fields, values, path, depth),
            Json::Null | Json::Bool(_) => {}
        }
    }

    fn any(&mut self, fields: &Map<String, Json>, value: &Json, path: &str) {
        let words: Vec<&str> = match fields.get("type") {
            Some(Json::String(word)) => vec![word],
            Some(Json::Array(words)) => words.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        if !words.is_empty() && !words.iter().any(|word| is_type(word, value)) {
            self.say(path, format!("{} expected, {} found", words.join(" or "), kind(value)));
        }
        if let Some(Json::Array(allowed)) = fields.get("enum")
            && !allowed.iter().any(|one| same(one, value))
        {
            self.say(path, format!("must be one of {}", Json::Array(allowed.clone())));
        }
        if let Some(only) = fields.get("const").filter(|only| !same(only, value)) {
            self.say(path, format!("must be {only}"));
        }
    }

    /// Words that hold other schemas for the same value.
    fn several(&mut self, fields: &'a Map<String, Json>, value: &Json, path: &str, depth: u32) {
        let list = |word: &str| fields.get(word).and_then(Json::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.at(schema, value, path, depth + 1);
        }
        if let Some(all) = list("anyOf")
            && !all.iter().any(|schema| self.fits(schema, value, depth + 1))
        {
            self.say(path, "fits none of the schemas of `anyOf`");
        }
        if let Some(all) = list("oneOf") {
            let fitting = all.iter().filter(|schema| self.fits(schema, value, depth + 1)).count();
            if fitting != 1 {
                self.say(path, format!("fits {fitting} of the schemas of `oneOf`, and must fit one"));
            }
        }
        if let Some(not) = fields.get("not")
            && self.fits(not, value, depth + 1)
        {
            self.say(path, "fits the schema of `not`");
        }
        if let Some(condition) = fields.get("if") {
            let word = if self.fits(condition, value, depth + 1) { "then" } else { "else" };
            if let Some(schema) = fields.get(word) {
                self.at(schema, value, path, depth + 1);
            }
        }
    }

    fn number(&mut self, fields: &Map<String, Json>, value: f64, path: &str) {
        let bound = |word: &str| fields.get(word).and_then(Json::as_f64);
        if let Some(least) = bound("minimum").filter(|least| value < *least) {
            self.say(path, format!("must be {least} or more"));
        }
        if let Some(most) = bound("maximum").filter(|most| value > *most) {
            self.say(path, format!("must be {most} or less"));
        }
        if let Some(least) = bound("exclusiveMinimum").filter(|least| value <= *least) {
            self.say(path, format!("must be more than {least}"));
        }
        if let Some(most) = bound("exclusiveMaximum").filter(|most| value >= *most) {
            self.say(path, format!("must be less than {most}"));
        }
        if let Some(part) = bound("multipleOf") {
            let parts = value / part;
            if (parts - parts.round()).abs() > 1e-9 * parts.abs().max(1.0) {
                self.say(path, format!("must be a multiple of {part}"));
            }
        }
    }

    fn counted(&mut self, fields: &Map<String, Json>, words: [&str; 2], found: usize, what: &str, path: &str) {
        let bound = |word: &str| fields.get(word).and_then(count);
        if let Some(least) = bound(words[0]).filter(|least| (found as u64) < *least) {
            self.say(path, format!("must have {least} {what} or more"));
        }
        if let Some(most) = bound(words[1]).filter(|most| (found as u64) > *most) {
            self.say(path, format!("must have {most} {what} or fewer"));
        }
    }

    /// A pattern that is not understood here was refused when the schema was registered, and matches nothing.
    fn matches(&mut self, pattern: &'a str, text: &str) -> bool {
        let ready = self.patterns.entry(pattern).or_insert_with(|| Regex::new(pattern).ok());
        ready.as_ref().is_some_and(|ready| ready.is_match(text))
    }

    fn text(&mut self, fields: &'a Map<String, Json>, text: &str, path: &str) {
        self.counted(fields, ["minLength", "maxLength"], text.chars().count(), "characters", path);
        if let Some(pattern) = fields.get("pattern").and_then(Json::as_str)
            && !self.matches(pattern, text)
        {
            self.say(path, format!("does not match the pattern {pattern}"));
        }
    }

    fn list(&mut self, fields: &'a Map<String, Json>, items: &[Json], path: &str, depth: u32) {
        self.counted(fields, ["minItems", "maxItems"], items.len(), "items", path);
        // A list of schemas for `items` is what `prefixItems` was called.
        let (first, rest) = match (fields.get("prefixItems"), fields.get("items")) {
            (Some(Json::Array(first)), rest) => (first.as_slice(), rest),
            (_, Some(Json::Array(first))) => (first.as_slice(), fields.get("additionalItems")),
            (_, rest) => (&[][..], rest),
        };
        for (place, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(place).or(rest) {
                self.at(schema, item, &format!("{path}/{place}"), depth + 1);
            }
        }
        if let Some(schema) = fields.get("contains") {
            let bound = |word: &str| fields.get(word).and_then(count);
            let least = bound("minContains").unwrap_or(1);
            let found = items.iter().filter(|item| self.fits(schema, item, depth + 1)).count() as u64;
            if found < least || bound("maxContains").is_some_and(|most| found > most) {
                self.say(path, format!("{found} of its items fit the schema of `contains`"));
            }
        }
        let mut seen = BTreeSet::new();
        if fields.get("uniqueItems") == Some(&Json::Bool(true)) && !items.iter().all(|item| seen.insert(spelled(item)))
        {
            self.say(path, "has the same item twice");
        }
    }

    fn object(&mut self, fields: &'a Map<String, Json>, values: &Map<String, Json>, path: &str, depth: u32) {
        self.counted(fields, ["minProperties", "maxProperties"], values.len(), "properties", path);
        for name in fields.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str) {
            if !values.contains_key(name) {
                self.say(path, format!("`{name}` is required"));
            }
        }
        let map = |word: &str| fields.get(word).and_then(Json::as_object);
        let (named, patterns) = (map("properties"), map("patternProperties"));
        for (name, value) in values {
            let at = below(path, name);
            let mut known = false;
            if let Some(schema) = named.and_then(|named| named.get(name)).filter(|schema| !is_slip(name, schema)) {
                known = true;
                self.at(schema, value, &at, depth + 1);
            }
            for (pattern, schema) in patterns.into_iter().flatten() {
                if self.matches(pattern, name) {
                    known = true;
                    self.at(schema, value, &at, depth + 1);
                }
            }
            match fields.get("additionalProperties").filter(|_| !known) {
                Some(Json::Bool(false)) => self.say(path, format!("there must be no `{name}`")),
                Some(schema) => self.at(schema, value, &at, depth + 1),
                None => {}
            }
            if let Some(schema) = fields.get("propertyNames")
                && !self.fits(schema, &Json::String(name.clone()), depth + 1)
            {
                self.say(path, format!("there must be no property of the name `{name}`"));
            }
        }
        self.dependent(fields, values, path, depth);
    }

    fn dependent(&mut self, fields: &'a Map<String, Json>, values: &Map<String, Json>, path: &str, depth: u32) {
        for word in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (name, asked) in fields.get(word).and_then(Json::as_object).into_iter().flatten() {
                if !values.contains_key(name) {
                    continue;
                }
                match asked {
                    Json::Array(names) => {
                        for other in names.iter().filter_map(Json::as_str) {
                            if !values.contains_key(other) {
                                self.say(path, format!("`{other}` is required where there is `{name}`"));
                            }
                        }
                    }
                    schema => self.at(schema, &Json::Object(values.clone()), path, depth + 1),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(schema: &Json, value: Json) -> bool {
        check(schema).unwrap();
        misfits(schema, &value).is_empty()
    }

    /// Each word: a schema, what fits it, and what does not.
    #[test]
    fn every_word_of_the_table_is_carried_out() {
        let table = [
            (json!({"type": "integer"}), json!([1, 2.0, -3]), json!([1.5, "1", null])),
            (json!({"type": ["string", "null"]}), json!(["a", null]), json!([1, {}])),
            (json!({"enum": [1, "a"]}), json!([1, 1.0, "a"]), json!([2, "b"])),
            (json!({"const": {"a": 1}}), json!([{"a": 1.0}]), json!([{"a": 2}, {}])),
            (json!({"allOf": [{"minimum": 1}, {"maximum": 3}]}), json!([1, 3]), json!([0, 4])),
            (json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}), json!(["a", 6]), json!([4])),
            (json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), json!([2, 3]), json!([6, 5])),
            (json!({"not": {"type": "null"}}), json!([1]), json!([null])),
            (
                json!({"if": {"type": "number"}, "then": {"minimum": 1}, "else": {"minLength": 2}}),
                json!([1, "ab"]),
                json!([0, "a"]),
            ),
            (json!({"minimum": 1, "maximum": 2}), json!([1, 2, "x"]), json!([0.9, 2.1])),
            (json!({"exclusiveMinimum": 1, "exclusiveMaximum": 2}), json!([1.5]), json!([1, 2])),
            (json!({"multipleOf": 0.1}), json!([0.3, 1]), json!([0.25])),
            (json!({"minLength": 2, "maxLength": 3}), json!(["äö", "abc"]), json!(["ä", "abcd"])),
            (json!({"pattern": "^a+$"}), json!(["aa", 5]), json!(["ba"])),
            (json!({"items": {"type": "string"}}), json!([["a"], []]), json!([["a", 1]])),
            (json!({"prefixItems": [{"type": "string"}], "items": false}), json!([["a"], []]), json!([[1], ["a", 1]])),
            (
                json!({"items": [{"type": "string"}], "additionalItems": {"type": "null"}}),
                json!([["a", null]]),
                json!([["a", 1]]),
            ),
            (json!({"contains": {"const": 1}}), json!([[2, 1]]), json!([[], [2]])),
            (json!({"contains": {"const": 1}, "minContains": 0, "maxContains": 1}), json!([[], [1]]), json!([[1, 1]])),
            (json!({"minItems": 1, "maxItems": 2, "uniqueItems": true}), json!([[1, 2]]), json!([[], [1, 1.0]])),
            (json!({"properties": {"a": {"type": "string"}}}), json!([{"a": "x", "b": 1}, {}]), json!([{"a": 1}])),
            (json!({"required": ["a"]}), json!([{"a": null}, 5]), json!([{}])),
            (
                json!({"properties": {"a": true}, "patternProperties": {"^x": {"type": "number"}},
                    "additionalProperties": false}),
                json!([{"a": 1, "xy": 2}]),
                json!([{"b": 1}, {"xy": "2"}]),
            ),
            (json!({"additionalProperties": {"type": "number"}}), json!([{"a": 1}]), json!([{"a": "1"}])),
            (json!({"propertyNames": {"maxLength": 1}}), json!([{"a": 1}]), json!([{"ab": 1}])),
            (json!({"minProperties": 1, "maxProperties": 1}), json!([{"a": 1}]), json!([{}, {"a": 1, "b": 2}])),
            (json!({"dependentRequired": {"a": ["b"]}}), json!([{"b": 1}, {"a": 1, "b": 1}]), json!([{"a": 1}])),
            (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), json!([{}]), json!([{"a": 1}])),
            (
                json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
                json!([{"a": 1, "b": 1}]),
                json!([{"a": 1}, {"c": 1}]),
            ),
            (json!({"$defs": {"n": {"type": "number"}}, "items": {"$ref": "#/$defs/n"}}), json!([[1]]), json!([["1"]])),
            (json!(true), json!([1, null]), json!([])),
            (json!(false), json!([]), json!([1, null])),
        ];
        for (schema, good, bad) in table {
            for value in good.as_array().unwrap() {
                assert!(fits(&schema, value.clone()), "{value} by {schema}");
            }
            for value in bad.as_array().unwrap() {
                assert!(!fits(&schema, value.clone()), "{value} by {schema}");
            }
        }
    }

    #[test]
    fn a_misfit_says_where_and_what() {
        let schema = json!({"type": "object", "required": ["id"], "properties": {
            "id": {"type": "string"}, "lines": {"items": {"properties": {"n/m": {"minimum": 1}}}}}});
        let found = misfits(&schema, &json!({"lines": [{"n/m": 2}, {"n/m": 0}]}));
        assert_eq!(in_words(&found), "`id` is required; /lines/1/n~1m: must be 1 or more");
        let many: Vec<Json> = (0..50).map(|_| json!("x")).collect();
        assert_eq!(misfits(&json!({"items": {"type": "number"}}), &json!(many)).len(), TOLD_MAX);
    }

    #[test]
    fn remarks_are_no_tests() {
        let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "title": "t",
            "format": "email", "default": 1, "x-own": {"anything": 1}});
        assert!(fits(&schema, json!("no address")));
        let slip = json!({"type": "object", "properties": {"$schema": "http://json-schema.org/draft-07/schema"}});
        assert!(fits(&slip, json!({"$schema": 1})));
    }

    #[test]
    fn what_is_not_carried_out_is_refused_with_its_place() {
        for (schema, path, part) in [
            (
                json!({"properties": {"a": {"unevaluatedProperties": false}}}),
                "/properties/a/unevaluatedProperties",
                "not built",
            ),
            (json!({"$ref": "https://example.com/x.json"}), "/$ref", "within the schema"),
            (json!({"$ref": "#/$defs/none"}), "/$ref", "nothing at"),
            (json!({"type": "text"}), "/type", "is one of"),
            (json!({"allOf": [5]}), "/allOf/0", "a schema is an object"),
            (json!({"pattern": "("}), "/pattern", "not a pattern"),
            (json!({"minLength": -1}), "/minLength", "whole number"),
            (json!({"exclusiveMinimum": true}), "/exclusiveMinimum", "is a number"),
            (json!({"required": "a"}), "/required", "list of names"),
            (json!("x"), "", "a schema is an object"),
        ] {
            let found = check(&schema).expect_err(&schema.to_string());
            assert_eq!(found.path, path);
            assert!(found.message.contains(part), "{found}");
        }
    }

    #[test]
    fn a_schema_without_end_fits_nothing_and_ends() {
        let schema = json!({"$ref": "#"});
        assert!(in_words(&misfits(&schema, &json!(1))).contains("too many looks"));
        let list = json!({"anyOf": [{"type": "null"}, {"type": "object", "properties": {"next": {"$ref": "#"}}}]});
        assert!(fits(&list, json!({"next": {"next": null}})), "a schema may hold itself");
        let wide = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert!(!misfits(&wide, &json!(1)).is_empty());
    }
}
