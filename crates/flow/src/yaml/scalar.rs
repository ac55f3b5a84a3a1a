//! Scalars: their type by the YAML 1.2 core schema, and the way from a place in their text back to the file.

use serde_json::Value as Json;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Single,
    Double,
    Literal,
    Folded,
}

impl From<saphyr_parser::ScalarStyle> for Style {
    fn from(style: saphyr_parser::ScalarStyle) -> Style {
        match style {
            saphyr_parser::ScalarStyle::Plain => Style::Plain,
            saphyr_parser::ScalarStyle::SingleQuoted => Style::Single,
            saphyr_parser::ScalarStyle::DoubleQuoted => Style::Double,
            saphyr_parser::ScalarStyle::Literal => Style::Literal,
            saphyr_parser::ScalarStyle::Folded => Style::Folded,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Typed {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text,
}

#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub text: String,
    pub style: Style,
    pub typed: Typed,
}

impl Scalar {
    pub fn new(text: String, style: Style, as_text: bool) -> Scalar {
        let typed = if style == Style::Plain && !as_text { resolve(&text) } else { Typed::Text };
        Scalar { text, style, typed }
    }

    /// A value whose tag says that it is more than text, quoted or not.
    pub fn tagged(text: String, style: Style) -> Scalar {
        let typed = resolve(&text);
        Scalar { text, style, typed }
    }

    /// Whether the value is what a tag of YAML's own calls it.
    pub fn is_what(&self, tag: &str) -> bool {
        match self.typed {
            Typed::Null => tag == "null",
            Typed::Bool(_) => tag == "bool",
            Typed::Int(_) => matches!(tag, "int" | "float"),
            Typed::Float(_) => tag == "float",
            Typed::Text => false,
        }
    }

    /// Whether it holds an expression, a tag or a comment.
    pub fn is_template(&self) -> bool {
        crate::templates::is_template(&self.text)
    }

    pub fn to_json(&self) -> Json {
        match self.typed {
            Typed::Null => Json::Null,
            Typed::Bool(value) => Json::Bool(value),
            Typed::Int(value) => Json::from(value),
            Typed::Float(value) => Json::from(value),
            Typed::Text => Json::String(self.text.clone()),
        }
    }

    /// `0777` is an octal number to some readers and 777 to others, hence neither here.
    pub fn has_leading_zero(&self) -> bool {
        let digits = self.text.trim_start_matches(['-', '+']);
        self.style == Style::Plain
            && digits.len() > 1
            && digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The place in the file of a range of bytes of the text. `at` is the scalar's own place.
    pub fn locate(&self, file: &str, at: &Range<usize>, range: Range<usize>) -> Range<usize> {
        // Where the raw text begins: after the quote, or with the line on which a block's first text stands.
        let base = match self.style {
            Style::Plain => at.start,
            Style::Single | Style::Double => at.start + 1,
            Style::Literal | Style::Folded => {
                file.get(..at.start).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
            }
        };
        let raw = file.get(base..at.end).unwrap_or("");
        let map = match self.style {
            Style::Plain | Style::Single | Style::Double => flow_map(raw, self.style),
            Style::Literal | Style::Folded => block_map(raw, &self.text),
        };
        let find = |offset: usize| {
            let last = map.partition_point(|(text, _)| *text <= offset);
            match last.checked_sub(1).map(|index| map[index]) {
                // Between two known characters the text runs in step with the file.
                Some((text, raw)) => base + raw + (offset - text),
                None => at.start,
            }
        };
        let start = find(range.start).clamp(at.start, at.end.max(at.start));
        let end = find(range.end).clamp(start, at.end.max(start));
        start..end
    }
}

/// Pairs (offset in the text, offset in the raw characters), one per character, for plain and quoted scalars.
fn flow_map(raw: &str, style: Style) -> Vec<(usize, usize)> {
    let mut map = Vec::new();
    let mut text = 0;
    let mut rest = raw.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
        let mut width = c.len_utf8();
        map.push((text, at));
        if blank(c) {
            let run: &str = raw[at..].split(|c| !blank(c)).next().unwrap_or("");
            let breaks = run.matches('\n').count();
            if breaks > 0 {
                // A fold: one break becomes a space, more become that many breaks but one.
                for _ in 1..run.chars().count() {
                    rest.next();
                }
                width = breaks.saturating_sub(1).max(1);
            }
        } else if c == '\'' && style == Style::Single {
            rest.next_if(|(_, next)| *next == '\'');
        } else if c == '\\' && style == Style::Double {
            width = escape_width(&mut rest);
        }
        text += width;
    }
    map.push((text, raw.len()));
    map
}

/// Consumes what follows a backslash and tells how many bytes it stands for.
fn escape_width(rest: &mut std::iter::Peekable<std::str::CharIndices<'_>>) -> usize {
    let digits = match rest.next().map(|(_, c)| c) {
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        Some('\n' | '\r') => {
            while rest.next_if(|(_, c)| matches!(c, ' ' | '\t' | '\r' | '\n')).is_some() {}
            return 0;
        }
        Some('N') => return '\u{85}'.len_utf8(),
        Some('_') => return '\u{a0}'.len_utf8(),
        Some('L') => return '\u{2028}'.len_utf8(),
        Some('P') => return '\u{2029}'.len_utf8(),
        _ => return 1,
    };
    let hex: String =
        std::iter::from_fn(|| rest.next_if(|(_, c)| c.is_ascii_hexdigit()).map(|(_, c)| c)).take(digits).collect();
    u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32).map_or(1, char::len_utf8)
}

/// The same for block scalars, one pair per line: each line of the file ends with a piece of the text.
fn block_map(raw: &str, text: &str) -> Vec<(usize, usize)> {
    let mut map = Vec::new();
    let mut cursor = 0;
    let mut line_at = 0;
    let lines: Vec<(usize, &str)> = raw
        .split_inclusive('\n')
        .map(|line| {
            let at = line_at;
            line_at += line.len();
            (at, line.trim_end_matches(['\n', '\r']))
        })
        .collect();
    let indent = lines
        .iter()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(_, line)| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    for (at, line) in lines {
        let content = line.get(indent..).unwrap_or("");
        if content.is_empty() {
            continue;
        }
        // Between two lines the text has line breaks or, folded, a space.
        while !text[cursor..].starts_with(content) && text[cursor..].starts_with(['\n', ' ']) {
            cursor += 1;
        }
        map.push((cursor, at + indent));
        if text[cursor..].starts_with(content) {
            cursor += content.len();
        }
    }
    map
}

/// The YAML 1.2 core schema. `yes`, `no` and `on` are text.
fn resolve(text: &str) -> Typed {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Typed::Null,
        "true" | "True" | "TRUE" => return Typed::Bool(true),
        "false" | "False" | "FALSE" => return Typed::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Typed::Text;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if digits.len() > 1 && digits.starts_with('0') {
            return Typed::Text;
        }
        return text.parse().map_or(Typed::Text, Typed::Int);
    }
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(number) = text.strip_prefix(prefix) {
            let plain = number.bytes().all(|byte| byte.is_ascii_alphanumeric());
            return i64::from_str_radix(number, radix).ok().filter(|_| plain).map_or(Typed::Text, Typed::Int);
        }
    }
    // The bytes are checked first because Rust also reads `inf` and `nan`.
    let number = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'-' | b'+'));
    let value = text.parse::<f64>().ok().filter(|value| number && value.is_finite());
    value.map_or(Typed::Text, Typed::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_schema() {
        assert_eq!(resolve("~"), Typed::Null);
        assert_eq!(resolve("True"), Typed::Bool(true));
        assert_eq!(resolve("-12"), Typed::Int(-12));
        assert_eq!(resolve("0x1F"), Typed::Int(31));
        assert_eq!(resolve("0o17"), Typed::Int(15));
        assert_eq!(resolve("1e3"), Typed::Float(1000.0));
        assert_eq!(resolve(".5"), Typed::Float(0.5));
        for text in ["yes", "no", "on", "0777", "1_000", "12:30", "2026-01-01", ".", "1e", "inf", ".nan", "0x", "1e999"]
        {
            assert_eq!(resolve(text), Typed::Text, "{text}");
        }
        assert_eq!(resolve("9223372036854775808"), Typed::Text);
    }
}
