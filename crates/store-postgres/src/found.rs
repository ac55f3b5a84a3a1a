//! Runs that are searched for: any filter, exact totals.

use crate::classify::Error;
use crate::codec::{Columns, Statement, Val};
use crate::reads::{WHOLE, read_whole, text, whole_columns};
use crate::session::Session;
use crate::shared::Shared;
use semel_core::{FlowRef, WorkspaceId};
use semel_store::WholeRun;
use semel_store::search::{Bind, Dialect, RunSearch};
use tokio_postgres::Row;

const DIALECT: Dialect =
    Dialect { place: "strpos", id_text: |column| format!("{column}::text"), glob: ("LIKE ? ESCAPE '\\'", pattern) };

/// A `*` is any text; what means something to LIKE stands for itself.
fn pattern(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_").replace('*', "%")
}

fn value(bind: &Bind, workspace: &WorkspaceId) -> Val<'static> {
    match bind {
        Bind::Workspace => text(&workspace.0),
        Bind::Text(given) => text(given),
        Bind::Int(number) => Val::int(*number),
        Bind::Run(id) => Val::run(*id),
    }
}

/// The text with `$1`, `$2` … for each `?`. No user value is in it.
fn numbered(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut number = 0;
    for piece in text.split_inclusive('?') {
        match piece.strip_suffix('?') {
            Some(before) => {
                number += 1;
                out += &format!("{before}${number}");
            }
            None => out += piece,
        }
    }
    out
}

pub fn page(
    session: &Session,
    shared: &Shared,
    workspace: &WorkspaceId,
    search: &RunSearch,
) -> Result<(Vec<WholeRun>, u64), Error> {
    let conditions = search.conditions(DIALECT);
    let terms = &conditions.text;
    let values = || -> Vec<Val<'static>> {
        std::iter::once(text(&workspace.0)).chain(conditions.binds.iter().map(|bind| value(bind, workspace))).collect()
    };
    let count = numbered(&format!("SELECT count(*) FROM runs r WHERE r.ws = ?{terms}"));
    let columns = whole_columns();
    let order = search.order();
    let page =
        numbered(&format!("SELECT {columns} FROM {WHOLE} WHERE r.ws = ?{terms} ORDER BY {order} LIMIT ? OFFSET ?"));
    let mut paged = values();
    paged.push(Val::int(search.limit));
    paged.push(Val::int(i64::try_from(search.offset).unwrap_or(i64::MAX)));
    let statements = vec![Statement::new(count, values()), Statement::new(page, paged)];
    let rows = session.snapshot(&shared.begin_read, statements)?;
    let total = rows[0].first().map(|row| row.number(0)).transpose()?.unwrap_or(0);
    let found = rows[1].iter().map(read_whole).collect::<Result<Vec<WholeRun>, Error>>()?;
    Ok((found, total))
}

pub fn read_flow(row: &Row) -> Result<FlowRef, Error> {
    Ok(FlowRef { namespace: row.text(0)?, id: row.text(1)? })
}
