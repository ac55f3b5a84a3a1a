//! The rows of the matrix that are the Kestra door's. A tenant that is not the caller's answers as one that is not there.

use crate::matrix::{Elsewhere, World};
use semel_server::routes::{Route, Verb};

/// Path, body, status, whether it writes, and what a caller of another workspace gets.
pub type Row = (String, String, u16, bool, Elsewhere);

/// The sample of a route; `None` for a route that nobody thought about.
pub fn sample(route: &Route, world: &World) -> Option<Row> {
    let rest = route.path.strip_prefix("/api/v1/{tenant}")?;
    let row = |path: String, body: &str, status: u16, writes: bool| {
        (format!("/api/v1/main{path}"), body.to_owned(), status, writes, Elsewhere::Missing("workspace_unknown"))
    };
    let read = |path: String| row(path, "", 200, false);
    let run = |run: &str, rest: &str| format!("/executions/{run}{rest}");
    Some(match (route.method, rest) {
        (Verb::Get, "/executions/{id}") => read(run(&world.done, "")),
        _ => return crate::matrix_kestra_resources::sample(route, world),
    })
}
