//! What people do to several executions: to those that are named, or to all that a search finds.
//!
//! All or nothing as far as that can be known before: if one of them is unknown or its state does not allow it, nothing
//! is done, and the answer names those. One that changes between the look and the act is left as it is, and not counted.

use super::act::{self, Act};
use super::{change, query};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::doors::kestra::execution;
use crate::doors::kestra::flows::show::flag;
use crate::json;
use crate::problem::Problem;
use semel_core::RunId;
use semel_core::run::KestraState;
use semel_engine::{Control, FlowLookupError, ReplayWish};
use semel_store::RunRow;
use semel_store::search::RunSearch;
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// Executions that one search may act on.
const FOUND_MAX: usize = 100_000;
/// Refused ones that an answer names.
const NAMED_MAX: usize = 100;

/// What is asked for of each.
enum Wish {
    Act(Act),
    /// `latest`: in the newest revision of its flow, not in its own.
    Replay {
        latest: bool,
    },
    ForceRun,
    Unqueue(Control),
    ChangeStatus(Control),
    /// These beside those it has.
    Labels(Json),
}

impl Wish {
    fn word(&self) -> &'static str {
        match self {
            Wish::Act(act) => act.word(),
            Wish::Replay { .. } => "replay",
            Wish::ForceRun => "force run",
            Wish::Unqueue(_) => "unqueue",
            Wish::ChangeStatus(_) => "change execution status",
            Wish::Labels(_) => "set labels",
        }
    }

    /// Why the state of a run does not allow it, as far as its head tells.
    fn refused(&self, row: &RunRow) -> Option<&'static str> {
        let state = execution::state_of(row);
        match self {
            Wish::Act(act) => act.refused(row),
            Wish::Replay { .. } if row.open_doubts > 0 => Some("an effect is in doubt; give a verdict first"),
            Wish::Replay { .. } if row.erased => Some("the execution was erased"),
            Wish::Replay { .. } | Wish::ChangeStatus(_) | Wish::Labels(_) => {
                (!state.is_terminal()).then_some("execution is not terminated")
            }
            Wish::ForceRun => state.is_terminal().then_some("execution in a terminated state"),
            Wish::Unqueue(_) => (state != KestraState::Queued).then_some("execution not in state QUEUED"),
        }
    }

    async fn perform(&self, call: &Call, id: RunId) -> Result<(), Problem> {
        let control = match self {
            Wish::Act(act) => return act::perform(call, *act, id).await,
            Wish::Replay { latest } => {
                let revision = if *latest { Some(newest(call, id).await?) } else { None };
                return change::replayed(call, id, ReplayWish { revision, ..ReplayWish::default() }).await.map(|_| ());
            }
            Wish::ForceRun => Control::ForceRun { queued: false },
            Wish::Unqueue(control) | Wish::ChangeStatus(control) => control.clone(),
            Wish::Labels(given) => Control::SetLabels { labels: added(call, id, given).await? },
        };
        call.app.control(call.workspace()?, id, control, call.by(None)?).await
    }
}

/// The newest revision of the flow of an execution.
async fn newest(call: &Call, id: RunId) -> Result<u32, Problem> {
    let row = act::head(call, id).await?.ok_or_else(Problem::run_unknown)?;
    match call.app.engine().flow(&call.workspace()?, &row.flow) {
        Ok(flow) => Ok(flow.revision),
        Err(FlowLookupError::Store(error)) => Err(error.into()),
        Err(_) => Err(Problem::new(Code::NotPossible, "the flow is gone; replay the execution in its own revision")),
    }
}

/// The labels of an execution that are not the system's, with the given ones.
async fn added(call: &Call, id: RunId, given: &Json) -> Result<Vec<(String, String)>, Problem> {
    let workspace = call.workspace()?;
    let found = call.app.read(move |store| store.run(&workspace, id)).await?;
    let (row, _, known) = found.ok_or_else(Problem::run_unknown)?;
    let new = change::labels(given, &row, &known)?;
    let is_new = |key: &String| new.iter().any(|(name, _)| name == key);
    let mut labels: Vec<(String, String)> =
        known.into_iter().filter(|(key, _)| !key.starts_with(semel_core::labels::SYSTEM) && !is_new(key)).collect();
    labels.extend(new);
    Ok(labels)
}

/// What may be acted on, and what may not.
#[derive(Default)]
struct Looked {
    good: Vec<RunId>,
    invalids: Vec<Json>,
}

impl Looked {
    fn refuse(&mut self, name: &str, why: &str) {
        if self.invalids.len() < NAMED_MAX {
            self.invalids.push(json!({"message": why, "invalidValue": name}));
        }
    }

    fn look(&mut self, row: &RunRow, labels: &[(String, String)], wish: &Wish) -> Result<(), Problem> {
        match wish.refused(row) {
            Some(why) => self.refuse(&row.id.to_string(), why),
            None => self.good.push(row.id),
        }
        // A label that cannot be given is refused before any is.
        match wish {
            Wish::Labels(given) => change::labels(given, row, labels).map(|_| ()),
            _ => Ok(()),
        }
    }

    async fn act(mut self, call: &Call, wish: &Wish) -> Answer {
        if !self.invalids.is_empty() {
            let detail = format!("invalid bulk {}", wish.word());
            return Err(Problem::new(Code::BulkInvalid, detail).with("invalids", self.invalids.into()));
        }
        // One may stand on two pages if others came in between.
        self.good.sort();
        self.good.dedup();
        if let Wish::Act(Act::Delete { live: true }) = wish {
            // All at once, and then each is waited for.
            for id in &self.good {
                match act::end(call, *id).await {
                    Err(problem) if problem.code != Code::RunUnknown => return Err(problem),
                    _ => {}
                }
            }
        }
        let mut count = 0_u64;
        for id in self.good {
            match wish.perform(call, id).await {
                Ok(()) => count += 1,
                Err(problem) if matches!(problem.code, Code::NotPossible | Code::RunUnknown) => {}
                Err(problem) => return Err(problem),
            }
        }
        ok(json!({"count": count}))
    }
}

/// The ids of the body: a JSON list of texts.
fn ids(call: &Call) -> Result<Vec<String>, Problem> {
    let wrong = || Problem::field("body", "must be a list of execution ids");
    let body = json::parse(if call.body.is_empty() { b"[]" } else { &call.body }, call.app.limits().json_depth_max)?;
    let items = body.as_array().ok_or_else(wrong)?;
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

async fn named(call: &Call, wish: Wish, mut ids: Vec<String>) -> Answer {
    let most = call.app.limits().page_rows_max as usize;
    if ids.len() > most {
        return Err(Problem::field("body", format!("at most {most} executions at once")));
    }
    let mut looked = Looked::default();
    ids.sort();
    ids.dedup();
    for text in ids {
        let found = match text.parse::<RunId>() {
            Ok(id) => {
                let workspace = call.workspace()?;
                call.app.read(move |store| store.run(&workspace, id)).await?
            }
            Err(()) => None,
        };
        match found {
            Some((row, _, labels)) => looked.look(&row, &labels, &wish)?,
            None => looked.refuse(&text, "execution not found"),
        }
    }
    looked.act(call, &wish).await
}

async fn by_ids(call: &Call, wish: Wish) -> Answer {
    named(call, wish, ids(call)?).await
}

async fn by_query(call: &Call, wish: Wish) -> Answer {
    let search = query::search(call).await?;
    let limit = call.app.limits().page_rows_max;
    let (mut looked, mut offset) = (Looked::default(), 0_u64);
    loop {
        let page = RunSearch { limit, offset, ..search.clone() };
        let workspace = call.workspace()?;
        let (runs, total) = call.app.read(move |store| store.search_runs(&workspace, &page)).await?;
        if total > FOUND_MAX as u64 {
            let detail =
                format!("the search finds {total} executions, and at most {FOUND_MAX} are acted on; narrow it");
            return Err(Problem::new(Code::BulkInvalid, detail));
        }
        for (row, _, labels) in &runs {
            looked.look(row, labels, &wish)?;
        }
        offset += u64::from(limit);
        if runs.len() < limit as usize {
            return looked.act(call, &wish).await;
        }
    }
}

macro_rules! bulk {
    ($($by_ids:ident, $by_query:ident: $act:expr;)+) => {
        $(
            pub async fn $by_ids(call: Call) -> Answer {
                by_ids(&call, Wish::Act($act)).await
            }

            pub async fn $by_query(call: Call) -> Answer {
                by_query(&call, Wish::Act($act)).await
            }
        )+
    };
}

bulk! {
    // Kestra kills several without those that they have started.
    kill_by_ids, kill_by_query: Act::Kill { alone: true };
    restart_by_ids, restart_by_query: Act::Restart { revision: None };
    pause_by_ids, pause_by_query: Act::Pause;
    resume_by_ids, resume_by_query: Act::Resume;
}

fn delete(call: &Call) -> Result<Wish, Problem> {
    act::goes_as_a_whole(call)?;
    Ok(Wish::Act(Act::Delete { live: flag(&call.query, "includeNonTerminated", false)? }))
}

pub async fn delete_by_ids(call: Call) -> Answer {
    by_ids(&call, delete(&call)?).await
}

pub async fn delete_by_query(call: Call) -> Answer {
    by_query(&call, delete(&call)?).await
}

pub async fn replay_by_ids(call: Call) -> Answer {
    let latest = flag(&call.query, "latestRevision", false)?;
    by_ids(&call, Wish::Replay { latest }).await
}

pub async fn replay_by_query(call: Call) -> Answer {
    let latest = flag(&call.query, "latestRevision", false)?;
    by_query(&call, Wish::Replay { latest }).await
}

pub async fn force_run_by_ids(call: Call) -> Answer {
    by_ids(&call, Wish::ForceRun).await
}

pub async fn force_run_by_query(call: Call) -> Answer {
    by_query(&call, Wish::ForceRun).await
}

pub async fn unqueue_by_ids(call: Call) -> Answer {
    let control = change::unqueued(&call, "state")?;
    by_ids(&call, Wish::Unqueue(control)).await
}

/// `state` is one of the search's own parameters.
pub async fn unqueue_by_query(call: Call) -> Answer {
    let control = change::unqueued(&call, "newState")?;
    by_query(&call, Wish::Unqueue(control)).await
}

pub async fn change_status_by_ids(call: Call) -> Answer {
    let control = change::ending(&call, "newStatus")?;
    by_ids(&call, Wish::ChangeStatus(control)).await
}

pub async fn change_status_by_query(call: Call) -> Answer {
    let control = change::ending(&call, "newStatus")?;
    by_query(&call, Wish::ChangeStatus(control)).await
}

#[derive(Deserialize)]
struct Labelled {
    #[serde(rename = "executionsId")]
    ids: Vec<String>,
    #[serde(rename = "executionLabels")]
    labels: Json,
}

pub async fn labels_by_ids(call: Call) -> Answer {
    let given: Labelled = json::parse_as(&call.body, call.app.limits().json_depth_max)?;
    named(&call, Wish::Labels(given.labels), given.ids).await
}

pub async fn labels_by_query(call: Call) -> Answer {
    let given = json::parse(&call.body, call.app.limits().json_depth_max)?;
    by_query(&call, Wish::Labels(given)).await
}
