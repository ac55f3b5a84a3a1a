//! Names of functions and filters, for refusing unknown ones while parsing and for suggesting the nearest.

use crate::template::SyntaxError;

/// Functions evaluated here, then those the engine may provide through `Scope::host`.
const FUNCTIONS: &[&str] = &[
    "block",
    "currentEachOutput",
    "dayOfMonth",
    "dayOfWeek",
    "fromJson",
    "hourOfDay",
    "id",
    "isWeekend",
    "json",
    "kv",
    "max",
    "min",
    "monthOfYear",
    "nanoId",
    "now",
    "randomInt",
    "range",
    "render",
    "renderOnce",
    "secret",
    "uuid",
    "appLink",
    "credential",
    "decrypt",
    "encrypt",
    "env",
    "errorLogs",
    "fetchContext",
    "fileEmpty",
    "fileExists",
    "fileSize",
    "fileURI",
    "fromIon",
    "http",
    "isDateAfter",
    "isDateBefore",
    "isDateBetween",
    "isDayWeekInMonth",
    "isFileEmpty",
    "isLastWorkingDay",
    "isPublicHoliday",
    "iterationOutput",
    "ksuid",
    "loopOutputs",
    "parentOutput",
    "printContext",
    "randomPort",
    "read",
    "subflow",
    "tasksWithState",
    "yaml",
];

const FILTERS: &[&str] = &[
    "abbreviate",
    "abs",
    "base64decode",
    "base64encode",
    "capitalize",
    "chunk",
    "className",
    "date",
    "dateAdd",
    "default",
    "distinct",
    "endsWith",
    "escapeChar",
    "first",
    "flatten",
    "indent",
    "join",
    "jq",
    "json",
    "keys",
    "last",
    "length",
    "lower",
    "md5",
    "merge",
    "nindent",
    "number",
    "numberFormat",
    "numberformat",
    "regexExtract",
    "regexMatch",
    "regexReplace",
    "replace",
    "reverse",
    "rsort",
    "sha1",
    "sha256",
    "sha512",
    "slice",
    "slugify",
    "sort",
    "split",
    "startsWith",
    "string",
    "substringAfter",
    "substringAfterLast",
    "substringBefore",
    "substringBeforeLast",
    "timestamp",
    "timestampMicro",
    "timestampMilli",
    "timestampNano",
    "title",
    "toIon",
    "toJson",
    "trim",
    "upper",
    "urldecode",
    "urlencode",
    "values",
    "yaml",
];

/// Whether a function of this name exists; the engine may still not provide it in a given place.
pub fn is_known_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// Whether a filter of this name exists.
pub fn is_known_filter(name: &str) -> bool {
    FILTERS.contains(&name)
}

/// The function whose name is nearest, when one is near enough to be a typing mistake.
pub fn suggest_function(name: &str) -> Option<&'static str> {
    nearest(name, FUNCTIONS)
}

/// The filter whose name is nearest, when one is near enough to be a typing mistake.
pub fn suggest_filter(name: &str) -> Option<&'static str> {
    nearest(name, FILTERS)
}

pub(crate) fn unknown(what: &str, name: &str, offset: usize, len: usize) -> SyntaxError {
    let suggestion = if what == "filter" { suggest_filter(name) } else { suggest_function(name) };
    let error = SyntaxError::new(format!("unknown {what} `{name}`"), offset, len);
    match suggestion {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    // Longer names are no typing mistakes, and measuring them would be quadratic work for nothing.
    if name.len() > 40 {
        return None;
    }
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let cost = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
