//! The `jq` filter: jaq's grammar, evaluated by an interpreter that pays fuel for every step.
//!
//! jaq's own interpreter has no meter: a program such as `[range(1e12)]` or a self-calling definition would take the
//! process with it. Programs in flows are short queries, so this one evaluates eagerly, refuses `def`, and knows no
//! clock, environment or input stream. Its numbers, order and errors follow jq.

mod builtins;
mod eval;
mod order;
mod paths;
mod values;

use jaq_core::load::lex::{Lexer, StrPart, Tok, Token};
use jaq_core::load::parse::{Parser, Term};

use crate::value::Value;
use crate::{Budget, EvalError};
use eval::{Interpreter, Raise};

const PROGRAM_BYTES_MAX: usize = 8_192;
/// Brackets in all, and nested: the lexer and parser recurse on them.
const BRACKETS_MAX: usize = 300;
const BRACKET_DEPTH_MAX: usize = 24;
/// Tokens after which the parser recurses without a bracket.
const PREFIXES_MAX: usize = 40;
const OPERATORS_MAX: usize = 120;

/// Runs a program on one input; the answer is the list of all its outputs. A text is read as JSON first, as Kestra
/// does, since the bodies of HTTP answers are texts; null stays null.
pub(crate) fn run(program: &str, input: &Value, budget: &mut Budget) -> Result<Value, EvalError> {
    match input {
        Value::Null => Ok(Value::Null),
        Value::Str(text) => match serde_json::from_str(text) {
            Ok(json) => run_on(program, &Value::from_json(&json), budget),
            Err(_) => Err(refused("the text is not JSON")),
        },
        other => run_on(program, other, budget),
    }
}

pub(crate) fn run_on(program: &str, input: &Value, budget: &mut Budget) -> Result<Value, EvalError> {
    crate::budget::spend(budget, 10 + program.len() as u64 / 16)?;
    let tokens = tokens(program)?;
    let term = Parser::new(&tokens).parse(Parser::term).map_err(|_| refused("the program is not valid jq"))?;
    let mut out = Vec::new();
    match (Interpreter { budget }).eval(&term, input, None, &mut out) {
        Ok(()) => Ok(Value::list(out)),
        Err(Raise::Stop(error)) => Err(error),
        Err(Raise::Error(value)) => {
            let text: String = value.to_text().chars().take(200).collect();
            Err(refused(&format!("the program failed: {text}")))
        }
    }
}

fn refused(message: &str) -> EvalError {
    EvalError::new("filter", format!("jq: {message}"))
}

fn tokens(program: &str) -> Result<Vec<Token<&str>>, EvalError> {
    let brackets = program.bytes().filter(|byte| matches!(byte, b'(' | b'[' | b'{')).count();
    if program.len() > PROGRAM_BYTES_MAX || brackets > BRACKETS_MAX {
        return Err(refused("the program is too long"));
    }
    let tokens = Lexer::new(program).lex().map_err(|_| refused("the program is not valid jq"))?;
    let mut shape = Shape::default();
    shape.measure(&tokens, 0);
    if shape.depth > BRACKET_DEPTH_MAX || shape.prefixes > PREFIXES_MAX || shape.operators > OPERATORS_MAX {
        return Err(refused("the program nests too deep"));
    }
    Ok(tokens)
}

/// What makes the parser recurse, counted before it runs.
#[derive(Default)]
struct Shape {
    depth: usize,
    prefixes: usize,
    operators: usize,
}

impl Shape {
    fn measure(&mut self, tokens: &[Token<&str>], depth: usize) {
        self.depth = self.depth.max(depth);
        for Token(text, kind) in tokens {
            match kind {
                Tok::Block(inner) => self.measure(inner, depth + 1),
                Tok::Str(parts) => {
                    for part in parts {
                        if let StrPart::Term(token) = part {
                            self.measure(std::slice::from_ref(token), depth + 1);
                        }
                    }
                }
                _ => match *text {
                    "-" | "def" | "if" | "try" | "catch" | "label" | "reduce" | "foreach" | "as" => self.prefixes += 1,
                    "?" | "," | "|" | "and" | "or" => self.operators += 1,
                    symbol if symbol.starts_with(['+', '*', '/', '%', '=', '<', '>', '!', '|', '-']) => {
                        self.operators += 1
                    }
                    _ => {}
                },
            }
        }
    }
}

type JqTerm<'s> = Term<&'s str>;
