//! Filters on texts.

use crate::filters::Args;
use crate::value::Value;
use crate::{Budget, EvalError, budget as limits, ops};

pub(super) fn apply(name: &str, input: &Value, args: &Args, budget: &mut Budget) -> Result<Value, EvalError> {
    let text = input.to_text();
    let text = text.as_str();
    let out = match name {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "trim" => text.trim().to_owned(),
        "capitalize" => capitalized(text),
        "title" => title(text),
        "slugify" => slug(text),
        "abbreviate" => abbreviate(text, args)?,
        "split" => return split(text, args, budget),
        "startsWith" => {
            return Ok(Value::Bool(text.starts_with(&args.required_text(0, "value", name)?)));
        }
        "endsWith" => {
            return Ok(Value::Bool(text.ends_with(&args.required_text(0, "value", name)?)));
        }
        "regexMatch" => return Ok(Value::Bool(pattern(args, name, budget)?.is_match(text))),
        "regexExtract" => return regex_extract(text, args, budget),
        "regexReplace" => {
            let replacement = args.required_text(1, "replacement", name)?;
            replace_one(text, &args.required_text(0, "regex", name)?, &replacement, true, budget)?
        }
        "indent" => indent(text, args, false, budget)?,
        "nindent" => indent(text, args, true, budget)?,
        "substringBefore" | "substringBeforeLast" | "substringAfter" | "substringAfterLast" => {
            substring(name, text, &args.required_text(0, "separator", name)?).to_owned()
        }
        _ => {
            return Err(EvalError::new("filter", format!("filter `{name}` is not available")));
        }
    };
    Ok(Value::str(out))
}

/// `replace` and `escapeChar` reach every text of a list or a map, and make texts of its other items.
pub(super) fn deep(name: &str, input: &Value, args: &Args, budget: &mut Budget) -> Result<Value, EvalError> {
    limits::spend(budget, 1)?;
    match input {
        Value::List(items) => {
            let items = items.iter().map(|item| deep(name, item, args, budget));
            items.collect::<Result<_, _>>().map(Value::list)
        }
        Value::Map(entries) | Value::HeaderMap(entries) => {
            let entries = entries.iter().map(|(key, item)| Ok((key.clone(), deep(name, item, args, budget)?)));
            entries.collect::<Result<_, EvalError>>().map(Value::map)
        }
        one if name == "replace" => replace(&one.to_text(), args, budget).map(Value::str),
        one => escape_char(&one.to_text(), args).map(Value::str),
    }
}

fn pattern(args: &Args, name: &str, budget: &mut Budget) -> Result<regex::Regex, EvalError> {
    limits::spend(budget, 20)?;
    ops::regex(&args.required_text(0, "regex", name)?)
}

/// The first match, or one of its groups; null when there is none.
fn regex_extract(text: &str, args: &Args, budget: &mut Budget) -> Result<Value, EvalError> {
    let regex = pattern(args, "regexExtract", budget)?;
    let group = args.int(1, "group", "regexExtract")?.unwrap_or(0);
    let group = usize::try_from(group).ok().filter(|group| *group < regex.captures_len());
    let group = group.ok_or_else(|| EvalError::type_error("the regular expression has no such group"))?;
    let found = regex.captures(text).and_then(|captures| captures.get(group).map(|found| Value::str(found.as_str())));
    Ok(found.unwrap_or(Value::Null))
}

/// The first letter that is no white space in upper case.
fn capitalized(text: &str) -> String {
    let trimmed = text.trim_start();
    let mut letters = trimmed.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    text[..text.len() - trimmed.len()].chars().chain(first).chain(letters).collect()
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fresh = true;
    for letter in text.chars() {
        if fresh {
            out.extend(letter.to_uppercase());
        } else {
            out.push(letter);
        }
        fresh = letter.is_whitespace();
    }
    out
}

/// Lower-case words joined by single dashes; accents of Latin letters are dropped, other letters vanish.
fn slug(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars().flat_map(char::to_lowercase) {
        match unaccented(letter) {
            plain if plain.is_ascii_alphanumeric() => out.push(plain),
            dash if (dash.is_whitespace() || matches!(dash, '-' | '_')) && !out.ends_with('-') => out.push('-'),
            _ => {}
        }
    }
    out.trim_matches('-').to_owned()
}

fn unaccented(letter: char) -> char {
    match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'è'..='ë' | 'ē' | 'ę' | 'ě' => 'e',
        'ì'..='ï' | 'ī' => 'i',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ō' | 'ő' => 'o',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'š' | 'ś' => 's',
        'ž' | 'ź' | 'ż' => 'z',
        'ď' => 'd',
        'ř' => 'r',
        'ť' => 't',
        other => other,
    }
}

fn abbreviate(text: &str, args: &Args) -> Result<String, EvalError> {
    let length = args.int(0, "length", "abbreviate")?.unwrap_or(0).max(0) as usize;
    // As in Kestra, a text of exactly that length is cut too, and one of three letters never.
    let letters = text.chars().count();
    if letters < length || letters <= 3 {
        return Ok(text.to_owned());
    }
    if length <= 3 {
        return Ok(text.chars().take(length).collect());
    }
    Ok(text.chars().take(length - 3).collect::<String>() + "...")
}

/// Splits as Java does: by a regular expression, empty texts at the end dropped.
fn split(text: &str, args: &Args, budget: &mut Budget) -> Result<Value, EvalError> {
    limits::spend(budget, 20)?;
    let delimiter = args.required_text(0, "delimiter", "split")?;
    let limit = args.int(1, "limit", "split")?.unwrap_or(0);
    let regex = ops::regex(&delimiter).or_else(|_| ops::regex(&regex::escape(&delimiter)))?;
    let mut pieces: Vec<&str> =
        if limit > 0 { regex.splitn(text, limit as usize).collect() } else { regex.split(text).collect() };
    if delimiter.is_empty() && pieces.first() == Some(&"") {
        pieces.remove(0);
    }
    while limit == 0 && pieces.len() > 1 && pieces.last() == Some(&"") {
        pieces.pop();
    }
    limits::spend(budget, pieces.len() as u64 / 8)?;
    Ok(Value::list(pieces.into_iter().map(Value::str).collect()))
}

/// `replace({'a': 'b'})`, in the order of the map; `regexp=true` reads the keys as regular expressions.
fn replace(text: &str, args: &Args, budget: &mut Budget) -> Result<String, EvalError> {
    let Value::Map(pairs) = args.required(0, "replace_pairs", "replace")? else {
        return Err(EvalError::type_error("`replace` needs a map such as `{'old': 'new'}`"));
    };
    let regexp = args.value(1, "regexp").is_some_and(ops::truthy);
    let mut out = text.to_owned();
    for (old, new) in pairs.iter() {
        limits::spend(budget, 1 + out.len() as u64 / 128)?;
        out = replace_one(&out, old, &new.to_text(), regexp, budget)?;
    }
    Ok(out)
}

fn replace_one(text: &str, old: &str, new: &str, regexp: bool, budget: &mut Budget) -> Result<String, EvalError> {
    limits::spend(budget, if regexp { 20 } else { 1 })?;
    let regex = ops::regex(&if regexp { old.to_owned() } else { regex::escape(old) })?;
    let new = if regexp { &java_replacement(new) } else { new };
    let mut out = String::new();
    let mut from = 0;
    for found in regex.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&text[from..whole.start()]);
        if regexp {
            found.expand(new, &mut out);
        } else {
            out.push_str(new);
        }
        from = whole.end();
        if out.len() > budget.output_bytes {
            return Err(limits::too_large());
        }
    }
    out.push_str(&text[from..]);
    Ok(out)
}

/// Java's `$1` and `\\$` in the words of our engine, which would read `$1st` as a group called `1st`.
fn java_replacement(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('$') => out.push_str("$$"),
                other => out.extend(other),
            },
            '$' if letters.peek().is_some_and(char::is_ascii_digit) => {
                out.push_str("${");
                while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                    out.push(digit);
                }
                out.push('}');
            }
            other => out.push(other),
        }
    }
    out
}

fn escape_char(text: &str, args: &Args) -> Result<String, EvalError> {
    match args.required_text(0, "type", "escapeChar")?.to_ascii_lowercase().as_str() {
        "single" => Ok(text.replace('\'', "\\'")),
        "double" => Ok(text.replace('"', "\\\"")),
        "shell" => Ok(text.replace('\'', "'\\''")),
        _ => Err(EvalError::type_error("`escapeChar` takes `single`, `double` or `shell`")),
    }
}

/// `indent` leaves the first line alone; `nindent` starts a new line and indents all.
fn indent(text: &str, args: &Args, leading: bool, budget: &Budget) -> Result<String, EvalError> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let amount = args.int(0, "amount", "indent")?.unwrap_or(0);
    let amount = usize::try_from(amount).map_err(|_| EvalError::type_error("`indent` needs an amount of 0 or more"))?;
    let prefix = args.text(1, "prefix").unwrap_or_else(|| " ".to_owned());
    let lines = text.matches(['\n', '\r']).count() + 2;
    let added = amount.checked_mul(prefix.len()).and_then(|width| width.checked_mul(lines));
    if added.is_none_or(|added| added > budget.output_bytes) {
        return Err(limits::too_large());
    }
    let end = ["\r\n", "\n\r", "\n", "\r"].into_iter().find(|end| text.contains(end)).unwrap_or("\n");
    let break_ = format!("{end}{}", prefix.repeat(amount));
    let indented = text.replace(end, &break_);
    Ok(if leading { break_ + &indented } else { indented })
}

fn substring<'a>(name: &str, text: &'a str, separator: &str) -> &'a str {
    let split = if name.ends_with("Last") { text.rsplit_once(separator) } else { text.split_once(separator) };
    match (split, name.starts_with("substringBefore")) {
        (Some((before, _)), true) => before,
        (Some((_, after)), false) => after,
        (None, true) => text,
        (None, false) => "",
    }
}
