//! Cuts template text into literal text, `{{ prints }}` and `{% tags %}`, and those into tokens.

use crate::template::SyntaxError;

/// A part of the template between two delimiters.
#[derive(Debug)]
pub(crate) enum Segment {
    Text(String),
    Print { tokens: Vec<Token>, offset: usize },
    Tag { tokens: Vec<Token>, offset: usize },
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub offset: usize,
    pub len: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Word(Box<str>),
    Text(Box<str>),
    Int(i128),
    Float(f64),
    Symbol(&'static str),
    /// After the last token, so that errors there have a position.
    End,
}

/// Longest first, so that `???` is not read as `??` and `?`.
const SYMBOLS: &[&str] = &[
    "???", "??", "==", "!=", "<=", ">=", "&&", "||", "..", "<", ">", "+", "-", "*", "/", "%", "|", "~", "?", ":", "(",
    ")", "[", "]", "{", "}", ",", ".", "=", "!",
];

pub(crate) fn segments(source: &str) -> Result<Vec<Segment>, SyntaxError> {
    let mut lexer = Lexer { source, position: 0, trim_next: false, out: Vec::new() };
    lexer.run()?;
    Ok(lexer.out)
}

struct Lexer<'a> {
    source: &'a str,
    position: usize,
    /// The delimiter just passed ended with `-`: white space after it is dropped.
    trim_next: bool,
    out: Vec<Segment>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.position..).unwrap_or("")
    }

    fn run(&mut self) -> Result<(), SyntaxError> {
        while let Some(open) = find_open(self.rest()) {
            let start = self.position + open;
            let inner = start + 2;
            let trims = self.source[inner..].starts_with('-');
            self.text(start, trims);
            self.position = if trims { inner + 1 } else { inner };
            match self.source.as_bytes()[start + 1] {
                b'#' => self.comment(start)?,
                b'%' => self.tag(start)?,
                _ => {
                    let tokens = self.tokens("}}", start)?;
                    self.out.push(Segment::Print { tokens, offset: start });
                }
            }
        }
        self.text(self.source.len(), false);
        Ok(())
    }

    fn text(&mut self, end: usize, trim_end: bool) {
        let mut text = &self.source[self.position..end];
        if std::mem::take(&mut self.trim_next) {
            text = text.trim_start();
        }
        if trim_end {
            text = text.trim_end();
        }
        self.push_text(text);
        self.position = end;
    }

    fn push_text(&mut self, text: &str) {
        match self.out.last_mut() {
            _ if text.is_empty() => {}
            Some(Segment::Text(last)) => last.push_str(text),
            _ => self.out.push(Segment::Text(text.to_owned())),
        }
    }

    fn comment(&mut self, start: usize) -> Result<(), SyntaxError> {
        let Some(end) = self.rest().find("#}") else {
            return Err(SyntaxError::new("comment `{#` is never closed with `#}`", start, 2)
                .hint("put text that needs `{#` between `{% raw %}` and `{% endraw %}`"));
        };
        self.trim_next = self.rest()[..end].ends_with('-');
        self.position += end + 2;
        Ok(())
    }

    fn tag(&mut self, start: usize) -> Result<(), SyntaxError> {
        let tokens = self.tokens("%}", start)?;
        match tokens.first().map(|token| &token.kind) {
            Some(Kind::Word(word)) if &**word == "raw" => self.raw(start),
            _ => {
                self.out.push(Segment::Tag { tokens, offset: start });
                Ok(())
            }
        }
    }

    /// Everything up to `{% endraw %}` is text, whatever it looks like.
    fn raw(&mut self, start: usize) -> Result<(), SyntaxError> {
        let mut from = self.position;
        while let Some(found) = self.source[from..].find("{%") {
            let open = from + found;
            let inner = self.source[open + 2..].trim_start_matches('-').trim_start();
            let close = inner.strip_prefix("endraw").map(|tail| tail.trim_start());
            if let Some(tail) = close.and_then(|tail| tail.strip_prefix("-%}").or_else(|| tail.strip_prefix("%}"))) {
                let trims = self.source[open + 2..].starts_with('-');
                self.text(open, trims);
                self.position = self.source.len() - tail.len();
                self.trim_next = self.source[..self.position].ends_with("-%}");
                return Ok(());
            }
            from = open + 2;
        }
        Err(SyntaxError::new("`{% raw %}` is never closed with `{% endraw %}`", start, 2))
    }

    fn tokens(&mut self, close: &'static str, start: usize) -> Result<Vec<Token>, SyntaxError> {
        let mut tokens = Vec::new();
        let mut braces = 0usize;
        loop {
            let skipped = self.rest().len() - self.rest().trim_start().len();
            self.position += skipped;
            let rest = self.rest();
            if rest.is_empty() {
                let open = if close == "}}" { "{{" } else { "{%" };
                return Err(SyntaxError::new(format!("`{open}` is never closed with `{close}`"), start, 2)
                    .hint("put text that needs braces between `{% raw %}` and `{% endraw %}`"));
            }
            let trimmed = rest.strip_prefix('-').filter(|tail| tail.starts_with(close));
            if braces == 0 && (rest.starts_with(close) || trimmed.is_some()) {
                tokens.push(Token { kind: Kind::End, offset: self.position, len: close.len() });
                self.trim_next = trimmed.is_some();
                self.position += close.len() + usize::from(trimmed.is_some());
                return Ok(tokens);
            }
            let token = self.token()?;
            match token.kind {
                Kind::Symbol("{") => braces += 1,
                Kind::Symbol("}") => braces = braces.saturating_sub(1),
                _ => {}
            }
            self.position += token.len;
            tokens.push(token);
        }
    }

    fn token(&self) -> Result<Token, SyntaxError> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        let (kind, len) = if first.is_ascii_digit() {
            number(rest).ok_or_else(|| SyntaxError::new("this number is too large", self.position, digits(rest)))?
        } else if first.is_alphabetic() || first == '_' || first == '$' {
            let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
            (Kind::Word(rest[..len].into()), len)
        } else if first == '\'' || first == '"' {
            quoted(rest, first).ok_or_else(|| SyntaxError::new("this text is never closed", self.position, 1))?
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Kind::Symbol(symbol), symbol.len())
        } else {
            return Err(SyntaxError::new(format!("unexpected character `{first}`"), self.position, first.len_utf8()));
        };
        Ok(Token { kind, offset: self.position, len })
    }
}

fn find_open(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).position(|pair| pair[0] == b'{' && matches!(pair[1], b'{' | b'%' | b'#'))
}

fn digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

fn number(text: &str) -> Option<(Kind, usize)> {
    let whole = digits(text);
    let fraction = text[whole..].strip_prefix('.').map_or(0, digits);
    if fraction > 0 {
        let len = whole + 1 + fraction;
        return Some((Kind::Float(text[..len].parse().ok()?), len));
    }
    let suffix = usize::from(text[whole..].starts_with(['l', 'L']));
    Some((Kind::Int(text[..whole].parse().ok()?), whole + suffix))
}

/// As the engine reads texts: a backslash takes only the quote of the text out of its meaning and stays otherwise, so
/// that regular expressions and jq programs get what was written.
fn quoted(text: &str, quote: char) -> Option<(Kind, usize)> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((Kind::Text(out.into()), at + 1));
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()?.1 {
            escaped if escaped == quote => out.push(escaped),
            other => out.extend(['\\', other]),
        }
    }
    None
}
