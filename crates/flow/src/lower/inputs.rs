//! `inputs:` and `outputs:` of the flow.

use super::fields::{Fields, Names};
use super::ids::{INPUT_ID, OUTPUT_ID};
use super::values::short;
use super::{Context, Moment};
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use indexmap::IndexMap;
use semel_core::duration;
use semel_core::ir::{InputDef, InputType, OutputDef};
use serde_json::Value as Json;
use std::ops::Range;

const COMMON: &[&str] =
    &["id", "name", "type", "required", "defaults", "prefill", "dependsOn", "displayName", "description"];
const NOT_BUILT: &[&str] = &["accept", "fields"];
const OUTPUT: Names = Names {
    what: "an output",
    allowed: &[&["id", "type", "value", "displayName", "description", "required"]],
    not_built: &[],
};

const TYPES: &[&str] = &[
    "STRING",
    "INT",
    "FLOAT",
    "BOOL",
    "SELECT",
    "MULTISELECT",
    "DATETIME",
    "DATE",
    "TIME",
    "DURATION",
    "JSON",
    "YAML",
    "URI",
    "SECRET",
    "ARRAY",
    "EMAIL",
    "FILE",
];
/// Old names.
const OTHER_TYPES: &[&str] = &["ENUM", "BOOLEAN"];
const FORM: Names = Names {
    what: "an input of type FORM",
    allowed: &[&["id", "type", "inputs", "displayName", "description", "required"]],
    not_built: &[],
};

/// Longest pattern that is compiled; the regex engine itself bounds the size of what comes out.
const REGEX_CHARS_MAX: usize = 1_000;

/// The fields that belong to one type.
fn own_fields(input_type: InputType) -> &'static [&'static str] {
    match input_type {
        InputType::String | InputType::Secret => &["validator"],
        InputType::Int | InputType::Float | InputType::Duration => &["min", "max"],
        InputType::Select => &["values", "expression", "autoSelectFirst", "allowCustomValue", "isRadio"],
        InputType::Multiselect => {
            &["values", "options", "expression", "autoSelectFirst", "allowCustomValue", "itemType"]
        }
        InputType::Datetime | InputType::Date | InputType::Time => &["after", "before"],
        InputType::Array => &["itemType"],
        InputType::File => &["allowedFileExtensions"],
        InputType::Bool | InputType::Json | InputType::Yaml | InputType::Uri | InputType::Email => &[],
    }
}

impl<'a> Context<'a> {
    pub fn input_defs(&mut self, node: &'a Node) -> Vec<InputDef> {
        let Some(items) = self.list(node, "inputs") else { return Vec::new() };
        let mut seen: IndexMap<String, Range<usize>> = IndexMap::new();
        let mut inputs: Vec<(&'a Node, InputDef)> = Vec::new();
        for item in items {
            for (item, input) in self.input_or_form(item) {
                let at = item.entries().and_then(|entries| entries.iter().find(|entry| entry.key == "id"));
                let at = at.map_or_else(|| item.at.clone(), |entry| entry.value.at.clone());
                self.unique("input", &input.id, at, &mut seen);
                inputs.push((item, input));
            }
        }
        self.dependencies(&mut inputs);
        inputs.into_iter().map(|(_, input)| input).collect()
    }

    /// Reports an id that was used before, with both places.
    pub fn unique(&mut self, what: &str, id: &str, at: Range<usize>, seen: &mut IndexMap<String, Range<usize>>) {
        if let Some(first) = seen.get(id) {
            let finding = Finding::error(codes::DUPLICATE_ID, at, format!("two {what}s have the id `{id}`"));
            self.report(finding.related(first.clone(), "first used here"));
        } else {
            seen.insert(id.to_owned(), at);
        }
    }

    /// An input, or those of a form: their ids begin with that of the form.
    fn input_or_form(&mut self, node: &'a Node) -> Vec<(&'a Node, InputDef)> {
        let is_form = |node: &Node| {
            let entries = node.entries().unwrap_or_default();
            let word = entries.iter().find(|entry| entry.key == "type").and_then(|entry| entry.value.scalar());
            word.is_some_and(|scalar| scalar.text.eq_ignore_ascii_case("FORM"))
        };
        if !is_form(node) {
            return self.input_def(node, None).map(|input| (node, input)).into_iter().collect();
        }
        let Some(fields) = self.fields(node, FORM) else { return Vec::new() };
        let id = self.required(&fields, FORM.what, "id").and_then(|node| self.id(node, INPUT_ID));
        let inner = self.required(&fields, FORM.what, "inputs").and_then(|node| self.list(node, "inputs"));
        let (Some(id), Some(items)) = (id, inner) else { return Vec::new() };
        let mut found = Vec::new();
        for item in items {
            if is_form(item) {
                self.error(codes::BAD_VALUE, &item.at, "a form cannot hold another form");
            } else {
                found.extend(self.input_def(item, Some(&id)).map(|input| (item, input)));
            }
        }
        found
    }

    fn input_def(&mut self, node: &'a Node, form: Option<&str>) -> Option<InputDef> {
        let raw = self.map(node, "an input")?;
        // `name` is how older flows of Kestra call it.
        let named = raw.get("name").filter(|_| raw.get("id").is_none());
        let id = named.or_else(|| self.required(&raw, "an input", "id")).and_then(|node| self.id(node, INPUT_ID));
        let id = id.map(|id| form.map_or_else(|| id.clone(), |form| format!("{form}.{id}")));
        let type_node = self.required(&raw, "an input", "type");
        let input_type = type_node.and_then(|node| self.input_type(node, "type"));
        if let Some(id) = &id {
            // Known even when the rest is wrong, or every use of it would be reported too.
            let optional = ["defaults", "dependsOn", "autoSelectFirst"].iter().any(|name| raw.get(name).is_some())
                || raw.get("required").and_then(|node| node.to_json().as_bool()) == Some(false);
            self.inputs.insert(id.clone(), !optional);
            self.input_roots.insert(id.split('.').next().unwrap_or_default().to_owned());
        }
        let (id, input_type) = (id?, input_type?);
        let what = format!("an input of type {}", word(input_type));
        let names = Names { what: &what, allowed: &[COMMON, own_fields(input_type)], not_built: NOT_BUILT };
        let fields = self.fields(node, names)?;
        let mut input = InputDef {
            id,
            input_type,
            required: self.flag(&fields, "required", true),
            defaults: None,
            description: fields.get("description").and_then(|node| self.text(node, "description")).map(str::to_owned),
            validator: fields.get("validator").and_then(|node| self.pattern(node)),
            min: self.bound(&fields, "min", input_type),
            max: self.bound(&fields, "max", input_type),
            values: self.choices(&fields, &what, input_type),
            expression: self.computed_choices(&fields),
            auto_select_first: self.flag(&fields, "autoSelectFirst", false),
            allow_custom_value: self.flag(&fields, "allowCustomValue", false),
            item_type: fields.get("itemType").and_then(|node| self.input_type(node, "itemType")),
            after: self.date_bound(&fields, "after", input_type),
            before: self.date_bound(&fields, "before", input_type),
            allowed_file_extensions: self.file_endings(&fields),
            depends_on: fields.get("dependsOn").and_then(|node| self.input_depends_on(node)),
        };
        // How a form shows the choices is nothing to us.
        self.flag(&fields, "isRadio", false);
        if input_type == InputType::Array {
            self.required(&fields, &what, "itemType");
        }
        if let (Some(InputType::Secret), Some(node)) = (input.item_type, fields.get("itemType")) {
            let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), "the items of a list cannot be SECRET");
            self.report(finding.suggest("use one input of type SECRET for each"));
        }
        if let Some(node) = fields.get("defaults") {
            input.defaults = Some(self.at_admission(|context| context.tree(node)));
            self.check_default(node, &input, "default");
        }
        if let Some(node) = fields.get("prefill") {
            // A form begins with it, and whoever fills the form in may take it away: nobody but a form looks at it.
            self.check_default(node, &input, "prefill");
        }
        for (one, other) in [("autoSelectFirst", "defaults"), ("values", "options"), ("values", "expression")] {
            if fields.get(one).is_some() && fields.get(other).is_some() {
                let message = format!("`{one}` and `{other}` exclude each other");
                self.error(codes::CONFLICT, &fields.key_at(other), message);
            }
        }
        Some(input)
    }

    /// Reads what is evaluated before the run exists; what somebody may say to a task is asked for in the middle of it.
    pub fn at_admission<T>(&mut self, read: impl FnOnce(&mut Context<'a>) -> T) -> T {
        let moment = if matches!(self.moment, Moment::Task(_)) { self.moment } else { Moment::Admission };
        self.during(moment, read)
    }

    fn file_endings(&mut self, fields: &Fields<'a>) -> Vec<String> {
        let name = "allowedFileExtensions";
        let Some(items) = fields.get(name).and_then(|node| self.list(node, name)) else { return Vec::new() };
        items.iter().filter_map(|item| self.text(item, name).map(str::to_owned)).collect()
    }

    fn input_type(&mut self, node: &'a Node, name: &str) -> Option<InputType> {
        let text = self.literal(node, name)?;
        let other = OTHER_TYPES.iter().find(|word| word.eq_ignore_ascii_case(text)).copied();
        match other.or_else(|| self.word(node, name, TYPES))? {
            "ENUM" => Some(InputType::Select),
            "BOOLEAN" => Some(InputType::Bool),
            kind => serde_json::from_value(Json::String(kind.to_owned())).ok(),
        }
    }

    fn pattern(&mut self, node: &'a Node) -> Option<String> {
        let text = self.literal(node, "validator")?;
        let bad = match full_match(text) {
            Ok(_) => return Some(text.to_owned()),
            Err(error) => error,
        };
        let finding = Finding::error(codes::BAD_REGEX, node.at.clone(), format!("this pattern cannot be used: {bad}"));
        self.report(finding.suggest("look-around and back-references are not available: patterns run in linear time"));
        None
    }

    fn bound(&mut self, fields: &Fields<'a>, name: &str, input_type: InputType) -> Option<Json> {
        let node = fields.get(name)?;
        match input_type {
            InputType::Int => self.int(node, name, i64::MIN, i64::MAX).map(Json::from),
            InputType::Float => {
                let number = node.to_json().as_f64();
                if number.is_none() {
                    self.wrong_type(node, name, "a number");
                }
                number.map(Json::from)
            }
            InputType::Duration => {
                self.duration(node, name)?;
                self.text(node, name).map(Json::from)
            }
            // Refused as an unknown field already.
            _ => None,
        }
    }

    fn date_bound(&mut self, fields: &Fields<'a>, name: &str, input_type: InputType) -> Option<String> {
        let node = fields.get(name).filter(|_| own_fields(input_type).contains(&name))?;
        let text = self.literal(node, name)?;
        if let Err(expected) = date_text(text, input_type) {
            let message = format!("`{}` is not a {}", short(text), word(input_type));
            self.report(Finding::error(codes::BAD_VALUE, node.at.clone(), message).expected(expected));
            return None;
        }
        Some(text.to_owned())
    }

    fn choices(&mut self, fields: &Fields<'a>, what: &str, input_type: InputType) -> Option<Vec<String>> {
        if !matches!(input_type, InputType::Select | InputType::Multiselect) {
            return None;
        }
        // `options` is the old name; a list that is computed is not known yet.
        let node = match fields.get("options").filter(|_| fields.get("values").is_none()) {
            Some(node) => node,
            None if fields.get("expression").is_some() => fields.get("values")?,
            None => self.required(fields, what, "values")?,
        };
        let items = self.list(node, "values")?;
        if items.is_empty() {
            self.error(codes::BAD_VALUE, &node.at, "`values` lists no choice");
        }
        Some(items.iter().filter_map(|item| self.literal(item, "values")).map(str::to_owned).collect())
    }

    fn check_default(&mut self, node: &'a Node, input: &InputDef, name: &str) {
        if node.scalar().is_some_and(|scalar| scalar.is_template()) {
            return;
        }
        if let Err(why) = fits(&node.to_json(), input) {
            let message =
                format!("the {name} of `{}` does not fit its type {}: {why}", input.id, word(input.input_type));
            self.error(codes::BAD_DEFAULT, &node.at, message);
        }
    }

    pub fn output_defs(&mut self, node: &'a Node) -> Vec<OutputDef> {
        let Some(items) = self.list(node, "outputs") else { return Vec::new() };
        let mut seen = IndexMap::new();
        let mut outputs = Vec::new();
        for item in items {
            let Some(fields) = self.fields(item, OUTPUT) else { continue };
            let id = self.required(&fields, "an output", "id").and_then(|node| self.id(node, OUTPUT_ID));
            let output_type = fields.get("type").and_then(|node| self.input_type(node, "type"));
            let value = self.required(&fields, "an output", "value").map(|node| self.tree(node));
            if let (Some(id), Some(value)) = (id, value) {
                let at = fields.get("id").map_or_else(|| item.at.clone(), |node| node.at.clone());
                self.unique("output", &id, at, &mut seen);
                let required = self.flag(&fields, "required", false);
                outputs.push(OutputDef { id, output_type, value, required });
            }
        }
        outputs
    }
}

fn word(input_type: InputType) -> String {
    serde_json::to_value(input_type).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

fn full_match(pattern: &str) -> Result<regex::Regex, String> {
    if pattern.chars().count() > REGEX_CHARS_MAX {
        return Err(format!("it has more than {REGEX_CHARS_MAX} characters"));
    }
    // The first line of the regex crate's message is a heading; the last one is the reason.
    regex::Regex::new(&format!("^(?:{pattern})$"))
        .map_err(|error| error.to_string().lines().last().unwrap_or("").trim_start_matches("error: ").to_owned())
}

/// Checks a date, time or instant; the error says what is expected.
fn date_text(text: &str, input_type: InputType) -> Result<(), &'static str> {
    match input_type {
        InputType::Date => text.parse::<jiff::civil::Date>().map(|_| ()).map_err(|_| "a date such as 2026-01-31"),
        InputType::Time => text.parse::<jiff::civil::Time>().map(|_| ()).map_err(|_| "a time such as 13:30:00"),
        _ => text.parse::<jiff::Timestamp>().map(|_| ()).map_err(|_| "an instant such as 2026-01-31T13:30:00Z"),
    }
}

/// Whether a static default can be an input of this type. Nothing is converted here: the engine does that with the
/// same text when a run starts.
fn fits(value: &Json, input: &InputDef) -> Result<(), String> {
    let text = match value {
        Json::String(text) => Some(text.as_str()),
        _ => None,
    };
    let need = |ok: bool, what: &str| if ok { Ok(()) } else { Err(format!("it must be {what}")) };
    match input.input_type {
        InputType::String | InputType::Secret => {
            need(!matches!(value, Json::Array(_) | Json::Object(_)), "text")?;
            let pattern = input.validator.as_deref().and_then(|pattern| full_match(pattern).ok());
            let shown = text.map_or_else(|| value.to_string(), str::to_owned);
            need(pattern.is_none_or(|pattern| pattern.is_match(&shown)), "text that matches the validator")
        }
        InputType::Int => {
            let number = value.as_i64().or_else(|| text.and_then(|text| text.parse().ok()));
            need(number.is_some(), "a whole number")?;
            number.map_or(Ok(()), |number| bounded(number as f64, input))
        }
        InputType::Float => {
            let number = value.as_f64().or_else(|| text.and_then(|text| text.parse().ok()));
            need(number.is_some(), "a number")?;
            number.map_or(Ok(()), |number| bounded(number, input))
        }
        InputType::Bool => need(value.is_boolean() || matches!(text, Some("true" | "false")), "true or false"),
        InputType::Select => one_of(value, input),
        InputType::Multiselect => match value {
            Json::Array(items) => items.iter().try_for_each(|item| one_of(item, input)),
            _ => need(json_list(text), "a list"),
        },
        InputType::Datetime | InputType::Date | InputType::Time => match text {
            Some(text) => date_text(text, input.input_type).map_err(|what| format!("it must be {what}")),
            None => need(false, "text"),
        },
        InputType::Duration => {
            let ms = duration::parse_ms(text.unwrap_or("")).map_err(|error| error.to_string())?;
            bounded(ms as f64, input)
        }
        InputType::Json => match text {
            Some(text) => need(serde_json::from_str::<Json>(text).is_ok(), "JSON"),
            None => Ok(()),
        },
        InputType::Yaml => Ok(()),
        InputType::Uri => need(text.is_some_and(|text| text.contains(':')), "a URI such as https://example.org/x"),
        InputType::Email => need(text.is_some_and(is_email), "an e-mail address"),
        InputType::Array => need(value.is_array() || json_list(text), "a list"),
        InputType::File => need(text.is_some_and(semel_core::files::is_address), "the address of a file, kestra:///…"),
    }
}

fn json_list(text: Option<&str>) -> bool {
    text.is_some_and(|text| matches!(serde_json::from_str(text), Ok(Json::Array(_))))
}

fn is_email(text: &str) -> bool {
    text.split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !host.contains(['@', ' ']))
}

fn one_of(value: &Json, input: &InputDef) -> Result<(), String> {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let values = input.values.as_deref().unwrap_or_default();
    // Without values the missing field is reported already.
    if input.allow_custom_value || values.is_empty() || values.contains(&shown) {
        return Ok(());
    }
    Err(format!("it must be one of: {}", values.join(", ")))
}

fn bounded(number: f64, input: &InputDef) -> Result<(), String> {
    let bound = |bound: &Option<Json>| {
        bound.as_ref().and_then(|bound| match bound {
            Json::String(text) => duration::parse_ms(text).ok().map(|ms| ms as f64),
            other => other.as_f64(),
        })
    };
    match (bound(&input.min), bound(&input.max)) {
        (Some(min), _) if number < min => Err("it is below `min`".to_owned()),
        (_, Some(max)) if number > max => Err("it is above `max`".to_owned()),
        _ => Ok(()),
    }
}
