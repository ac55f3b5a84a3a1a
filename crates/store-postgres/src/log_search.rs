//! Log lines of many runs.

use crate::PostgresStore;
use crate::codec::Columns;
use crate::reads::{Filter, Param};
use crate::tables::history;
use semel_core::{FlowRef, WorkspaceId};
use semel_store::codec::int;
use semel_store::{LogQuery, LogRow, Result};

fn filter(select: &str, workspace: &WorkspaceId, query: &LogQuery) -> Filter {
    let sql = format!("SELECT {select} FROM logs l JOIN runs r ON r.ws = l.ws AND r.id = l.run WHERE l.ws = $1");
    let mut filter = Filter::new(sql, workspace);
    filter.term(" AND l.run = ?", query.run.map(Param::Run));
    let names = |flows: &Vec<FlowRef>| {
        let names: Vec<String> = flows.iter().map(FlowRef::to_string).collect();
        Param::Text(serde_json::json!(names).to_string())
    };
    filter.term(
        " AND r.namespace || ':' || r.flow_id IN (SELECT json_array_elements_text(?::json))",
        query.flows.as_ref().map(names),
    );
    filter.words("l.level", query.levels.iter().copied());
    filter.term(" AND l.at >= ?", query.from.map(|at| Param::Int(at.0)));
    filter.term(" AND l.at < ?", query.to.map(|at| Param::Int(at.0)));
    filter.term(" AND strpos(lower(l.message), lower(?)) > 0", query.text.clone().map(Param::Text));
    filter
}

impl PostgresStore {
    pub(crate) fn search_logs(
        &self,
        workspace: &WorkspaceId,
        query: &LogQuery,
    ) -> Result<(Vec<(FlowRef, LogRow)>, u64)> {
        let count = filter("count(*)", workspace, query);
        let total = self.one(&count.sql, || count.vals(), |row| row.number(0))?;
        let columns = history::LOGS.columns.len();
        let mut page = filter(&format!("{}, r.namespace, r.flow_id", history::LOGS.names("l.")), workspace, query);
        let way = if query.oldest_first { "ASC" } else { "DESC" };
        page.limit(&format!("l.at {way}, l.run {way}, l.seq {way}"), query.limit);
        page.term(" OFFSET ?", Some(Param::Int(int(query.skip))));
        let rows = self.all(
            &page.sql,
            || page.vals(),
            |row| {
                let flow = FlowRef { namespace: row.text(columns)?, id: row.text(columns + 1)? };
                Ok((flow, history::read_log(row)?))
            },
        )?;
        Ok((rows, total.unwrap_or_default()))
    }
}
