//! Functions. Those that must not look at secrets come first; all others get revealed arguments.

use crate::eval::{Evaluator, missing};
use crate::filters::Args;
use crate::value::Value;
use crate::{EvalError, dates, ops};

/// Functions evaluated in this crate; every other known one belongs to the host.
const OWN: &[&str] = &[
    "dayOfMonth",
    "dayOfWeek",
    "fromIon",
    "fromJson",
    "hourOfDay",
    "id",
    "isWeekend",
    "json",
    "max",
    "min",
    "monthOfYear",
    "nanoId",
    "now",
    "randomInt",
    "range",
    "uuid",
];

/// Functions of this crate that hand their arguments on or ask the scope by a method of its own.
const SCOPED: &[&str] = &["currentEachOutput", "kv", "render", "renderOnce", "secret"];

/// Functions that the engine answers through [`crate::Scope::host`].
const HOSTED: &[&str] =
    &["decrypt", "encrypt", "errorLogs", "fileEmpty", "fileExists", "fileSize", "isFileEmpty", "read", "yaml"];

/// Whether this build provides the function; the other known names belong to hosts that do.
pub fn is_built_function(name: &str) -> bool {
    OWN.contains(&name) || SCOPED.contains(&name) || HOSTED.contains(&name)
}

const ALPHABET: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const TEXT_LENGTH_MAX: i64 = 1_000;

/// Functions whose arguments stay as they are: the ones that pass them on, and the ones outside this crate.
pub(crate) fn untouched(eval: &mut Evaluator, name: &str, args: &Args) -> Option<Result<Value, EvalError>> {
    match name {
        "secret" => Some(secret(eval, args)),
        "kv" => Some(kv(eval, args)),
        // Author text was rendered when it was reached; anything else is data, which is never rendered.
        "render" | "renderOnce" => Some(args.required(0, "template", name).cloned()),
        "currentEachOutput" => Some(current_each_output(eval, args)),
        own if OWN.contains(&own) => None,
        _ => Some(host(eval, name, args)),
    }
}

pub(crate) fn call(eval: &mut Evaluator, name: &str, args: &Args) -> Result<Value, EvalError> {
    match name {
        // Ion as Kestra writes it for plain data is JSON.
        "json" | "fromJson" | "fromIon" => from_json(args.required(0, "json", name)?),
        "now" => {
            let now = dates::instant(i128::from(eval.scope.now_millis()) * 1_000_000)?;
            dates::format_instant(&now, args, 0)
        }
        "dayOfWeek" | "dayOfMonth" | "monthOfYear" | "hourOfDay" | "isWeekend" => {
            dates::part(name, args.required(0, "date", name)?)
        }
        "range" => range(eval, args),
        "max" | "min" => extreme(name, args),
        "randomInt" => random_int(eval, args),
        "uuid" => Ok(uuid(eval)),
        "id" => Ok(random_text(eval, ALPHABET, 22)),
        "nanoId" => nano_id(eval, args),
        _ => Err(unavailable(name)),
    }
}

fn unavailable(name: &str) -> EvalError {
    EvalError::new("function", format!("function `{name}` is not available here"))
}

fn host(eval: &mut Evaluator, name: &str, args: &Args) -> Result<Value, EvalError> {
    match eval.scope.host(name, &args.positional, &args.named) {
        Some(result) => result.map_err(|message| EvalError::new("function", message)),
        None => Err(unavailable(name)),
    }
}

fn plain_text(args: &Args, position: usize, name: &str) -> Result<Option<String>, EvalError> {
    match args.value(position, name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) if value.is_tainted() => Err(EvalError::type_error(format!("`{name}` cannot itself be a secret"))),
        Some(value) => Ok(Some(value.to_text())),
    }
}

fn secret(eval: &mut Evaluator, args: &Args) -> Result<Value, EvalError> {
    let key =
        plain_text(args, 0, "key")?.ok_or_else(|| EvalError::new("secret", "`secret` needs the key of a secret"))?;
    let (namespace, subkey) = (plain_text(args, 1, "namespace")?, plain_text(args, 2, "subkey")?);
    let reference = eval.scope.secret(&key, namespace.as_deref(), subkey.as_deref());
    reference.map(Value::secret).map_err(|message| EvalError::new("secret", message))
}

fn kv(eval: &mut Evaluator, args: &Args) -> Result<Value, EvalError> {
    let key = plain_text(args, 0, "key")?.ok_or_else(|| EvalError::new("kv", "`kv` needs a key"))?;
    let namespace = plain_text(args, 1, "namespace")?;
    let error_on_missing = args.value(2, "errorOnMissing").is_none_or(ops::truthy);
    let value = eval.scope.kv(&key, namespace.as_deref(), error_on_missing);
    value.map_err(|message| EvalError::new("kv", message))
}

/// Walks the outputs of a step inside nested loops down to the iteration that asks.
fn current_each_output(eval: &mut Evaluator, args: &Args) -> Result<Value, EvalError> {
    let mut current = args.required(0, "outputs", "currentEachOutput")?.clone();
    let iteration = |run: &Value| run.get("taskrun").and_then(|run| run.get("value")).map(|value| value.to_text());
    if let Some(Value::List(parents)) = eval.scope.root("parents") {
        for key in parents.iter().rev().filter_map(iteration) {
            current = current.get(&key).ok_or_else(|| missing(&key))?;
        }
    }
    let own = eval.scope.root("taskrun").and_then(|run| run.get("value")).ok_or_else(|| missing("taskrun.value"))?;
    current.get(&own.to_text()).ok_or_else(|| missing(&own.to_text()))
}

fn from_json(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Str(text) => match serde_json::from_str(text) {
            Ok(json) => Ok(Value::from_json(&json)),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let message = format!("the text is not JSON (line {line}, column {column})");
                Err(EvalError::new("function", message))
            }
        },
        other => Ok(other.clone()),
    }
}

fn range(eval: &mut Evaluator, args: &Args) -> Result<Value, EvalError> {
    let (from, to) = (args.required(0, "start", "range")?, args.required(1, "end", "range")?);
    let step = args.int(2, "step", "range")?.unwrap_or(1);
    let budget = &mut *eval.budget;
    ops::range(from, to, i128::from(step), &mut |steps| crate::budget::spend(budget, steps))
}

fn extreme(name: &str, args: &Args) -> Result<Value, EvalError> {
    let values = match args.positional.as_slice() {
        [Value::List(items)] => items.as_slice(),
        several => several,
    };
    let mut best = args.required(0, "a", name).and_then(|_| {
        values.first().ok_or_else(|| EvalError::type_error(format!("`{name}` needs at least one value")))
    })?;
    for value in values.iter().skip(1) {
        let ordering = ops::order(value, best)?;
        if (name == "max" && ordering.is_gt()) || (name == "min" && ordering.is_lt()) {
            best = value;
        }
    }
    Ok(best.clone())
}

fn random_int(eval: &mut Evaluator, args: &Args) -> Result<Value, EvalError> {
    let lower = args.int(0, "lower", "randomInt")?.unwrap_or(0);
    let upper = args.int(1, "upper", "randomInt")?.unwrap_or(i64::from(i32::MAX));
    if upper <= lower {
        return Err(EvalError::type_error("`randomInt` needs an upper bound above the lower one"));
    }
    let width = (i128::from(upper) - i128::from(lower)) as u128;
    let offset = u128::from(eval.scope.random_u64()) % width;
    Ok(Value::Int(i128::from(lower) + offset as i128))
}

fn uuid(eval: &Evaluator) -> Value {
    let (high, low) = (eval.scope.random_u64(), eval.scope.random_u64());
    let high = (high & !0xF000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    let text = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    );
    Value::str(text)
}

fn nano_id(eval: &Evaluator, args: &Args) -> Result<Value, EvalError> {
    let length = args.int(0, "length", "nanoId")?.unwrap_or(21);
    if !(1..=TEXT_LENGTH_MAX).contains(&length) {
        return Err(EvalError::type_error(format!("`nanoId` makes 1 to {TEXT_LENGTH_MAX} characters")));
    }
    let default = format!("_-{ALPHABET}");
    let alphabet = args.text(1, "alphabet").filter(|text| !text.is_empty()).unwrap_or(default);
    Ok(random_text(eval, &alphabet, length as usize))
}

fn random_text(eval: &Evaluator, alphabet: &str, length: usize) -> Value {
    let letters: Vec<char> = alphabet.chars().collect();
    let pick = |_| letters[(eval.scope.random_u64() % letters.len() as u64) as usize];
    Value::str((0..length).map(pick).collect::<String>())
}
