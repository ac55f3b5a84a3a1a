//! A parsed template, and the tags that structure it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Block, Macro, Named, Node, Step};
use crate::lexer::{self, Kind, Segment, Token};
use crate::parser::{ExprParser, Limits};
use crate::references::References;

/// Parsed text with `{{ }}`, `{% %}` and `{# #}`. Serializes as its source text.
#[derive(Debug)]
pub struct Template {
    source: Arc<str>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) named: Named,
}

/// A mistake in a template, with its byte span inside the template text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    pub message: String,
    pub offset: usize,
    pub len: usize,
    pub hint: Option<String>,
}

impl SyntaxError {
    pub(crate) fn new(message: impl Into<String>, offset: usize, len: usize) -> Self {
        SyntaxError { message: message.into(), offset, len, hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Where a mistake is found, often only its first byte is known; who shows the place needs whole characters.
    fn of_whole_characters(mut self, source: &str) -> Self {
        let end = source.ceil_char_boundary(self.offset.saturating_add(self.len));
        self.offset = source.floor_char_boundary(self.offset);
        self.len = end - self.offset;
        self
    }
}

fn nodes(source: &str) -> Result<(Vec<Node>, Named), SyntaxError> {
    if source.contains('{') {
        TagParser::new(source, lexer::segments(source)?).template()
    } else if source.is_empty() {
        Ok((Vec::new(), Named::default()))
    } else {
        Ok((vec![Node::Text(Arc::from(source))], Named::default()))
    }
}

/// Templates remembered by each thread, and the longest text among them.
const REMEMBERED_MAX: usize = 1_024;
const REMEMBERED_BYTES_MAX: usize = 4_096;

thread_local! {
    static REMEMBERED: RefCell<HashMap<Arc<str>, Arc<Template>>> = RefCell::default();
}

impl Template {
    /// Parses a template; unknown functions and filters are refused here, not when a run reaches them.
    pub fn parse(source: &str) -> Result<Template, SyntaxError> {
        let (nodes, named) = nodes(source).map_err(|error| error.of_whole_characters(source))?;
        Ok(Template { source: Arc::from(source), nodes, named })
    }

    /// As [`Template::parse`], remembering what was parsed: the texts of a flow are rendered at each of its runs.
    pub fn of(source: &str) -> Result<Arc<Template>, SyntaxError> {
        if source.len() > REMEMBERED_BYTES_MAX {
            return Template::parse(source).map(Arc::new);
        }
        REMEMBERED.with_borrow_mut(|known| {
            if let Some(template) = known.get(source) {
                return Ok(template.clone());
            }
            let template = Arc::new(Template::parse(source)?);
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(template.source.clone(), template.clone());
            Ok(template)
        })
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether rendering yields the same text whatever the scope is.
    pub fn is_static(&self) -> bool {
        self.nodes.iter().all(|node| matches!(node, Node::Text(_)))
    }

    /// What the template refers to, for diagnostics and for the order of steps.
    pub fn references(&self) -> References {
        References::of(self)
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl serde::Serialize for Template {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> serde::Deserialize<'de> for Template {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = <String as serde::Deserialize>::deserialize(deserializer)?;
        Template::parse(&source).map_err(serde::de::Error::custom)
    }
}

/// Reads segments into nodes; tags nest, and their nesting counts against the same limit as brackets.
struct TagParser<'a> {
    source: &'a str,
    segments: std::iter::Peekable<std::vec::IntoIter<Segment>>,
    limits: Limits,
    named: Named,
    /// Offset up to which lines were counted, and how many; tags come in order, so each byte is counted once.
    counted: (usize, u32),
}

/// The tag that ended a body, with what follows its name.
struct EndTag {
    name: String,
    tokens: Vec<Token>,
    offset: usize,
}

impl<'a> TagParser<'a> {
    fn new(source: &'a str, segments: Vec<Segment>) -> Self {
        let limits = Limits::with_macros(macro_names(&segments));
        let segments = segments.into_iter().peekable();
        TagParser { source, segments, limits, named: Named::default(), counted: (0, 1) }
    }

    fn template(mut self) -> Result<(Vec<Node>, Named), SyntaxError> {
        let (nodes, end) = self.body(&[])?;
        match end {
            None => Ok((nodes, self.named)),
            Some(tag) => Err(SyntaxError::new(format!("`{}` has nothing to close", tag.name), tag.offset, 2)),
        }
    }

    /// Reads nodes up to one of the `ends` tags, or to the end of the text.
    fn body(&mut self, ends: &[&str]) -> Result<(Vec<Node>, Option<EndTag>), SyntaxError> {
        let mut nodes = Vec::new();
        while let Some(segment) = self.segments.next() {
            match segment {
                Segment::Text(text) => nodes.push(Node::Text(Arc::from(text))),
                Segment::Print { tokens, offset } => {
                    let expr = self.whole_expr(tokens)?;
                    nodes.push(Node::Print { expr, line: self.line(offset) });
                }
                Segment::Tag { mut tokens, offset } => {
                    let name = match tokens.first().map(|token| token.kind.clone()) {
                        Some(Kind::Word(name)) => name.to_string(),
                        _ => return Err(SyntaxError::new("a tag begins with its name", offset, 2)),
                    };
                    tokens.remove(0);
                    if ends.contains(&name.as_str()) {
                        return Ok((nodes, Some(EndTag { name, tokens, offset })));
                    }
                    self.limits.node(offset)?;
                    self.limits.enter(offset)?;
                    nodes.extend(self.tag(&name, tokens, offset)?);
                    self.limits.leave();
                }
            }
        }
        Ok((nodes, None))
    }

    /// The node of a tag; the definition of a macro leaves none.
    fn tag(&mut self, name: &str, tokens: Vec<Token>, offset: usize) -> Result<Option<Node>, SyntaxError> {
        match name {
            "if" => self.if_tag(tokens, offset).map(Some),
            "for" => self.for_tag(tokens, offset).map(Some),
            "set" => self.set_tag(tokens, offset).map(Some),
            "filter" => self.filter_tag(tokens, offset).map(Some),
            "block" => self.block_tag(tokens, offset).map(Some),
            "macro" => self.macro_tag(tokens, offset).map(|()| None),
            "include" | "import" | "extends" | "embed" | "from" | "autoescape" | "cache" | "parallel" => {
                Err(SyntaxError::new(format!("the tag `{name}` is not supported"), offset, 2)
                    .hint("use `set`, `if`, `for` or a variable under `variables:` instead"))
            }
            "endif" | "endfor" | "endfilter" | "endblock" | "endmacro" | "else" | "elseif" | "endraw" => {
                Err(SyntaxError::new(format!("`{name}` has nothing to close"), offset, 2))
            }
            _ => Err(SyntaxError::new(format!("unknown tag `{name}`"), offset, 2)),
        }
    }

    fn if_tag(&mut self, tokens: Vec<Token>, offset: usize) -> Result<Node, SyntaxError> {
        let line = self.line(offset);
        let mut condition = self.whole_expr(tokens)?;
        let mut arms = Vec::new();
        loop {
            let (body, end) = self.body(&["elseif", "elif", "else", "endif"])?;
            arms.push((condition, body));
            let end = end.ok_or_else(|| unclosed("if", "endif", offset))?;
            let otherwise = match end.name.as_str() {
                "endif" => Vec::new(),
                "else" => self.closing("if", "endif", offset)?,
                _ => {
                    self.limits.node(end.offset)?;
                    condition = self.whole_expr(end.tokens)?;
                    continue;
                }
            };
            return Ok(Node::If { arms, otherwise, line });
        }
    }

    fn for_tag(&mut self, tokens: Vec<Token>, offset: usize) -> Result<Node, SyntaxError> {
        let line = self.line(offset);
        let mut parser = ExprParser::new(tokens, &mut self.limits);
        let variable = parser.name("the loop variable")?;
        parser.word("in")?;
        let items = parser.expr()?;
        parser.end()?;
        let (body, end) = self.body(&["else", "endfor"])?;
        let end = end.ok_or_else(|| unclosed("for", "endfor", offset))?;
        let otherwise = if end.name == "else" { self.closing("for", "endfor", offset)? } else { Vec::new() };
        Ok(Node::For { variable: Arc::from(variable), items, body, otherwise, line })
    }

    fn set_tag(&mut self, tokens: Vec<Token>, offset: usize) -> Result<Node, SyntaxError> {
        let mut parser = ExprParser::new(tokens, &mut self.limits);
        let variable = parser.name("the variable's name")?;
        parser.symbol("=")?;
        let expr = parser.expr()?;
        parser.end()?;
        Ok(Node::Set { variable: Arc::from(variable), expr, line: self.line(offset) })
    }

    fn filter_tag(&mut self, tokens: Vec<Token>, offset: usize) -> Result<Node, SyntaxError> {
        let line = self.line(offset);
        let mut parser = ExprParser::new(tokens, &mut self.limits);
        let mut steps = vec![Step::Filter(parser.filter()?)];
        while parser.accept("|") {
            steps.push(Step::Filter(parser.filter()?));
        }
        parser.end()?;
        let body = self.closing("filter", "endfilter", offset)?;
        Ok(Node::Filter { steps, body, line })
    }

    fn block_tag(&mut self, tokens: Vec<Token>, offset: usize) -> Result<Node, SyntaxError> {
        let mut parser = ExprParser::new(tokens, &mut self.limits);
        let name = parser.block_name()?;
        parser.end()?;
        if self.named.blocks.iter().any(|block| block.name == name) {
            return Err(SyntaxError::new(format!("the block `{name}` is defined twice"), offset, 2));
        }
        let body = self.closing("block", "endblock", offset)?;
        let block = Arc::new(Block { name, body });
        self.named.blocks.push(block.clone());
        Ok(Node::Block(block))
    }

    fn macro_tag(&mut self, tokens: Vec<Token>, offset: usize) -> Result<(), SyntaxError> {
        let mut parser = ExprParser::new(tokens, &mut self.limits);
        let name = parser.name("the name of the macro")?;
        let parameters = parser.parameters()?;
        parser.end()?;
        if self.named.macros.iter().any(|known| known.name == name) {
            return Err(SyntaxError::new(format!("the macro `{name}` is defined twice"), offset, 2));
        }
        let body = self.closing("macro", "endmacro", offset)?;
        self.named.macros.push(Macro { name, parameters, body });
        Ok(())
    }

    fn closing(&mut self, name: &str, end: &str, offset: usize) -> Result<Vec<Node>, SyntaxError> {
        let (body, closed) = self.body(&[end])?;
        closed.map(|_| body).ok_or_else(|| unclosed(name, end, offset))
    }

    fn whole_expr(&mut self, tokens: Vec<Token>) -> Result<crate::ast::Expr, SyntaxError> {
        let mut parser = ExprParser::new(tokens, &mut self.limits);
        let expr = parser.expr()?;
        parser.end()?;
        Ok(expr)
    }

    fn line(&mut self, offset: usize) -> u32 {
        let (from, line) = self.counted;
        let lines = |text: &[u8]| u32::try_from(text.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u32::MAX);
        let bytes = self.source.as_bytes();
        if offset < from {
            return 1 + lines(&bytes[..offset]);
        }
        self.counted = (offset, line.saturating_add(lines(&bytes[from..offset])));
        self.counted.1
    }
}

/// Names of all macros of a template, wherever they are defined.
fn macro_names(segments: &[Segment]) -> Vec<Box<str>> {
    let word = |token: Option<&Token>| match token.map(|token| &token.kind) {
        Some(Kind::Word(word)) => Some(word.clone()),
        _ => None,
    };
    let names = segments.iter().filter_map(|segment| match segment {
        Segment::Tag { tokens, .. } if word(tokens.first()).as_deref() == Some("macro") => word(tokens.get(1)),
        _ => None,
    });
    names.collect()
}

fn unclosed(name: &str, end: &str, offset: usize) -> SyntaxError {
    SyntaxError::new(format!("`{{% {name} %}}` is never closed with `{{% {end} %}}`"), offset, 2)
}
