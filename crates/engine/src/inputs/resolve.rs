//! What becomes of each declared input: those it depends on come first, and one that is not asked for is left out.

use super::{as_written, convert, find, type_word};
use crate::api::FieldError;
use crate::scope::put_dotted;
use semel_core::ir::{InputDef, InputType};
use semel_expr::{Budget, Part, Scope, SecretRef, Value, render_json};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What became of one input.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// It is asked for.
    pub enabled: bool,
    /// Nothing was given for it, and it has a default.
    pub is_default: bool,
    /// The choices there are, where they were computed.
    pub values: Option<Vec<String>>,
    /// Its value in stored form (null: none was given), or why there is none.
    pub value: Result<Json, String>,
}

/// The inputs of a run in stored form (secrets sealed), or every field that cannot be used.
pub fn check(defs: &[InputDef], given: &Json, scope: &dyn Scope) -> Result<Json, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut out = serde_json::Map::new();
    for (def, resolved) in resolve(defs, given, scope) {
        match resolved.value {
            Err(message) => errors.push(FieldError { field: def.id.clone(), message }),
            Ok(value) if resolved.enabled => put_dotted(&mut out, &def.id, value),
            Ok(_) => {}
        }
    }
    if errors.is_empty() { Ok(Json::Object(out)) } else { Err(errors) }
}

/// What becomes of each input, in the order in which they are declared.
pub fn resolve<'d>(defs: &'d [InputDef], given: &Json, scope: &dyn Scope) -> Vec<(&'d InputDef, Resolved)> {
    let mut done = BTreeMap::new();
    for def in defs {
        one(def, defs, given, scope, &mut done, 0);
    }
    defs.iter().filter_map(|def| Some((def, done.remove(def.id.as_str())?))).collect()
}

fn one<'d>(
    def: &'d InputDef,
    defs: &'d [InputDef],
    given: &Json,
    scope: &dyn Scope,
    done: &mut BTreeMap<&'d str, Resolved>,
    depth: usize,
) {
    // The compiler refuses circles, so that no chain is longer than the list.
    if done.contains_key(def.id.as_str()) || depth > defs.len() {
        return;
    }
    let needed: Vec<&'d InputDef> = match &def.depends_on {
        Some(depends) => defs.iter().filter(|other| depends.inputs.contains(&other.id)).collect(),
        None => Vec::new(),
    };
    for other in &needed {
        one(other, defs, given, scope, done, depth + 1);
    }
    let found: Vec<(&str, &Resolved)> =
        needed.iter().filter_map(|other| Some((other.id.as_str(), done.get(other.id.as_str())?))).collect();
    let resolved = match found.is_empty() {
        true => value_of(def, given, scope, true),
        false => value_of(def, given, &Among::of(scope, &found), found.iter().all(|(_, other)| other.enabled)),
    };
    done.insert(def.id.as_str(), resolved);
}

fn value_of(def: &InputDef, given: &Json, scope: &dyn Scope, enabled: bool) -> Resolved {
    let mut out = Resolved { enabled, is_default: false, values: None, value: Ok(Json::Null) };
    let condition = def.depends_on.as_ref().and_then(|depends| depends.condition.as_ref());
    if let Some(condition) = condition.filter(|_| enabled) {
        match rendered(condition, scope) {
            Ok(value) => out.enabled = value == Value::Bool(true),
            Err(why) => {
                out.value = Err(format!("Invalid condition: {why}"));
                return out;
            }
        }
    }
    if !out.enabled {
        return out;
    }
    let own = match with_choices(def, scope) {
        Ok(own) => own,
        Err(why) => {
            out.value = Err(why);
            return out;
        }
    };
    let def = own.as_ref().unwrap_or(def);
    out.values = own.as_ref().and_then(|own| own.values.clone());
    let sent = find(given, &def.id).filter(|value| !value.is_null());
    let first = def.values.as_ref().filter(|_| def.auto_select_first).and_then(|values| values.first());
    out.is_default = sent.is_none() && (def.defaults.is_some() || first.is_some());
    out.value = match (sent, &def.defaults, first) {
        (Some(value), _, _) => convert(def, value, scope),
        (None, Some(defaults), _) => default_value(def, defaults, scope),
        (None, None, Some(first)) => convert(def, &chosen(def, first), scope),
        (None, None, None) if def.required => {
            Err(format!("missing required input of type {}", type_word(def.input_type)))
        }
        // Optional inputs that were not sent are defined as null.
        (None, None, None) => Ok(Json::Null),
    };
    out
}

fn chosen(def: &InputDef, first: &str) -> Json {
    match def.input_type {
        InputType::Multiselect => vec![first.to_owned()].into(),
        _ => first.into(),
    }
}

fn rendered(template: &str, scope: &dyn Scope) -> Result<Value, String> {
    let tree = Json::String(template.to_owned());
    render_json(&tree, scope, &mut Budget::default(), true).map_err(|error| error.message)
}

/// The input with the choices that its expression gives.
fn with_choices(def: &InputDef, scope: &dyn Scope) -> Result<Option<InputDef>, String> {
    let Some(expression) = &def.expression else { return Ok(None) };
    let found = rendered(expression, scope).map_err(|why| format!("Cannot render 'expression'. Cause: {why}"))?;
    // A list, or the JSON text of one.
    let list = match &found {
        Value::Str(text) => serde_json::from_str(text).map_or(Value::Null, |json| Value::from_json(&json)),
        other => other.clone(),
    };
    let Value::List(items) = &list else {
        return Err("its `expression` must give a list of texts".to_owned());
    };
    if list.is_tainted() {
        return Err("its `expression` gives a secret, and choices are shown".to_owned());
    }
    let values = items.iter().filter(|item| **item != Value::Null).map(Value::to_text).collect();
    Ok(Some(InputDef { values: Some(values), ..def.clone() }))
}

fn default_value(def: &InputDef, defaults: &Json, scope: &dyn Scope) -> Result<Json, String> {
    let value = render_json(defaults, scope, &mut Budget::default(), true).map_err(|error| error.message)?;
    match value.to_plain_json() {
        // A default that gives nothing is none.
        Some(Json::Null) if !def.required => Ok(Json::Null),
        Some(plain) => convert(def, &as_written(def, plain), scope),
        // Read through `secret()`: in stored form already.
        None if def.input_type == InputType::Secret && matches!(value, Value::Tainted(_)) => Ok(value.to_stored()),
        None => Err("its default would hold a secret; give the input the type SECRET".to_owned()),
    }
}

/// What an input's expressions see: the inputs that it depends on, besides all else.
struct Among<'a> {
    around: &'a dyn Scope,
    inputs: Value,
}

impl<'a> Among<'a> {
    fn of(around: &'a dyn Scope, found: &[(&str, &Resolved)]) -> Among<'a> {
        let mut all = match around.root("inputs") {
            Some(outer @ Value::Map(_)) => match outer.to_stored() {
                Json::Object(fields) => fields,
                _ => serde_json::Map::new(),
            },
            _ => serde_json::Map::new(),
        };
        for (id, resolved) in found {
            put_dotted(&mut all, id, resolved.value.clone().unwrap_or(Json::Null));
        }
        Among { around, inputs: Value::from_stored(&Json::Object(all)) }
    }
}

impl Scope for Among<'_> {
    fn root(&self, name: &str) -> Option<Value> {
        if name == "inputs" { Some(self.inputs.clone()) } else { self.around.root(name) }
    }

    fn secret(&self, name: &str, namespace: Option<&str>) -> Result<SecretRef, String> {
        self.around.secret(name, namespace)
    }

    fn reveal(&self, part: &Part) -> Result<String, String> {
        self.around.reveal(part)
    }

    fn seal(&self, plain: &str) -> Result<String, String> {
        self.around.seal(plain)
    }

    fn kv(&self, key: &str, namespace: Option<&str>, error_on_missing: bool) -> Result<Value, String> {
        self.around.kv(key, namespace, error_on_missing)
    }

    fn now_millis(&self) -> i64 {
        self.around.now_millis()
    }

    fn random_u64(&self) -> u64 {
        self.around.random_u64()
    }

    fn host(&self, name: &str, args: &[Value], named: &[(String, Value)]) -> Option<Result<Value, String>> {
        self.around.host(name, args, named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::ir::DependsOn;
    use serde_json::json;

    /// Knows the key `sizes`, and the inputs of a flow around.
    struct Plain;

    impl Scope for Plain {
        fn root(&self, name: &str) -> Option<Value> {
            (name == "inputs").then(|| Value::from_json(&json!({"outer": "o"})))
        }

        fn secret(&self, _: &str, _: Option<&str>) -> Result<SecretRef, String> {
            Err("there are no secrets here".to_owned())
        }

        fn reveal(&self, _: &Part) -> Result<String, String> {
            Err("there are no secrets here".to_owned())
        }

        fn seal(&self, plain: &str) -> Result<String, String> {
            Ok(format!("sealed {}", plain.len()))
        }

        fn kv(&self, _: &str, _: Option<&str>, _: bool) -> Result<Value, String> {
            Ok(Value::from_json(&json!(["s", null, 4])))
        }

        fn now_millis(&self) -> i64 {
            0
        }

        fn random_u64(&self) -> u64 {
            0
        }
    }

    fn input(id: &str, kind: &str, more: Json) -> InputDef {
        let mut fields = json!({"id": id, "type": kind});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    fn depends(on: &[&str], condition: Option<&str>) -> Json {
        let inputs = on.iter().map(|id| (*id).to_owned()).collect();
        json!({"depends_on": DependsOn { inputs, condition: condition.map(str::to_owned) }})
    }

    fn checked(defs: &[InputDef], given: Json) -> Result<Json, Vec<String>> {
        check(defs, &given, &Plain).map_err(|errors| errors.into_iter().map(|error| error.message).collect())
    }

    #[test]
    fn what_is_not_asked_for_is_left_out() {
        let defs = [
            input("last", "STRING", depends(&["folder"], None)),
            input("folder", "STRING", depends(&["kind"], Some("{{ inputs.kind == 'local' }}"))),
            input("kind", "STRING", json!({})),
        ];
        assert_eq!(checked(&defs, json!({"kind": "cloud", "folder": "/x"})), Ok(json!({"kind": "cloud"})));
        let all = json!({"kind": "local", "folder": "/x", "last": "y"});
        assert_eq!(checked(&defs, all.clone()), Ok(all));
        let missing = checked(&defs, json!({"kind": "local"})).unwrap_err();
        assert_eq!(missing.len(), 2, "both are asked for now: {missing:?}");
    }

    #[test]
    fn only_true_asks_for_an_input_and_a_broken_condition_is_an_error() {
        let with = |condition: &str| [input("a", "STRING", depends(&[], Some(condition)))];
        for word in ["{{ 'yes' }}", "{{ 1 }}", "yes", "{{ false }}"] {
            assert_eq!(checked(&with(word), json!({"a": "x"})), Ok(json!({})), "{word}");
        }
        assert_eq!(checked(&with("{{ inputs.outer == 'o' }}"), json!({"a": "x"})), Ok(json!({"a": "x"})));
        let broken = checked(&with("{{ inputs.nobody }}"), json!({"a": "x"})).unwrap_err();
        assert!(broken[0].starts_with("Invalid condition: "), "{broken:?}");
    }

    #[test]
    fn choices_are_computed_and_the_first_is_chosen() {
        let sizes = json!({"expression": "{{ kv('sizes') }}", "auto_select_first": true});
        let defs = [input("one", "SELECT", sizes.clone()), input("many", "MULTISELECT", sizes)];
        assert_eq!(checked(&defs, json!({})), Ok(json!({"one": "s", "many": ["s"]})));
        assert_eq!(
            checked(&defs, json!({"one": "4", "many": ["4", "s"]})),
            Ok(json!({"one": "4", "many": ["4", "s"]}))
        );
        assert_eq!(checked(&defs, json!({"one": "null"})), Err(vec!["`null` is not one of s, 4".to_owned()]));
        let shown = resolve(&defs, &json!({"many": ["s"]}), &Plain);
        assert_eq!(shown[0].1.values, Some(vec!["s".to_owned(), "4".to_owned()]));
        assert_eq!((shown[0].1.is_default, shown[1].1.is_default), (true, false));
        let wrong = [input("one", "SELECT", json!({"expression": "{{ 7 }}"}))];
        assert!(checked(&wrong, json!({"one": "7"})).is_err_and(|errors| errors[0].contains("must give a list")));
    }

    #[test]
    fn a_default_sees_what_it_depends_on() {
        let mut note = depends(&["who.name"], None);
        note["defaults"] = json!("for {{ inputs.who.name }} of {{ inputs.outer }}");
        let defs = [input("note", "STRING", note), input("who.name", "STRING", json!({}))];
        let given = json!({"who.name": "ada"});
        assert_eq!(checked(&defs, given), Ok(json!({"note": "for ada of o", "who": {"name": "ada"}})));
    }

    #[test]
    fn a_secret_must_match_too() {
        let defs = [input("s", "SECRET", json!({"validator": "[0-9]+"}))];
        assert!(checked(&defs, json!({"s": "12"})).is_ok());
        let refused = checked(&defs, json!({"s": "hush"})).unwrap_err();
        assert!(refused[0].contains("does not match") && !refused[0].contains("hush"), "{refused:?}");
    }
}
