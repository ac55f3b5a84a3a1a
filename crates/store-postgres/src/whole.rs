//! A batch that only adds rows, as one call.
//!
//! Most batches are events that nobody has sent before. Each of their statements costs the database about a tenth of a
//! millisecond before it has written a row: it is read, taken apart and planned anew each time, because a statement that
//! is prepared by name does not survive a pooler. The plans inside a function are kept by the connection that runs it,
//! whoever sits in front of it.

use crate::codec::{Param, Statement, Table, list};
use crate::tables::{claims, decisions, history, runs};

/// In the order in which [`crate::flush`] writes them.
const TABLES: [&Table; 7] = [
    &claims::CLAIMS,
    &runs::RUNS,
    &runs::VALUES,
    &runs::LABELS,
    &history::JOURNAL,
    &history::LOGS,
    &decisions::DECISIONS,
];

/// One statement instead of several, if all of them only add rows to these tables.
pub fn joined(statements: Vec<Statement>) -> Vec<Statement> {
    let place = |statement: &Statement| TABLES.iter().position(|table| statement.inserts == Some(table.name));
    let places: Option<Vec<usize>> = statements.iter().map(place).collect();
    if statements.len() < 2 || !places.is_some_and(|places| places.is_sorted_by(|a, b| a < b)) {
        return statements;
    }
    let mut given = statements.into_iter().peekable();
    let mut params: Vec<Param> = Vec::new();
    for table in TABLES {
        match given.next_if(|statement| statement.inserts == Some(table.name)) {
            Some(statement) => params.extend(statement.params),
            None => params.extend(table.rows().params()),
        }
    }
    let places = list((1..=params.len()).map(|n| format!("${n}")));
    vec![Statement { sql: format!("SELECT write_rows({places})").into(), params, inserts: None }]
}

/// The function as the schema must have it.
#[cfg(test)]
fn function() -> String {
    use crate::codec::Kind;
    let kind = |kind: Kind| match kind {
        Kind::Int => "bigint[]",
        Kind::Text => "text[]",
        Kind::Bytes => "bytea[]",
        Kind::Id => "uuid[]",
        Kind::Bool => "boolean[]",
    };
    let types = |table: &&Table| format!("    {}", list(table.columns.iter().map(|(_, of)| kind(*of).to_owned())));
    let mut from = 1;
    let mut insert = |table: &&Table| {
        let values = crate::codec::unnest(from, table.columns.len());
        from += table.columns.len();
        format!("    INSERT INTO {} ({}) SELECT * FROM {values};\n", table.name, table.names(""))
    };
    format!(
        "CREATE FUNCTION write_rows(\n{}\n) RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n{}END $$;\n",
        TABLES.iter().map(types).collect::<Vec<_>>().join(",\n"),
        TABLES.iter().map(&mut insert).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_function_for_these_tables() {
        let newest = include_str!("../migrations/0003.sql");
        assert!(newest.ends_with(&function()), "a table has changed: a new migration needs\n{}", function());
    }

    fn insert(table: &Table) -> Statement {
        table.insert(table.rows())
    }

    #[test]
    fn only_what_adds_rows_is_joined() {
        let all = || vec![insert(&claims::CLAIMS), insert(&runs::RUNS), insert(&decisions::DECISIONS)];
        let joined_one = joined(all());
        assert_eq!(joined_one.len(), 1);
        let columns: usize = TABLES.iter().map(|table| table.columns.len()).sum();
        assert_eq!(joined_one[0].params.len(), columns);
        assert!(columns <= 100, "a function has no more arguments");

        assert_eq!(joined(vec![insert(&runs::RUNS)]).len(), 1);
        let mut more = all();
        more.push(history::TIMERS.insert(history::TIMERS.rows()));
        assert_eq!(joined(more).len(), 4);
        let mut guarded = all();
        guarded.insert(0, claims::CLAIMS.delete(claims::CLAIMS.keys()));
        assert_eq!(joined(guarded).len(), 4);
        let mut turned = all();
        turned.reverse();
        assert_eq!(joined(turned).len(), 3);
    }
}
