//! The language of searches: `workflowType = order AND (status = FAILED OR startTime > 1700000000000)`.
//!
//! ```text
//! query     = [ all { OR all } ]
//! all       = one { AND one }
//! one       = condition | "(" all { OR all } ")"
//! condition = FIELD ( "=" | "!=" | "<" | ">" | "<=" | ">=" ) value
//!           | FIELD [ NOT ] IN "(" value { "," value } ")"
//!           | FIELD BETWEEN value AND value
//!           | FIELD STARTS_WITH value
//! value     = quoted by ' or ", with \ before a quote that belongs to it; or bare, up to what follows it
//! ```
//!
//! Words of the language are read in any case. A bare value may hold blanks, and ends before `AND`, `OR`, a comma or a
//! parenthesis; one that holds any of these is quoted. A `*` in a value stands for any text, unless the value is quoted
//! with a `\` before it.

use crate::problem::Problem;

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub field: String,
    pub test: Test,
}

/// Conditions, and how they are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    All(Vec<Query>),
    Any(Vec<Query>),
    One(Condition),
}

impl Query {
    /// Every condition in it.
    pub fn conditions(&self) -> Vec<&Condition> {
        match self {
            Query::One(condition) => vec![condition],
            Query::All(parts) | Query::Any(parts) => parts.iter().flat_map(Query::conditions).collect(),
        }
    }

    /// Whether it holds of something, if `holds` says so of each condition.
    pub fn judge(&self, holds: &dyn Fn(&Condition) -> Result<bool, Problem>) -> Result<bool, Problem> {
        match self {
            Query::One(condition) => holds(condition),
            Query::All(parts) => parts.iter().try_fold(true, |so_far, part| Ok(so_far && part.judge(holds)?)),
            Query::Any(parts) => parts.iter().try_fold(false, |so_far, part| Ok(so_far || part.judge(holds)?)),
        }
    }

    /// The parts that must all hold.
    pub fn into_parts(self) -> Vec<Query> {
        match self {
            Query::All(parts) => parts,
            other => vec![other],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// One of these, or none of them.
    In {
        values: Vec<Value>,
        not: bool,
    },
    Compare {
        than: Order,
        value: String,
    },
    /// Both ends count.
    Between {
        from: String,
        to: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value; `pattern`: a `*` of it stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub text: String,
    pub pattern: bool,
}

/// Conditions that a search may have at most.
const CONDITIONS_MAX: usize = 50;
const VALUES_MAX: usize = 1_000;

/// Parentheses inside each other.
const DEPTH_MAX: usize = 16;

/// All of it; nothing at all is true of everything.
pub fn parse(text: &str) -> Result<Query, Problem> {
    let mut reader = Reader { rest: text, conditions: 0 };
    reader.blanks();
    if reader.rest.is_empty() {
        return Ok(Query::All(Vec::new()));
    }
    let query = reader.any(0)?;
    reader.blanks();
    if reader.rest.is_empty() { Ok(query) } else { Err(reader.wrong("AND or OR is expected here")) }
}

struct Reader<'a> {
    rest: &'a str,
    conditions: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, what: &str) -> Problem {
        let near: String = self.rest.chars().take(24).collect();
        let near = if near.is_empty() { "its end".to_owned() } else { format!("`{near}`") };
        Problem::query("query", format!("cannot be read near {near}: {what}"))
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, mark: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A word of the language, in any case, that ends where a word ends.
    fn word(&mut self, word: &str) -> bool {
        self.blanks();
        let Some(head) = self.rest.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word)) else {
            return false;
        };
        let rest = &self.rest[head.len()..];
        if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return false;
        }
        self.rest = rest;
        true
    }

    fn any(&mut self, depth: usize) -> Result<Query, Problem> {
        let mut parts = vec![self.all(depth)?];
        while self.word("OR") {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Query::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Query, Problem> {
        let mut parts = vec![self.one(depth)?];
        while self.word("AND") {
            parts.push(self.one(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Query::All(parts) })
    }

    fn one(&mut self, depth: usize) -> Result<Query, Problem> {
        if !self.take("(") {
            return Ok(Query::One(self.condition()?));
        }
        if depth >= DEPTH_MAX {
            return Err(self.wrong(&format!("at most {DEPTH_MAX} parentheses may be inside each other")));
        }
        let query = self.any(depth + 1)?;
        if self.take(")") { Ok(query) } else { Err(self.wrong("AND, OR or a closing parenthesis is expected here")) }
    }

    fn condition(&mut self) -> Result<Condition, Problem> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return Err(self.wrong(&format!("at most {CONDITIONS_MAX} conditions are taken")));
        }
        self.blanks();
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.wrong("the name of a field is expected"));
        }
        let field = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        Ok(Condition { field, test: self.test()? })
    }

    fn test(&mut self) -> Result<Test, Problem> {
        let not = self.word("NOT");
        if self.word("IN") {
            return Ok(Test::In { values: self.list()?, not });
        }
        if not {
            return Err(self.wrong("IN is expected after NOT"));
        }
        if self.word("BETWEEN") {
            let from = self.value()?.text;
            if !self.word("AND") {
                return Err(self.wrong("BETWEEN has two values, with AND between them"));
            }
            return Ok(Test::Between { from, to: self.value()?.text });
        }
        if self.word("STARTS_WITH") {
            let value = self.value()?;
            return Ok(Test::In {
                values: vec![Value { text: format!("{}*", value.text), pattern: true }],
                not: false,
            });
        }
        for (mark, order) in [("<=", Order::LessOrEqual), (">=", Order::GreaterOrEqual)] {
            if self.take(mark) {
                return Ok(Test::Compare { than: order, value: self.value()?.text });
            }
        }
        for mark in ["!=", "<>"] {
            if self.take(mark) {
                return Ok(Test::In { values: vec![self.value()?], not: true });
            }
        }
        for (mark, order) in [("<", Order::Less), (">", Order::Greater)] {
            if self.take(mark) {
                return Ok(Test::Compare { than: order, value: self.value()?.text });
            }
        }
        if self.take("==") || self.take("=") {
            return Ok(Test::In { values: vec![self.value()?], not: false });
        }
        Err(self.wrong("one of =, !=, <, >, <=, >=, IN, BETWEEN or STARTS_WITH is expected"))
    }

    fn list(&mut self) -> Result<Vec<Value>, Problem> {
        if !self.take("(") {
            return Err(self.wrong("IN is followed by values in parentheses"));
        }
        let mut values = Vec::new();
        if self.take(")") {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(self.wrong("a comma or a closing parenthesis is expected"));
            }
            if values.len() >= VALUES_MAX {
                return Err(self.wrong(&format!("at most {VALUES_MAX} values are taken")));
            }
        }
    }

    fn value(&mut self) -> Result<Value, Problem> {
        self.blanks();
        match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => self.quoted(quote),
            _ => self.bare(),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Value, Problem> {
        let mut text = String::new();
        let mut pattern = false;
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, next)) if next == quote || next == '\\' || next == '*' => text.push(next),
                    Some((_, next)) => text.extend(['\\', next]),
                    None => break,
                },
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(Value { text, pattern });
                }
                c => {
                    pattern |= c == '*';
                    text.push(c);
                }
            }
        }
        Err(self.wrong("a quote is opened and not closed"))
    }

    /// Up to a comma, a parenthesis or a word that joins conditions.
    fn bare(&mut self) -> Result<Value, Problem> {
        let mut end = self.rest.len();
        for (at, c) in self.rest.char_indices() {
            let after_blank = self.rest[..at].ends_with(char::is_whitespace);
            let here = || Reader { rest: &self.rest[at..], conditions: 0 };
            if matches!(c, ',' | ')' | '(') || (after_blank && (here().word("AND") || here().word("OR"))) {
                end = at;
                break;
            }
        }
        let text = self.rest[..end].trim_end();
        if text.is_empty() {
            return Err(self.wrong("a value is expected"));
        }
        self.rest = &self.rest[end..];
        Ok(Value { text: text.to_owned(), pattern: text.contains('*') })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Condition {
        match parse(text).unwrap_or_else(|problem| panic!("{text}: {}", problem.detail)) {
            Query::One(condition) => condition,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn is_in(field: &str, values: &[&str]) -> Condition {
        let values =
            values.iter().map(|text| Value { text: (*text).to_owned(), pattern: text.contains('*') }).collect();
        Condition { field: field.to_owned(), test: Test::In { values, not: false } }
    }

    #[test]
    fn quotes_keep_what_would_end_a_value() {
        assert_eq!(one("status=COMPLETED"), is_in("status", &["COMPLETED"]));
        assert_eq!(one("workflowType = 'my flow'"), is_in("workflowType", &["my flow"]));
        assert_eq!(one("workflowType = my flow"), is_in("workflowType", &["my flow"]));
        assert_eq!(one("idempotencyKey IN (\"a,b\",'c (d)', e f)"), is_in("idempotencyKey", &["a,b", "c (d)", "e f"]));
        assert_eq!(one(r"correlationId = 'it\'s AND so'"), is_in("correlationId", &["it's AND so"]));
        assert_eq!(one("status in (A)"), is_in("status", &["A"]));
        assert_eq!(one("status IN ()"), is_in("status", &[]));
    }

    #[test]
    fn a_star_is_a_pattern_unless_it_is_escaped() {
        let value = |text: &str| match one(text).test {
            Test::In { mut values, .. } => values.remove(0),
            other => panic!("{other:?}"),
        };
        assert_eq!(value("workflowType = ord*"), Value { text: "ord*".into(), pattern: true });
        assert_eq!(value("workflowType = 'ord*'"), Value { text: "ord*".into(), pattern: true });
        assert_eq!(value(r"workflowType = 'ord\*'"), Value { text: "ord*".into(), pattern: false });
        assert_eq!(value("workflowType STARTS_WITH 'ord'"), Value { text: "ord*".into(), pattern: true });
    }

    #[test]
    fn conditions_are_joined_by_and() {
        let all = parse("workflowType IN (a,b) AND startTime>12 and endTime <= '99' AND status != FAILED").unwrap();
        let all: Vec<Condition> = all.conditions().into_iter().cloned().collect();
        assert_eq!(all.len(), 4);
        assert_eq!(all[1].test, Test::Compare { than: Order::Greater, value: "12".into() });
        assert_eq!(all[2].test, Test::Compare { than: Order::LessOrEqual, value: "99".into() });
        assert!(matches!(&all[3].test, Test::In { not: true, values } if values[0].text == "FAILED"));
        let between = one("startTime BETWEEN 1 AND 2");
        assert_eq!(between.test, Test::Between { from: "1".into(), to: "2".into() });
        assert!(matches!(one("status NOT IN (A, B)").test, Test::In { not: true, values } if values.len() == 2));
        assert_eq!(one("workflowType = ANDROID").field, "workflowType", "a value that begins like the word");
        assert_eq!(parse("  ").unwrap(), Query::All(vec![]));
    }

    #[test]
    fn conditions_are_joined_by_or_and_parentheses() {
        let with = |text: &str, good: &[&str]| {
            let good: Vec<String> = good.iter().map(|name| (*name).to_owned()).collect();
            parse(text).unwrap().judge(&|condition| Ok(good.contains(&condition.field))).unwrap()
        };
        let text = "a = 1 OR b = 'x OR y' and c IN (1, 2) or (d = 4 AND (e = 5 OR f STARTS_WITH g))";
        for (good, holds) in [
            (&["a"][..], true),
            (&["b"], false),
            (&["b", "c"], true),
            (&["d"], false),
            (&["d", "f"], true),
            (&["e", "f"], false),
            (&[], false),
        ] {
            assert_eq!(with(text, good), holds, "{good:?}");
        }
        assert_eq!(one("((a = 1))").field, "a");
        assert_eq!(parse("a = ORDER OR b = 2").unwrap().conditions().len(), 2, "a value that begins like the word");
        assert!(parse(&format!("{}a = 1{}", "(".repeat(17), ")".repeat(17))).is_err());
        assert!(parse(&vec!["a = 1"; 51].join(" OR ")).is_err());
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        for (text, part) in [
            ("status", "one of ="),
            ("= A", "name of a field"),
            ("status = ", "a value is expected"),
            ("status = 'A", "not closed"),
            ("status IN A", "parentheses"),
            ("status IN (A", "closing parenthesis"),
            ("status = A OR", "name of a field"),
            ("(status = A", "closing parenthesis"),
            ("status = A)", "AND or OR"),
            ("a = 'x' b = 'y'", "AND or OR"),
            ("status = A AND", "name of a field"),
            ("startTime BETWEEN 1", "two values"),
            ("status NOT A", "IN is expected"),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(problem.detail.contains(part), "{text}: {}", problem.detail);
        }
    }
}
