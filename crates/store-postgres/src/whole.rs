//! What a transaction ends with, in as few statements as can be.
//!
//! Most batches are events that nobody has sent before: they only add rows. Each of their statements costs the database
//! about a tenth of a millisecond before it has written a row: it is read, taken apart and planned anew each time, because
//! a statement that is prepared by name does not survive a pooler. The plans inside a function are kept by the connection
//! that runs it, whoever sits in front of it. So such a batch is one call.

use crate::classify::LOST_PLACE;
use crate::codec::{Param, Statement, Table, Val, list};
use crate::tables::{claims, decisions, history, runs};
use uuid::Uuid;

/// The row of a writer, which each of its transactions raises by one if it is as it was left.
pub struct Own {
    pub node: Uuid,
    pub writer: i64,
    pub next: i64,
    pub now: i64,
}

impl Own {
    fn values(&self) -> Vec<Val<'static>> {
        vec![Val::Id(Some(self.node)), Val::int(self.writer), Val::int(self.next), Val::int(self.now)]
    }

    fn statement(&self) -> Statement {
        let sql = format!(
            "WITH done AS (UPDATE batches SET counter = $3, clock_ms = greatest(clock_ms, $4) WHERE node = $1 \
             AND writer = $2 AND counter = $3 - 1 AND NOT fenced RETURNING 1) \
             SELECT must((SELECT count(*) FROM done) = 1, '{LOST_PLACE}')"
        );
        Statement::new(sql, self.values())
    }
}

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

/// The row of the writer first, then the changes.
pub fn ending(own: &Own, changes: Vec<Statement>) -> Vec<Statement> {
    let place = |statement: &Statement| TABLES.iter().position(|table| statement.inserts == Some(table.name));
    let places: Option<Vec<usize>> = changes.iter().map(place).collect();
    if changes.is_empty() || !places.is_some_and(|places| places.is_sorted_by(|a, b| a < b)) {
        return std::iter::once(own.statement()).chain(changes).collect();
    }
    let mut params: Vec<Param> = own.values().into_iter().map(Val::param).collect();
    let mut given = changes.into_iter().peekable();
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
    let mut from = 5;
    let mut insert = |table: &&Table| {
        let values = crate::codec::unnest(from, table.columns.len());
        from += table.columns.len();
        format!("    INSERT INTO {} ({}) SELECT * FROM {values};\n", table.name, table.names(""))
    };
    let own = "    UPDATE batches SET counter = $3, clock_ms = greatest(clock_ms, $4) WHERE node = $1 AND writer = $2 \
               AND counter = $3 - 1 AND NOT fenced;\n    PERFORM must(FOUND, 'SM002');\n";
    format!(
        "CREATE FUNCTION write_rows(\n    uuid, bigint, bigint, bigint,\n{}\n) RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n\
         {own}{}END $$;\n",
        TABLES.iter().map(types).collect::<Vec<_>>().join(",\n"),
        TABLES.iter().map(&mut insert).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_function_for_these_tables() {
        let newest = include_str!("../migrations/0007.sql");
        assert!(newest.ends_with(&function()), "a table has changed: a new migration needs\n{}", function());
    }

    fn insert(table: &Table) -> Statement {
        table.insert(table.rows())
    }

    #[test]
    fn only_what_adds_rows_is_one_call() {
        let own = Own { node: Uuid::nil(), writer: 0, next: 1, now: 0 };
        let count = |changes: Vec<Statement>| ending(&own, changes).len();
        let all = || vec![insert(&claims::CLAIMS), insert(&runs::RUNS), insert(&decisions::DECISIONS)];
        let one = ending(&own, all());
        assert_eq!(one.len(), 1);
        let columns: usize = TABLES.iter().map(|table| table.columns.len()).sum();
        assert_eq!(one[0].params.len(), columns + 4);
        assert!(columns + 4 <= 100, "a function has no more arguments");

        assert_eq!(count(vec![]), 1, "the row of the writer alone");
        assert_eq!(count(all().into_iter().chain([insert(&history::TIMERS)]).collect()), 5);
        let delete = claims::CLAIMS.delete(claims::CLAIMS.keys());
        assert_eq!(count(std::iter::once(delete).chain(all()).collect()), 5);
        assert_eq!(count(all().into_iter().rev().collect()), 4);
    }
}
