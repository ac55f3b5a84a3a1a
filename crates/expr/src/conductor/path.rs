//! JSONPath as definitions use it.
//!
//! Nearly all paths are names and positions. Those are walked here, on values that may have holes, and a name may hold
//! whatever a dot or a bracket does not end. From the first step on that may find several values (`*`, `..`, slices,
//! filters) the rest goes to a library, which wants plain JSON: where there are holes they are filled for it, and what
//! it finds is sealed. Three functions of Jayway's are common at the end of a path and are known here.
//!
//! What is refused, by being null: several `..` in one path, paths that search inside a filter, and `$` inside a
//! filter. Each of them can make a short path take time without bound.

use serde_json::Value as Json;
use serde_json_path::JsonPath;

use crate::budget::spend;
use crate::taint;
use crate::value::Value;
use crate::{Budget, EvalError, Scope};

const PATH_BYTES_MAX: usize = 2_048;
/// Brackets and parentheses inside each other: the library's parser recurses on them.
const NESTING_MAX: usize = 8;

#[derive(Debug, PartialEq)]
pub(super) struct Path {
    /// The first name: `workflow`, or a task's.
    pub root: String,
    steps: Vec<Step>,
    /// What is left from the first step on that may find several values, in the library's words.
    search: Option<String>,
    function: Option<Function>,
}

#[derive(Debug, PartialEq)]
enum Step {
    Name(String),
    /// Negative: from the end.
    At(i64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Length,
    Keys,
    Min,
    Max,
    Sum,
    Avg,
    First,
    Last,
}

impl Function {
    fn parse(word: &str) -> Option<Function> {
        Some(match word {
            "length" | "size" => Function::Length,
            "keys" => Function::Keys,
            "min" => Function::Min,
            "max" => Function::Max,
            "sum" => Function::Sum,
            "avg" => Function::Avg,
            "first" => Function::First,
            "last" => Function::Last,
            _ => return None,
        })
    }
}

/// One step as it was read.
enum Read {
    Step(Step),
    Search(String),
    Function(Function),
}

impl Path {
    /// `None`: it can lead nowhere.
    pub fn parse(text: &str) -> Option<Path> {
        if text.len() > PATH_BYTES_MAX || nesting(text) > NESTING_MAX {
            return None;
        }
        let mut rest = match text.strip_prefix('$') {
            Some(rest) if rest.starts_with(['.', '[']) => rest.to_owned(),
            _ if text.starts_with('[') => text.to_owned(),
            _ => format!(".{text}"),
        };
        let mut path = Path { root: String::new(), steps: Vec::new(), search: None, function: None };
        let mut has_root = false;
        while !rest.is_empty() {
            if path.function.is_some() {
                return None;
            }
            let (read, left) = step(&rest)?;
            match (read, has_root) {
                (Read::Step(Step::Name(name)), false) => {
                    path.root = name;
                    has_root = true;
                }
                (_, false) => return None,
                (Read::Function(function), true) => path.function = Some(function),
                (Read::Search(text), true) => path.search.get_or_insert_with(|| "$".to_owned()).push_str(&text),
                (Read::Step(step), true) => match &mut path.search {
                    Some(search) => search.push_str(&spelled(&step)),
                    None => path.steps.push(step),
                },
            }
            rest = left.to_owned();
        }
        let within = path.search.as_deref().is_none_or(is_bounded);
        (has_root && within).then_some(path)
    }

    /// What a path finds where there is nothing: a search finds an empty list.
    pub fn nothing(&self) -> Value {
        match (&self.search, self.function) {
            (Some(_), None) => Value::list(Vec::new()),
            (Some(_), Some(Function::Length)) => Value::Int(0),
            _ => Value::Null,
        }
    }

    pub fn walk(&self, root: &Value, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, EvalError> {
        let mut value = root.clone();
        for step in &self.steps {
            spend(budget, 1)?;
            value = match &value {
                Value::Tainted(_) => {
                    let revealed = taint::reveal(&value, scope)?;
                    match taken(&revealed, step) {
                        Some(found) => taint::seal(&found, scope)?,
                        None => return Ok(self.nothing()),
                    }
                }
                plain => match taken(plain, step) {
                    Some(found) => found,
                    None => return Ok(self.nothing()),
                },
            };
        }
        if self.search.is_none() && self.function.is_none() {
            return Ok(value);
        }
        spend(budget, (value.weight() / 16) as u64)?;
        let tainted = value.is_tainted();
        let plain = taint::reveal(&value, scope)?;
        let found = match &self.search {
            Some(search) => searched(search, &plain),
            None => plain,
        };
        let found = self.function.map_or(found.clone(), |function| called(function, &found));
        if tainted { taint::seal(&found, scope) } else { Ok(found) }
    }
}

fn nesting(text: &str) -> usize {
    let mut depth: usize = 0;
    let mut most = 0;
    for byte in text.bytes() {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// The first step of what is left of a path, and the rest.
fn step(rest: &str) -> Option<(Read, &str)> {
    if let Some(inner) = rest.strip_prefix("..") {
        if inner.starts_with('[') {
            let (text, left) = bracket(inner)?;
            return Some((Read::Search(format!("..{text}")), left));
        }
        let (name, left) = name(inner);
        let text = if name == "*" { "..*".to_owned() } else { format!("..{}", quoted(name)) };
        return (!name.is_empty()).then_some((Read::Search(text), left));
    }
    if rest.starts_with('[') {
        let (text, left) = bracket(rest)?;
        let inner = text[1..text.len() - 1].trim();
        let read = if let Some(name) = unquoted(inner) {
            Read::Step(Step::Name(name))
        } else if let Ok(at) = inner.parse::<i64>() {
            Read::Step(Step::At(at))
        } else {
            Read::Search(text.to_owned())
        };
        return Some((read, left));
    }
    let (name, left) = name(rest.strip_prefix('.')?);
    let read = match name.strip_suffix("()") {
        Some(word) => Read::Function(Function::parse(word)?),
        None if name.is_empty() => return None,
        None if name == "*" => Read::Search("[*]".to_owned()),
        None => Read::Step(Step::Name(name.to_owned())),
    };
    Some((read, left))
}

fn name(text: &str) -> (&str, &str) {
    text.split_at(text.find(['.', '[']).unwrap_or(text.len()))
}

/// From `[` to the bracket that closes it; those inside quotes do not count.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(text.split_at(at + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// The name inside one pair of quotes.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut name = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?),
            c if c == quote => return None,
            c => name.push(c),
        }
    }
    Some(name)
}

fn quoted(name: &str) -> String {
    format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn spelled(step: &Step) -> String {
    match step {
        Step::Name(name) => quoted(name),
        Step::At(at) => format!("[{at}]"),
    }
}

/// Whether the time a search takes grows only with the value it searches.
fn is_bounded(search: &str) -> bool {
    let filters: usize = search.matches('?').count();
    let inside: &str = search.find('?').map_or("", |at| &search[at..]);
    let searches_inside = inside.contains("..") || inside.contains("@.*") || inside.contains("[*]");
    search.matches("..").count() <= 1 && filters <= 1 && !searches_inside && !inside.contains('$')
}

fn taken(value: &Value, step: &Step) -> Option<Value> {
    match (value, step) {
        (Value::Map(_) | Value::HeaderMap(_), Step::Name(name)) => value.get(name),
        (Value::List(items), Step::At(at)) => {
            let place = if *at < 0 { i64::try_from(items.len()).ok()?.checked_add(*at)? } else { *at };
            items.get(usize::try_from(place).ok()?).cloned()
        }
        _ => None,
    }
}

fn searched(search: &str, value: &Value) -> Value {
    let Ok(path) = JsonPath::parse(search) else { return Value::Null };
    let json: Json = value.to_masked_json();
    Value::list(path.query(&json).all().into_iter().map(Value::from_json).collect())
}

fn called(function: Function, value: &Value) -> Value {
    let items: &[Value] = match value {
        Value::List(items) => items,
        _ => &[],
    };
    let numbers = || -> Option<Vec<f64>> {
        let number = |item: &Value| match item {
            Value::Int(whole) => Some(*whole as f64),
            Value::Float(float) => Some(*float),
            _ => None,
        };
        items.iter().map(number).collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())
    };
    let number = |found: Option<f64>| found.map_or(Value::Null, Value::Float);
    match (function, value) {
        (Function::Length, Value::List(items)) => Value::Int(items.len() as i128),
        (Function::Length | Function::Keys, Value::Map(entries) | Value::HeaderMap(entries)) => match function {
            Function::Length => Value::Int(entries.len() as i128),
            _ => Value::list(entries.keys().map(Value::str).collect()),
        },
        (Function::Length | Function::Keys, _) => Value::Null,
        (Function::First, _) => items.first().cloned().unwrap_or(Value::Null),
        (Function::Last, _) => items.last().cloned().unwrap_or(Value::Null),
        (Function::Min, _) => number(numbers().and_then(|all| all.into_iter().reduce(f64::min))),
        (Function::Max, _) => number(numbers().and_then(|all| all.into_iter().reduce(f64::max))),
        (Function::Sum, _) => number(numbers().map(|all| all.iter().sum())),
        (Function::Avg, _) => number(numbers().map(|all| all.iter().sum::<f64>() / all.len() as f64)),
    }
}
