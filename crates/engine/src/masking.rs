//! Takes secrets out of what came back, in the forms in which a far side repeats them.
//!
//! | form | found as |
//! |---|---|
//! | the text itself, in values, names of members and whole numbers | it stands there |
//! | percent-encoded, form-encoded, escaped for JSON | the encoded text stands there |
//! | base64, also of something longer (`Basic` credentials are `user:password`) | the characters that the secret alone decides, in each of its three positions; the whole word around them is hidden |
//!
//! The text itself becomes the hole it was filled into, so that a later step may send it on. Another form is sealed as
//! it came: to fill a hole with the plain text where its base64 was would send something else, and send it bare.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use semel_expr::{Part, Tainted, Value};
use std::sync::Arc;

/// A secret part of a request, and the text it was filled with.
pub type Mask = (Part, String);

/// What secrets look like in an answer.
pub struct Masker<'a> {
    forms: Vec<Form>,
    /// Encrypts a form that is not the secret itself; `None` if nothing can.
    seal: &'a dyn Fn(&str) -> Option<String>,
}

struct Form {
    text: String,
    /// What to put there; without one the found text is sealed.
    hole: Option<Part>,
    /// Part of a longer word of base64 that must go with it.
    in_word: bool,
}

/// Shorter texts would hit ordinary ones; a sealed value may be as plain as `true`.
fn echo_bytes_min(part: &Part) -> usize {
    match part {
        Part::Sealed(_) => 8,
        Part::Secret(_) | Part::Text(_) => 4,
    }
}

/// From here on, base64 of a secret is not found by chance.
const ENCODED_BYTES_MIN: usize = 8;

impl<'a> Masker<'a> {
    /// Finds the texts themselves only: for what must come out the same each time.
    pub fn of_texts(masks: &[Mask]) -> Masker<'a> {
        Masker { forms: plain_forms(masks), seal: &|_| None }
    }

    pub fn new(masks: &[Mask], seal: &'a dyn Fn(&str) -> Option<String>) -> Masker<'a> {
        let mut forms = plain_forms(masks);
        for (part, text) in masks {
            for text in semel_expr::texts_in_sealed(text) {
                if text.len() >= ENCODED_BYTES_MIN {
                    let text_itself = forms.iter().any(|form| form.text == text);
                    forms.extend((!text_itself).then(|| Form { text: text.clone(), hole: None, in_word: false }));
                    forms.extend(base64_cores(text.as_bytes()).map(|text| Form { text, hole: None, in_word: true }));
                }
                if text.len() >= echo_bytes_min(part) {
                    let encoded = encoded(&text).filter(|form| *form != text);
                    forms.extend(encoded.map(|text| Form { text, hole: None, in_word: false }));
                }
            }
        }
        Masker { forms, seal }
    }

    /// The value with holes where secrets were.
    pub fn hide(&self, value: &Value) -> Value {
        if self.forms.is_empty() {
            return value.clone();
        }
        match value {
            Value::Str(text) => self.hide_text(text).unwrap_or_else(|| value.clone()),
            Value::Int(_) | Value::Float(_) => self.hide_text(&value.to_text()).unwrap_or_else(|| value.clone()),
            Value::List(items) => Value::list(items.iter().map(|item| self.hide(item)).collect()),
            Value::Map(map) => {
                Value::map(map.iter().map(|(name, item)| (self.masked(name), self.hide(item))).collect())
            }
            other => other.clone(),
        }
    }

    /// The text with a mask where secrets were.
    pub fn masked(&self, text: &str) -> String {
        self.hide_text(text).map_or_else(|| text.to_owned(), |hidden| hidden.to_text())
    }

    /// `None` when there is nothing to hide.
    fn hide_text(&self, text: &str) -> Option<Value> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return None;
        }
        let mut parts = Vec::new();
        let mut at = 0;
        for (start, end, hole) in spans {
            if start > at {
                parts.push(Part::Text(text[at..start].to_owned()));
            }
            let found = &text[start..end];
            // What cannot be sealed is not kept at all.
            parts.push(hole.cloned().or_else(|| (self.seal)(found).map(Part::Sealed)).unwrap_or_else(gone));
            at = end;
        }
        if at < text.len() {
            parts.push(Part::Text(text[at..].to_owned()));
        }
        Some(Value::Tainted(Arc::new(Tainted { parts })))
    }

    /// Where secrets are, in order, without overlaps; those that overlap are hidden as one.
    fn spans(&self, text: &str) -> Vec<(usize, usize, Option<&Part>)> {
        let mut found: Vec<(usize, usize, Option<&Part>)> = Vec::new();
        for form in &self.forms {
            for (start, _) in text.match_indices(&form.text) {
                let end = start + form.text.len();
                let (start, end) = if form.in_word { word_around(text, start, end) } else { (start, end) };
                found.push((start, end, form.hole.as_ref()));
            }
        }
        found.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
        let mut out: Vec<(usize, usize, Option<&Part>)> = Vec::new();
        for (start, end, hole) in found {
            match out.last_mut() {
                Some(last) if start < last.1 => {
                    // The longer one says what was there; two that cross are neither.
                    if end > last.1 {
                        *last = (last.0, end, None);
                    }
                }
                _ => out.push((start, end, hole)),
            }
        }
        out
    }
}

fn gone() -> Part {
    Part::Text("***".to_owned())
}

/// The longest first, so that a secret inside another does not cut it.
fn plain_forms(masks: &[Mask]) -> Vec<Form> {
    let long = masks.iter().filter(|(part, text)| text.len() >= echo_bytes_min(part));
    let mut forms: Vec<Form> =
        long.map(|(part, text)| Form { text: text.clone(), hole: Some(part.clone()), in_word: false }).collect();
    forms.sort_by_key(|form| std::cmp::Reverse(form.text.len()));
    forms
}

/// The characters of base64 that these bytes decide alone, wherever they begin in a longer text.
fn base64_cores(bytes: &[u8]) -> impl Iterator<Item = String> {
    let engines = [STANDARD, URL_SAFE];
    let cores = engines.into_iter().flat_map(move |engine| (0..3usize).map(move |shift| (engine.clone(), shift)));
    let bytes = bytes.to_vec();
    cores
        .map(move |(engine, shift)| {
            let encoded = engine.encode([&b"\0\0"[..shift], &bytes].concat());
            // A character holds six bits: the first ones share theirs with what stands before, the last with what follows.
            let first = (shift * 8).div_ceil(6);
            let last = (shift + bytes.len()) * 8 / 6;
            encoded[first..last].to_owned()
        })
        .filter(|core| core.len() >= ENCODED_BYTES_MIN)
}

/// The whole run of base64 characters around a place.
fn word_around(text: &str, start: usize, end: usize) -> (usize, usize) {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    let bytes = text.as_bytes();
    let before = bytes[..start].iter().rev().take_while(|byte| inside(byte)).count();
    let after = bytes[end..].iter().take_while(|byte| inside(byte)).count();
    (start - before, end + after)
}

/// The text as URLs, forms and JSON write it.
fn encoded(text: &str) -> impl Iterator<Item = String> {
    let json = serde_json::to_string(text).unwrap_or_default();
    let json = json.trim_matches('"').to_owned();
    let ascii: String = json.chars().map(json_ascii).collect();
    [
        percent(text, "%20", true),
        percent(text, "%20", false),
        percent(text, "+", true),
        json.replace('/', "\\/"),
        ascii,
        json,
    ]
    .into_iter()
}

fn json_ascii(c: char) -> String {
    if c.is_ascii() {
        return c.to_string();
    }
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

fn percent(text: &str, blank: &str, upper: bool) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        b' ' => blank.to_owned(),
        _ if upper => format!("%{byte:02X}"),
        _ => format!("%{byte:02x}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_expr::SecretRef;
    use serde_json::json;

    const SECRET: &str = "p@ss \"wörd\"/1+2";

    fn masks(text: &str) -> Vec<Mask> {
        vec![(Part::Secret(SecretRef { name: "S".into(), version: 1 }), text.to_owned())]
    }

    /// Sealed so that a test can look inside.
    fn hidden(text: &str, echoed: &str) -> Value {
        let seal = |found: &str| Some(found.chars().rev().collect::<String>());
        Masker::new(&masks(text), &seal).hide(&Value::str(echoed))
    }

    fn parts(value: &Value) -> Vec<Part> {
        match value {
            Value::Tainted(tainted) => tainted.parts.clone(),
            other => panic!("{other:?} has no holes"),
        }
    }

    #[test]
    fn the_text_itself_becomes_its_hole() {
        let found = parts(&hidden(SECRET, &format!("a {SECRET} b")));
        assert_eq!(found, [Part::Text("a ".into()), masks(SECRET)[0].0.clone(), Part::Text(" b".into())]);
        assert_eq!(hidden(SECRET, "nothing here"), Value::str("nothing here"));
    }

    #[test]
    fn every_form_a_far_side_repeats_it_in_is_sealed_as_it_came() {
        let basic = |user: &str| STANDARD.encode(format!("{user}:{SECRET}"));
        let query = "p%40ss%20%22w%C3%B6rd%22%2F1%2B2";
        for form in [
            STANDARD.encode(SECRET),
            URL_SAFE.encode(SECRET),
            basic(""),
            basic("u"),
            basic("us"),
            basic("use"),
            STANDARD.encode(format!("before {SECRET} and after")),
            query.to_owned(),
            query.to_lowercase(),
            query.replace("%20", "+"),
            "p@ss \\\"wörd\\\"/1+2".to_owned(),
            "p@ss \\\"wörd\\\"\\/1+2".to_owned(),
            "p@ss \\\"w\\u00f6rd\\\"/1+2".to_owned(),
        ] {
            let value = hidden(SECRET, &format!("Basic {form}, that was it"));
            assert_eq!(value.to_text().matches("***").count(), 1, "{form}: {}", value.to_text());
            let sealed: String = form.chars().rev().collect();
            assert_eq!(parts(&value)[1], Part::Sealed(sealed), "{form}");
        }
    }

    #[test]
    fn names_of_members_and_numbers_are_looked_at() {
        let digits = "4111111111111111";
        let echoed = Value::from_json(&json!({digits: {"card": 4111111111111111u64, "list": [digits, 4111]}}));
        let shown = Masker::new(&masks(digits), &|_| None).hide(&echoed).to_masked_json().to_string();
        assert!(!shown.contains(digits) && shown.contains("4111]"), "{shown}");
    }

    #[test]
    fn what_cannot_be_sealed_is_dropped() {
        let masker = Masker::new(&masks(SECRET), &|_| None);
        let value = masker.hide(&Value::str(format!("Basic {}", STANDARD.encode(format!("u:{SECRET}")))));
        assert_eq!(value.to_stored().to_string().matches("***").count(), 1);
        assert!(!value.to_stored().to_string().contains(&STANDARD.encode(SECRET)[..8]));
    }

    #[test]
    fn secrets_that_overlap_are_hidden_as_one() {
        let mut two = masks("abcdefgh");
        two.push((Part::Secret(SecretRef { name: "T".into(), version: 1 }), "efghijkl".into()));
        let value = Masker::new(&two, &|found| Some(format!("<{found}>"))).hide(&Value::str("-abcdefghijkl-"));
        assert_eq!(parts(&value)[1], Part::Sealed("<abcdefghijkl>".into()));
        // A shorter secret inside a longer one does not break it up.
        let mut nested = masks("abcd");
        nested.push((Part::Secret(SecretRef { name: "T".into(), version: 1 }), "xabcdx".into()));
        let value = Masker::of_texts(&nested).hide(&Value::str("xabcdx"));
        assert_eq!(parts(&value), [nested[1].0.clone()]);
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in ["abcd", "Basic dXNlcjpub3RoaW5n", "true", "p%40ss", "12345678"] {
            assert_eq!(hidden("hunter2-secret", text), Value::str(text));
        }
        assert_eq!(hidden("no", "no, not this short"), Value::str("no, not this short"));
    }
}
