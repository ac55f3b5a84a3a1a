//! Functions. Those that must not look at secrets come first; all others get revealed arguments.

use crate::eval::Evaluator;
use crate::filters::Args;
use crate::value::Value;
use crate::{EvalError, dates, ion, ops, taint};

mod context;

/// Functions evaluated in this crate; every other known one belongs to the host.
const OWN: &[&str] = &[
    "dayOfMonth",
    "dayOfWeek",
    "fromIon",
    "fromJson",
    "hourOfDay",
    "id",
    "isDateAfter",
    "isDateBefore",
    "isDateBetween",
    "isDayWeekInMonth",
    "isLastWorkingDay",
    "isWeekend",
    "json",
    "ksuid",
    "max",
    "min",
    "monthOfYear",
    "nanoId",
    "now",
    "randomInt",
    "randomPort",
    "range",
    "uuid",
];

/// Functions of this crate that hand their arguments on or ask the scope by a method of its own.
const SCOPED: &[&str] = &[
    "block",
    "currentEachOutput",
    "env",
    "fetchContext",
    "iterationOutput",
    "kv",
    "loopOutputs",
    "parentOutput",
    "printContext",
    "render",
    "renderOnce",
    "secret",
    "tasksWithState",
];

/// Functions that the engine answers through [`crate::Scope::host`].
const HOSTED: &[&str] = &[
    "decrypt",
    "encrypt",
    "errorLogs",
    "fileEmpty",
    "fileExists",
    "fileSize",
    "fileURI",
    "http",
    "isFileEmpty",
    "isPublicHoliday",
    "read",
    "subflow",
    "yaml",
];

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
        "render" | "renderOnce" => Some(args.required(0, "toRender", name).cloned()),
        "block" => Some(args.required_text(0, "name", name).and_then(|name| eval.block(&name))),
        own if SCOPED.contains(&own) => Some(context::call(eval.scope, name, args)),
        own if OWN.contains(&own) => None,
        _ => Some(host(eval, name, args)),
    }
}

pub(crate) fn call(eval: &mut Evaluator, name: &str, args: &Args) -> Result<Value, EvalError> {
    match name {
        "fromIon" => match args.required(0, "ion", name)? {
            Value::Str(text) => ion::parse(text),
            other => Ok(other.clone()),
        },
        "json" | "fromJson" => from_json(args.required(0, "json", name)?),
        "now" => {
            let now = dates::instant(i128::from(eval.scope.now_millis()) * 1_000_000)?;
            dates::format_instant(&now, args, 0)
        }
        "dayOfWeek" | "dayOfMonth" | "monthOfYear" | "hourOfDay" | "isWeekend" | "isDayWeekInMonth"
        | "isLastWorkingDay" => dates::part(name, args),
        "isDateAfter" | "isDateBefore" | "isDateBetween" => dates::compare(name, args),
        "range" => range(eval, args),
        "max" | "min" => extreme(name, args),
        "randomInt" => random_int(eval, args),
        // No port is opened to find a free one; these are the ones that systems leave to such uses.
        "randomPort" => Ok(Value::Int(i128::from(49_152 + eval.scope.random_u64() % 16_384))),
        "ksuid" => Ok(ksuid(eval)),
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
    let reference = eval.scope.secret(&key, namespace.as_deref());
    let whole = reference.map(Value::secret).map_err(|message| EvalError::new("secret", message))?;
    let Some(subkey) = subkey else { return Ok(whole) };
    let wrong = |why: &str| EvalError::new("secret", format!("the secret '{key}' {why}"));
    let text = taint::reveal(&whole, eval.scope)?.to_text();
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|_| wrong("is not JSON, so it has no subkey"))?;
    let part = Value::from_json(&json).get(&subkey).ok_or_else(|| wrong(&format!("has no subkey '{subkey}'")))?;
    taint::seal(&part, eval.scope)
}

fn kv(eval: &mut Evaluator, args: &Args) -> Result<Value, EvalError> {
    let key = plain_text(args, 0, "key")?.ok_or_else(|| EvalError::new("kv", "`kv` needs a key"))?;
    let namespace = plain_text(args, 1, "namespace")?;
    let error_on_missing = args.value(2, "errorOnMissing").is_none_or(ops::truthy);
    let value = eval.scope.kv(&key, namespace.as_deref(), error_on_missing);
    value.map_err(|message| EvalError::new("kv", message))
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
    let step = args.int(2, "increment", "range")?.unwrap_or(1);
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
    if upper < lower {
        return Err(EvalError::type_error("`randomInt` needs an upper bound that is not below the lower one"));
    }
    let width = ((i128::from(upper) - i128::from(lower)) as u128).max(1);
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

/// Twenty bytes as 27 letters that sort by time: seconds since May 2014, then chance.
fn ksuid(eval: &Evaluator) -> Value {
    let seconds = u32::try_from(eval.scope.now_millis() / 1_000 - 1_400_000_000).unwrap_or(0);
    let mut bytes = seconds.to_be_bytes().to_vec();
    bytes.extend(eval.scope.random_u64().to_be_bytes());
    bytes.extend(eval.scope.random_u64().to_be_bytes());
    let mut letters = vec![b'0'; 27];
    for place in letters.iter_mut().rev() {
        let mut remainder = 0u32;
        for byte in &mut bytes {
            let number = remainder * 256 + u32::from(*byte);
            *byte = (number / 62) as u8;
            remainder = number % 62;
        }
        *place = ALPHABET.as_bytes()[remainder as usize];
    }
    Value::str(String::from_utf8_lossy(&letters))
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
