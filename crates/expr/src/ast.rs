//! Syntax trees.
//!
//! Operators, filters and member access are all left-associative, so a run of them is one [`Chain`] evaluated in a
//! loop: a text with ten thousand `+` is long, not deep, and can neither overflow the stack when evaluated nor when
//! dropped. Only brackets, arguments, ternaries and tags nest, and the parser bounds those.

use std::sync::Arc;

use crate::value::Value;

/// A stretch of a template.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Arc<str>),
    Print {
        expr: Expr,
        line: u32,
    },
    If {
        arms: Vec<(Expr, Vec<Node>)>,
        otherwise: Vec<Node>,
        line: u32,
    },
    For {
        variable: Arc<str>,
        items: Expr,
        body: Vec<Node>,
        otherwise: Vec<Node>,
        line: u32,
    },
    Set {
        variable: Arc<str>,
        expr: Expr,
        line: u32,
    },
    Filter {
        steps: Vec<Step>,
        body: Vec<Node>,
        line: u32,
    },
    /// Rendered where it stands, and again by `block('name')`.
    Block(Arc<Block>),
}

/// A named stretch of a template.
#[derive(Debug)]
pub(crate) struct Block {
    pub name: Box<str>,
    pub body: Vec<Node>,
}

/// An argument of a macro with its default, which is null where none is written.
pub(crate) type Parameter = (Arc<str>, Option<Expr>);

/// A stretch of a template that is called like a function.
#[derive(Debug)]
pub(crate) struct Macro {
    pub name: Box<str>,
    pub parameters: Vec<Parameter>,
    pub body: Vec<Node>,
}

/// What a template defines by name, wherever in its text.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub macros: Vec<Macro>,
    pub blocks: Vec<Arc<Block>>,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Value),
    Variable(Box<str>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Call(Box<Call>),
    Unary(UnaryOp, Box<Expr>),
    Ternary(Box<(Expr, Expr, Expr)>),
    Chain(Box<Chain>),
}

/// A first operand and what is done to it, from left to right.
#[derive(Debug)]
pub(crate) struct Chain {
    pub first: Expr,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) enum Step {
    Member(Box<str>),
    Index(Expr),
    Filter(Call),
    Binary(BinaryOp, Expr),
    Test { test: Test, negated: bool },
}

/// A function call, or a filter with its arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub name: Box<str>,
    /// Byte offset of the name in the template, for diagnostics.
    pub offset: usize,
    pub args: Vec<Expr>,
    pub named: Vec<(String, Expr)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Not,
    Minus,
    Plus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Or,
    And,
    Contains,
    IsIn,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Matches,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Concat,
    Range,
    /// `??`: the right side when the left is null or missing.
    Coalesce,
    /// `???`: the right side only when the left is missing.
    CoalesceMissing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Defined,
    Empty,
    Null,
    Even,
    Odd,
    Iterable,
    Map,
    Json,
}
