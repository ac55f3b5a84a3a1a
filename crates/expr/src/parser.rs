//! Expressions: a precedence climber over the operator table of Kestra's Pebble engine.
//!
//! | operators | precedence |
//! |---|---|
//! | ternary | lowest |
//! | `or` | 10 |
//! | `and` | 15 |
//! | `is`, `is not`, `contains`, `isIn` | 20 |
//! | `==` `equals` `!=` `<` `<=` `>` `>=` `matches` | 30 |
//! | `+` `-` | 40 |
//! | `*` `/` `%` | 60 |
//! | filter `\|` | 100 |
//! | `~` | 110 |
//! | `..` `??` `???` | 120 |
//! | `not`, `-`, `+` before an operand | 500 |

use std::sync::Arc;

use crate::ast::{BinaryOp, Call, Chain, Expr, Parameter, Step, Test, UnaryOp};
use crate::catalog;
use crate::lexer::{Kind, Token};
use crate::template::{SyntaxError, Template};
use crate::value::Value;

/// Brackets, arguments, ternaries and tags may nest this far.
const DEPTH_MAX: u32 = 64;
/// Operands, steps and tags of one template.
const NODES_MAX: u32 = 10_000;

const TERNARY: u32 = 0;

/// What one template may still use; shared by all its expressions.
#[derive(Default)]
pub(crate) struct Limits {
    nodes: u32,
    depth: u32,
    /// Macros of the template; a use may stand before the definition.
    macros: Vec<Box<str>>,
}

impl Limits {
    pub(crate) fn with_macros(macros: Vec<Box<str>>) -> Limits {
        Limits { macros, ..Limits::default() }
    }

    pub(crate) fn node(&mut self, offset: usize) -> Result<(), SyntaxError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(SyntaxError::new(format!("a template may hold at most {NODES_MAX} operations"), offset, 1));
        }
        Ok(())
    }

    pub(crate) fn enter(&mut self, offset: usize) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SyntaxError::new(format!("expressions may nest at most {DEPTH_MAX} deep"), offset, 1));
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

enum Infix {
    Binary(BinaryOp),
    Is,
    Pipe,
}

pub(crate) struct ExprParser<'a> {
    tokens: Vec<Token>,
    position: usize,
    limits: &'a mut Limits,
}

impl<'a> ExprParser<'a> {
    /// `tokens` ends with `Kind::End`; the lexer sees to that.
    pub(crate) fn new(tokens: Vec<Token>, limits: &'a mut Limits) -> Self {
        ExprParser { tokens, position: 0, limits }
    }

    fn peek(&self) -> &Kind {
        self.tokens.get(self.position).map_or(&Kind::End, |token| &token.kind)
    }

    fn peek_second(&self) -> &Kind {
        self.tokens.get(self.position + 1).map_or(&Kind::End, |token| &token.kind)
    }

    fn span(&self) -> (usize, usize) {
        let token = self.tokens.get(self.position).or(self.tokens.last());
        token.map_or((0, 0), |token| (token.offset, token.len))
    }

    fn advance(&mut self) {
        self.position += 1;
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let (offset, len) = self.span();
        let found = match self.peek() {
            Kind::End => "the end of the expression".to_owned(),
            Kind::Word(word) => format!("`{word}`"),
            Kind::Symbol(symbol) => format!("`{symbol}`"),
            Kind::Text(_) => "a text".to_owned(),
            Kind::Int(_) | Kind::Float(_) => "a number".to_owned(),
        };
        SyntaxError::new(format!("expected {wanted}, found {found}"), offset, len)
    }

    pub(crate) fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Kind::Symbol(found) if *found == symbol);
        if found {
            self.advance();
        }
        found
    }

    pub(crate) fn symbol(&mut self, symbol: &str) -> Result<(), SyntaxError> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Kind::Word(found) if &**found == word)
    }

    pub(crate) fn word(&mut self, word: &str) -> Result<(), SyntaxError> {
        if !self.at_word(word) {
            return Err(self.unexpected(&format!("`{word}`")));
        }
        self.advance();
        Ok(())
    }

    pub(crate) fn name(&mut self, what: &str) -> Result<Box<str>, SyntaxError> {
        match self.peek() {
            Kind::Word(word) => {
                let word = word.clone();
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    pub(crate) fn end(&self) -> Result<(), SyntaxError> {
        if *self.peek() == Kind::End {
            Ok(())
        } else {
            Err(self.unexpected("an operator or the end of the expression"))
        }
    }

    /// A whole expression, ternary included.
    pub(crate) fn expr(&mut self) -> Result<Expr, SyntaxError> {
        self.limits.enter(self.span().0)?;
        let condition = self.binary()?;
        let expr = if self.accept("?") {
            let positive = self.expr()?;
            self.symbol(":")?;
            let negative = self.expr()?;
            Expr::Ternary(Box::new((condition, positive, negative)))
        } else {
            condition
        };
        self.limits.leave();
        Ok(expr)
    }

    fn infix(&self) -> Option<(Infix, u32)> {
        use BinaryOp::*;
        let (op, precedence) = match self.peek() {
            Kind::Symbol(symbol) => match *symbol {
                "|" => return Some((Infix::Pipe, 100)),
                "||" => (Or, 10),
                "&&" => (And, 15),
                "==" => (Equal, 30),
                "!=" => (NotEqual, 30),
                "<" => (Less, 30),
                "<=" => (LessEqual, 30),
                ">" => (Greater, 30),
                ">=" => (GreaterEqual, 30),
                "+" => (Add, 40),
                "-" => (Subtract, 40),
                "*" => (Multiply, 60),
                "/" => (Divide, 60),
                "%" => (Modulo, 60),
                "~" => (Concat, 110),
                ".." => (Range, 120),
                "??" => (Coalesce, 120),
                "???" => (CoalesceMissing, 120),
                _ => return None,
            },
            Kind::Word(word) => match &**word {
                "is" => return Some((Infix::Is, 20)),
                "or" => (Or, 10),
                "and" => (And, 15),
                "contains" => (Contains, 20),
                "isIn" => (IsIn, 20),
                "equals" => (Equal, 30),
                "matches" => (Matches, 30),
                _ => return None,
            },
            _ => return None,
        };
        Some((Infix::Binary(op), precedence))
    }

    /// Operands and operators, with a stack of its own instead of a call per level of precedence.
    fn binary(&mut self) -> Result<Expr, SyntaxError> {
        let mut waiting: Vec<(Expr, BinaryOp, u32)> = Vec::new();
        let mut left = self.unary()?;
        while let Some((infix, precedence)) = self.infix() {
            self.limits.node(self.span().0)?;
            self.advance();
            left = reduced(&mut waiting, left, precedence);
            left = match infix {
                Infix::Pipe => append(left, Step::Filter(self.filter()?)),
                Infix::Is => append(left, self.test()?),
                Infix::Binary(op) => {
                    waiting.push((left, op, precedence));
                    self.unary()?
                }
            };
        }
        Ok(reduced(&mut waiting, left, TERNARY))
    }

    fn test(&mut self) -> Result<Step, SyntaxError> {
        let negated = self.at_word("not");
        if negated {
            self.advance();
        }
        let (offset, len) = self.span();
        let name = self.name("a test such as `defined`")?;
        let test = match &*name {
            "defined" => Test::Defined,
            "empty" => Test::Empty,
            "null" => Test::Null,
            "even" => Test::Even,
            "odd" => Test::Odd,
            "iterable" => Test::Iterable,
            "map" => Test::Map,
            "json" => Test::Json,
            _ => {
                return Err(SyntaxError::new(format!("unknown test `{name}`"), offset, len)
                    .hint("tests are: defined, empty, null, even, odd, iterable, map, json"));
            }
        };
        Ok(Step::Test { test, negated })
    }

    /// `(a, b='x')` of a macro's definition.
    pub(crate) fn parameters(&mut self) -> Result<Vec<Parameter>, SyntaxError> {
        let mut parameters = Vec::new();
        self.symbol("(")?;
        while !self.accept(")") {
            let name = Arc::from(self.name("the name of an argument")?);
            let default = if self.accept("=") { Some(self.expr()?) } else { None };
            parameters.push((name, default));
            if !self.accept(",") {
                self.symbol(")")?;
                break;
            }
        }
        Ok(parameters)
    }

    /// The name of a block, bare or quoted.
    pub(crate) fn block_name(&mut self) -> Result<Box<str>, SyntaxError> {
        match self.peek().clone() {
            Kind::Word(name) | Kind::Text(name) => {
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected("the name of the block")),
        }
    }

    /// A filter's name and arguments, after the `|`.
    pub(crate) fn filter(&mut self) -> Result<Call, SyntaxError> {
        let (offset, len) = self.span();
        let name = self.name("the name of a filter")?;
        if !catalog::is_known_filter(&name) {
            return Err(catalog::unknown("filter", &name, offset, len));
        }
        let (args, named) = if self.accept("(") { self.arguments()? } else { (Vec::new(), Vec::new()) };
        Ok(Call { name, offset, args, named })
    }

    #[allow(clippy::type_complexity)]
    fn arguments(&mut self) -> Result<(Vec<Expr>, Vec<(String, Expr)>), SyntaxError> {
        let (mut args, mut named) = (Vec::new(), Vec::new());
        while !self.accept(")") {
            match (self.peek().clone(), self.peek_second()) {
                (Kind::Word(name), Kind::Symbol("=")) => {
                    self.advance();
                    self.advance();
                    named.push((name.to_string(), self.expr()?));
                }
                _ => args.push(self.expr()?),
            }
            if !self.accept(",") {
                self.symbol(")")?;
                break;
            }
        }
        Ok((args, named))
    }

    fn unary(&mut self) -> Result<Expr, SyntaxError> {
        let op = match self.peek() {
            Kind::Symbol("-") => UnaryOp::Minus,
            Kind::Symbol("+") => UnaryOp::Plus,
            Kind::Symbol("!") => UnaryOp::Not,
            Kind::Word(word) if &**word == "not" => UnaryOp::Not,
            _ => return self.postfix(),
        };
        let offset = self.span().0;
        self.limits.node(offset)?;
        self.limits.enter(offset)?;
        self.advance();
        let operand = self.unary()?;
        self.limits.leave();
        Ok(Expr::Unary(op, Box::new(operand)))
    }

    fn postfix(&mut self) -> Result<Expr, SyntaxError> {
        let mut operand = self.primary()?;
        loop {
            let offset = self.span().0;
            let step = if self.accept(".") {
                self.member()?
            } else if self.accept("[") {
                let index = self.expr()?;
                self.symbol("]")?;
                match index {
                    Expr::Literal(Value::Str(name)) => Step::Member(Box::from(&*name)),
                    other => Step::Index(other),
                }
            } else {
                return Ok(operand);
            };
            self.limits.node(offset)?;
            operand = append(operand, step);
        }
    }

    fn member(&mut self) -> Result<Step, SyntaxError> {
        let name: Box<str> = match self.peek() {
            Kind::Word(word) => word.clone(),
            Kind::Int(number) => number.to_string().into(),
            _ => return Err(self.unexpected("a name after `.`")),
        };
        self.advance();
        if matches!(self.peek(), Kind::Symbol("(")) {
            let (offset, len) = self.span();
            return Err(SyntaxError::new(
                format!("`.{name}(…)` is not supported: values have no methods"),
                offset,
                len,
            )
            .hint("use a filter, as in `value | length`"));
        }
        Ok(Step::Member(name))
    }

    fn primary(&mut self) -> Result<Expr, SyntaxError> {
        let (offset, len) = self.span();
        self.limits.node(offset)?;
        let kind = self.peek().clone();
        let expr = match kind {
            Kind::Int(number) => Expr::Literal(Value::Int(number)),
            Kind::Float(number) => Expr::Literal(Value::Float(number)),
            Kind::Text(text) => Expr::Literal(Value::str(text)),
            Kind::Word(word) => {
                self.advance();
                return self.word_operand(word, offset, len);
            }
            Kind::Symbol("(") => {
                self.advance();
                let inner = self.expr()?;
                self.symbol(")")?;
                return Ok(inner);
            }
            Kind::Symbol("[") => {
                self.advance();
                return self.list();
            }
            Kind::Symbol("{") => {
                self.advance();
                return self.map();
            }
            Kind::Symbol(_) | Kind::End => return Err(self.unexpected("a value")),
        };
        self.advance();
        Ok(expr)
    }

    fn word_operand(&mut self, word: Box<str>, offset: usize, len: usize) -> Result<Expr, SyntaxError> {
        if self.accept("(") {
            if !catalog::is_known_function(&word) && !self.limits.macros.contains(&word) {
                return Err(catalog::unknown("function", &word, offset, len));
            }
            let (mut args, mut named) = self.arguments()?;
            if matches!(&*word, "render" | "renderOnce") {
                let first = args.first_mut().or(named.first_mut().map(|(_, argument)| argument));
                first.map_or(Ok(()), |argument| author_text(argument, offset, len))?;
            }
            return Ok(Expr::Call(Box::new(Call { name: word, offset, args, named })));
        }
        Ok(match &*word {
            "true" | "TRUE" => Expr::Literal(Value::Bool(true)),
            "false" | "FALSE" => Expr::Literal(Value::Bool(false)),
            "null" | "NULL" | "none" | "NONE" => Expr::Literal(Value::Null),
            "and" | "or" | "is" | "contains" | "equals" | "matches" => {
                return Err(SyntaxError::new(format!("`{word}` needs a value on its left"), offset, len));
            }
            _ => Expr::Variable(word),
        })
    }

    fn list(&mut self) -> Result<Expr, SyntaxError> {
        let mut items = Vec::new();
        while !self.accept("]") {
            items.push(self.expr()?);
            if !self.accept(",") {
                self.symbol("]")?;
                break;
            }
        }
        Ok(Expr::List(items))
    }

    fn map(&mut self) -> Result<Expr, SyntaxError> {
        let mut entries = Vec::new();
        while !self.accept("}") {
            // A ternary has a `:` of its own, so a key stops before one.
            self.limits.enter(self.span().0)?;
            let key = self.binary()?;
            self.limits.leave();
            self.symbol(":")?;
            entries.push((key, self.expr()?));
            if !self.accept(",") {
                self.symbol("}")?;
                break;
            }
        }
        Ok(Expr::Map(entries))
    }
}

/// A text that the author wrote as the argument of `render` is a template of their own.
fn author_text(argument: &mut Expr, offset: usize, len: usize) -> Result<(), SyntaxError> {
    if let Expr::Literal(Value::Str(text)) = argument
        && text.contains('{')
    {
        let template = Template::parse(text).map_err(|error| SyntaxError::new(error.message, offset, len))?;
        *argument = Expr::Literal(Value::Deferred(Arc::new(template)));
    }
    Ok(())
}

/// Extends a chain in place, so that long runs of operators stay flat.
fn append(left: Expr, step: Step) -> Expr {
    match left {
        Expr::Chain(mut chain) => {
            chain.steps.push(step);
            Expr::Chain(chain)
        }
        first => Expr::Chain(Box::new(Chain { first, steps: vec![step] })),
    }
}

/// Closes the waiting operators that bind at least as tight as the next one; equal ones group to the left.
fn reduced(waiting: &mut Vec<(Expr, BinaryOp, u32)>, mut right: Expr, precedence: u32) -> Expr {
    while let Some((left, op, _)) = waiting.pop_if(|(_, _, waiting)| *waiting >= precedence) {
        right = append(left, Step::Binary(op, right));
    }
    right
}
