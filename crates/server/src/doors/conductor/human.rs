//! `/api/human/tasks`: tasks that people do. Each is an errand; beside it is kept who it is for and who has it.
//!
//! | state | when |
//! |---|---|
//! | PENDING | it is for nobody in particular |
//! | ASSIGNED | it is for somebody, who has not taken it |
//! | IN_PROGRESS | somebody has it |
//! | COMPLETED | it was completed here; that is known for [`REMEMBERED_MS`] |
//!
//! Who takes a task takes it alone: the note of it is written only where there is none.

use super::human_templates;
use super::task::{handed, id_text, read_id, unknown};
use super::{body, documents, done};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::Hash16;
use semel_core::ir::ErrandKind;
use semel_engine::{ErrandAnswer, ErrandError};
use semel_store::{Done, ErrandRow, ErrandWord, HUMAN_TASKS};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

/// Where the input of a task says who it is for.
const DEFINITION: &str = "__humanTaskDefinition";
const REMEMBERED_MS: i64 = 30 * 86_400_000;
/// Tasks that are looked through.
const LOOKED_MAX: usize = 5_000;
const PAGE: u32 = 500;
const SIZE_MAX: u64 = 1_000;

/// A task with what is noted of it.
struct Human {
    row: ErrandRow,
    task: Json,
    assignee: Option<Json>,
    /// Which of its assignments counts.
    place: usize,
    claimant: Option<Json>,
}

fn note_key(id: Hash16, what: &str) -> String {
    format!("{}\n{what}", id_text(id))
}

impl Human {
    fn id(&self) -> Hash16 {
        self.row.id
    }

    fn definition(&self) -> &Json {
        &self.task["inputData"][DEFINITION]
    }

    fn assignments(&self) -> Vec<Json> {
        self.definition()["assignments"].as_array().cloned().unwrap_or_default()
    }

    fn state(&self) -> &'static str {
        match (&self.claimant, &self.assignee) {
            (Some(_), _) => "IN_PROGRESS",
            (None, Some(_)) => "ASSIGNED",
            (None, None) => "PENDING",
        }
    }

    fn entry(&self, payloads: bool) -> Json {
        let mut input = self.task["inputData"].as_object().cloned().unwrap_or_default();
        let definition = input.remove(DEFINITION).unwrap_or_else(|| json!({}));
        let hidden = |value: Json| if payloads { value } else { json!({}) };
        let progress = self.row.more.progress.as_ref().map(semel_engine::public_json);
        json!({
            "taskId": id_text(self.id()),
            "taskRefName": self.task["referenceTaskName"],
            "definitionName": self.task["taskDefName"],
            "displayName": definition["displayName"],
            "workflowId": self.row.run.to_string(),
            "workflowName": self.task["workflowType"],
            "state": self.state(),
            "assignee": self.assignee,
            "claimant": self.claimant,
            "humanTaskDef": definition,
            "input": hidden(Json::Object(input)),
            "output": hidden(progress.unwrap_or_else(|| json!({}))),
            "createdOn": self.row.more.set_at.0,
            "updatedOn": self.row.more.seen.taken_at.unwrap_or(self.row.more.set_at).0,
        })
    }
}

/// The user of a note or of an assignment.
fn same_user(one: &Json, other: &Json) -> bool {
    one["user"] == other["user"] && (one["userType"] == other["userType"] || other["userType"].is_null())
}

async fn loaded(call: &Call, row: ErrandRow) -> Result<Human, Problem> {
    let errand = call.app.engine().errand_of(&call.workspace()?, row.clone())?;
    let task = handed(call.app.engine(), &call.workspace()?, &[errand])?.remove(0);
    let assigned = documents::find(call, HUMAN_TASKS, &note_key(row.id, "assignee")).await?.map(|row| row.value);
    let claimant = documents::find(call, HUMAN_TASKS, &note_key(row.id, "claimant")).await?.map(|row| row.value);
    let mut human = Human { row, task, assignee: None, place: 0, claimant };
    (human.assignee, human.place) = match assigned {
        Some(note) => {
            let place = note["place"].as_u64().and_then(|place| usize::try_from(place).ok());
            (Some(note["assignee"].clone()).filter(Json::is_object), place.unwrap_or(0))
        }
        None => (human.assignments().first().map(|one| one["assignee"].clone()).filter(Json::is_object), 0),
    };
    Ok(human)
}

async fn find(call: &Call) -> Result<Human, Problem> {
    let text = call.param("id")?;
    let id = read_id(text).ok_or_else(|| unknown(text))?;
    let row = super::tasks::row(call, id).await?;
    if row.kind != ErrandKind::Human || !row.open {
        return Err(unknown(text));
    }
    loaded(call, row).await
}

async fn with_template(call: &Call, mut entry: Json) -> Result<Json, Problem> {
    let named = &entry["humanTaskDef"]["userFormTemplate"];
    let version = named["version"].as_u64().and_then(|version| u32::try_from(version).ok());
    if let (true, Some(name)) = (body::query_flag(call, "withTemplate", false)?, named["name"].as_str())
        && let Some(template) = human_templates::find(call, name, version).await?
    {
        entry["humanTaskDef"]["fullTemplate"] = template;
    }
    Ok(entry)
}

pub async fn get(call: Call) -> Answer {
    let text = call.param("id")?.to_owned();
    let ended = read_id(&text).map(|id| note_key(id, "ended")).unwrap_or_default();
    if let Some(row) = documents::find(&call, HUMAN_TASKS, &ended).await? {
        return ok(hide(row.value, call.sees_payloads()));
    }
    let entry = find(&call).await?.entry(call.sees_payloads());
    ok(with_template(&call, entry).await?)
}

fn hide(mut entry: Json, payloads: bool) -> Json {
    if !payloads {
        (entry["input"], entry["output"]) = (json!({}), json!({}));
    }
    entry
}

/// Those that are waited for.
async fn open(call: &Call) -> Result<Vec<Json>, Problem> {
    let mut found = Vec::new();
    let mut after = None;
    while found.len() < LOOKED_MAX {
        let workspace = call.workspace()?;
        let read = move |store: &dyn semel_store::Store| store.errands(&workspace, ErrandKind::Human, after, PAGE);
        let rows = call.app.read(read).await?;
        let Some(last) = rows.last() else { break };
        after = Some(last.id);
        for row in rows {
            found.push(loaded(call, row).await?.entry(true));
        }
    }
    Ok(found)
}

pub async fn search(call: Call) -> Answer {
    let wanted = Wanted(body::object(&call)?);
    let start = usize::try_from(body::whole(&wanted.0, "start")?.unwrap_or(0)).unwrap_or(usize::MAX);
    let size = usize::try_from(body::whole(&wanted.0, "size")?.unwrap_or(15).min(SIZE_MAX)).unwrap_or(15);
    let mut found = open(&call).await?;
    if wanted.names("states")?.is_some_and(|states| states.iter().any(|state| state == "COMPLETED")) {
        let ended = documents::all(&call, HUMAN_TASKS, "").await?;
        found.extend(ended.into_iter().filter(|row| row.key.ends_with("\nended")).map(|row| row.value));
    }
    let mut results = Vec::new();
    for entry in found {
        if wanted.fits(&entry)? {
            results.push(hide(entry, call.sees_payloads()));
        }
    }
    results.sort_by_key(|entry| std::cmp::Reverse(entry["createdOn"].as_i64()));
    let total = results.len();
    let shown: Vec<Json> = results.into_iter().skip(start).take(size).collect();
    ok(json!({"start": start, "pageSizeLimit": SIZE_MAX, "hits": shown.len(), "totalHits": total, "results": shown}))
}

/// A HumanTaskSearch.
struct Wanted(Map<String, Json>);

impl Wanted {
    fn names(&self, field: &str) -> Result<Option<Vec<String>>, Problem> {
        match self.0.get(field) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Array(items)) if items.is_empty() => Ok(None),
            Some(Json::Array(items)) => {
                Ok(Some(items.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()))
            }
            Some(_) => Err(Problem::field(field, "must be a list")),
        }
    }

    fn users(&self, field: &str) -> Vec<Json> {
        self.0.get(field).and_then(Json::as_array).cloned().unwrap_or_default()
    }

    fn fits(&self, entry: &Json) -> Result<bool, Problem> {
        let lists = [
            ("states", "state"),
            ("taskRefNames", "taskRefName"),
            ("definitionNames", "definitionName"),
            ("displayNames", "displayName"),
            ("workflowIds", "workflowId"),
            ("workflowNames", "workflowName"),
        ];
        for (field, own) in lists {
            let given = self.names(field)?;
            if given.is_some_and(|names| !names.iter().any(|name| entry[own] == name.as_str())) {
                return Ok(false);
            }
        }
        for (field, own) in [("assignees", "assignee"), ("claimants", "claimant")] {
            let users = self.users(field);
            if !users.is_empty() && !users.iter().any(|user| same_user(&entry[own], user)) {
                return Ok(false);
            }
        }
        for (field, own) in [("taskInputQuery", "input"), ("taskOutputQuery", "output")] {
            let text = body::field(&self.0, field)?.filter(|text| !text.is_empty());
            if text.is_some_and(|text| !entry[own].to_string().contains(&text)) {
                return Ok(false);
            }
        }
        let text = body::field(&self.0, "fullTextQuery")?.filter(|text| !text.is_empty() && text != "*");
        Ok(text.is_none_or(|text| entry.to_string().contains(&text)))
    }
}

/// Takes a task for somebody.
async fn take(call: &Call, user: Json) -> Answer {
    let human = find(call).await?;
    let over = body::query_flag(call, "overrideAssignment", false)?;
    let is_group = |one: &Json| one["userType"].as_str().is_some_and(|kind| kind.ends_with("GROUP"));
    if let Some(assignee) = human.assignee.as_ref().filter(|one| !is_group(one) && one["user"] != user["user"] && !over)
    {
        let detail = format!("the task is assigned to {}; claim it with overrideAssignment=true", assignee["user"]);
        return Err(Problem::new(Code::NotPossible, detail));
    }
    let key = note_key(human.id(), "claimant");
    let written = |overwrite: bool| -> Result<_, Problem> {
        let workspace = call.workspace()?;
        Ok(documents::written(workspace, HUMAN_TASKS, key.clone(), user.clone(), overwrite, None))
    };
    let taken = matches!(call.app.write(written(over)?).await?, Done::Kv(Some(_)));
    if !taken && human.claimant.as_ref().is_none_or(|known| *known != user) {
        let owner = documents::find(call, HUMAN_TASKS, &key).await?.map(|row| row.value);
        if owner.as_ref() != Some(&user) {
            return Err(Problem::new(Code::NotPossible, "the task is claimed already; release it first"));
        }
    }
    let entry = find(call).await?.entry(call.sees_payloads());
    ok(with_template(call, entry).await?)
}

pub async fn claim(call: Call) -> Answer {
    let user = json!({"user": call.principal()?.name, "userType": "CONDUCTOR_USER"});
    take(&call, user).await
}

pub async fn claim_for(call: Call) -> Answer {
    let user = json!({"user": call.param("user")?, "userType": "EXTERNAL_USER"});
    take(&call, user).await
}

pub async fn release(call: Call) -> Answer {
    let human = find(&call).await?;
    documents::delete(&call, HUMAN_TASKS, &note_key(human.id(), "claimant")).await?;
    done()
}

async fn assign(call: &Call, human: &Human, assignee: &Json, place: usize) -> Answer {
    let note = json!({"assignee": assignee, "place": place});
    documents::put(call, HUMAN_TASKS, note_key(human.id(), "assignee"), note).await?;
    documents::delete(call, HUMAN_TASKS, &note_key(human.id(), "claimant")).await?;
    done()
}

/// To the first of the assignments that are sent.
pub async fn reassign(call: Call) -> Answer {
    let human = find(&call).await?;
    let given = body::list(&call)?;
    let first = given.first().map(|one| &one["assignee"]).filter(|one| one["user"].is_string());
    let first = first.ok_or_else(|| {
        Problem::new(Code::BodyInvalid, "the body is a list of {\"assignee\": {\"user\", \"userType\"}}")
    })?;
    assign(&call, &human, first, 0).await
}

/// To whom the definition names next.
pub async fn skip(call: Call) -> Answer {
    let human = find(&call).await?;
    let next = human.place + 1;
    match human.assignments().get(next) {
        Some(one) => assign(&call, &human, &one["assignee"].clone(), next).await,
        None => Err(Problem::new(Code::NotPossible, "nobody is named after whom it is assigned to; reassign it")),
    }
}

pub async fn update(call: Call) -> Answer {
    let human = find(&call).await?;
    settle(&call, human).await
}

/// The same for the task of a workflow, by its name.
pub async fn update_by_name(call: Call) -> Answer {
    let needed = |name: &str| -> Result<String, Problem> {
        body::query(&call, name)?.ok_or_else(|| Problem::query(name, "is missing"))
    };
    let (run, reference) = (needed("workflowId")?, needed("taskRefName")?);
    let run = run.parse().map_err(|()| super::workflow::unknown(&run))?;
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.errands_of(&workspace, run)).await?;
    let step = semel_core::ir::step_name(&reference);
    let own = |row: &ErrandRow| row.open && row.kind == ErrandKind::Human && row.more.step.task_id() == step;
    let row = rows.into_iter().filter(own).max_by_key(|row| (row.more.set_at, row.more.attempt));
    let row = row.ok_or_else(|| unknown(&reference))?;
    settle(&call, loaded(&call, row).await?).await
}

/// Keeps what is said so far, or ends the task with it.
async fn settle(call: &Call, human: Human) -> Answer {
    let mut output = match human.row.more.progress.as_ref().map(semel_engine::public_json) {
        Some(Json::Object(fields)) => fields,
        _ => Map::new(),
    };
    output.extend(body::object(call)?);
    let (engine, workspace, id) = (call.app.engine().clone(), call.workspace()?, human.id());
    let (said, by) = (Json::Object(output), Some(call.principal()?.name.clone()));
    let complete = body::query_flag(call, "complete", false)?;
    let (kept, row) = (said.clone(), human.row.clone());
    let telling = tokio::spawn(async move {
        match complete {
            true => engine.answer_errand(&workspace, row, ErrandAnswer::Done { output: kept }, by).await,
            false => {
                let word = ErrandWord::Later { progress: Some(kept), after_ms: 0 };
                engine.touch_errand(&workspace, id, by, word).await
            }
        }
    });
    match telling.await.map_err(|_| Problem::internal("a write panicked"))? {
        Ok(_) => {}
        Err(ErrandError::Over(_) | ErrandError::Unknown) => return Err(unknown(&id_text(id))),
        Err(ErrandError::Store(error)) => return Err(error.into()),
    }
    if complete {
        remember(call, &human, said).await?;
    }
    done()
}

/// `DELETE /human/tasks/delete/{id}`: forgets a task that has ended. One that is waited for stays: its workflow would
/// wait for ever.
pub async fn delete(call: Call) -> Answer {
    delete_one(&call, call.param("id")?).await?;
    done()
}

/// The same for a list of them; nothing is forgotten if one of them cannot be.
pub async fn delete_many(call: Call) -> Answer {
    let ids = body::texts(&call)?;
    for id in &ids {
        refuse_open(&call, id).await?;
    }
    for id in &ids {
        delete_one(&call, id).await?;
    }
    done()
}

async fn delete_one(call: &Call, text: &str) -> Result<(), Problem> {
    let id = refuse_open(call, text).await?;
    for what in ["ended", "assignee", "claimant"] {
        documents::delete(call, HUMAN_TASKS, &note_key(id, what)).await?;
    }
    Ok(())
}

/// One that has ended, or was forgotten before: clients repeat what they got no answer to.
async fn refuse_open(call: &Call, text: &str) -> Result<Hash16, Problem> {
    let id = read_id(text).ok_or_else(|| unknown(text))?;
    let row = match super::tasks::row(call, id).await {
        Ok(row) => row,
        // Its workflow was removed.
        Err(problem) if problem.code == Code::TaskUnknown => {
            let known = documents::find(call, HUMAN_TASKS, &note_key(id, "ended")).await?;
            return known.map(|_| id).ok_or(problem);
        }
        Err(problem) => return Err(problem),
    };
    if row.kind != ErrandKind::Human {
        return Err(unknown(text));
    }
    if row.open {
        let detail = format!("workflow {} waits for the task {text}; complete it, or end the workflow", row.run);
        return Err(Problem::new(Code::NotPossible, detail));
    }
    Ok(id)
}

/// `GET /human/tasks/getTaskDisplayNames`: of all that are open, or with `searchType=INBOX` of those of the caller.
pub async fn display_names(call: Call) -> Answer {
    let own = match body::query(&call, "searchType")?.as_deref() {
        None | Some("ADMIN") => None,
        Some("INBOX") => Some(call.principal()?.name.clone()),
        Some(other) => return Err(Problem::query("searchType", format!("`{other}` is neither ADMIN nor INBOX"))),
    };
    let is_own = |entry: &Json| {
        own.as_ref().is_none_or(|own| [&entry["assignee"], &entry["claimant"]].iter().any(|one| one["user"] == **own))
    };
    let all = open(&call).await?;
    let named = all.iter().filter(|entry| is_own(entry)).filter_map(|entry| entry["displayName"].as_str());
    ok(named.filter(|name| !name.is_empty()).collect::<BTreeSet<_>>())
}

async fn remember(call: &Call, human: &Human, output: Json) -> Result<(), Problem> {
    let mut entry = human.entry(true);
    (entry["state"], entry["output"]) = (json!("COMPLETED"), output);
    entry["updatedOn"] = json!(call.now().0);
    entry["updatedBy"] = json!(call.principal()?.name);
    let (workspace, key) = (call.workspace()?, note_key(human.id(), "ended"));
    call.app.write(documents::written(workspace, HUMAN_TASKS, key, entry, true, Some(REMEMBERED_MS))).await?;
    for what in ["assignee", "claimant"] {
        documents::delete(call, HUMAN_TASKS, &note_key(human.id(), what)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_asks_for_all_it_names() {
        let entry = json!({"state": "ASSIGNED", "taskRefName": "ask", "workflowName": "w",
            "assignee": {"user": "ada", "userType": "EXTERNAL_USER"}, "claimant": null, "input": {"n": "seven"}});
        let fits = |search: Json| Wanted(search.as_object().cloned().unwrap()).fits(&entry).unwrap();
        assert!(fits(json!({})) && fits(json!({"states": [], "assignees": []})));
        assert!(fits(json!({"states": ["ASSIGNED"], "assignees": [{"user": "ada", "userType": "EXTERNAL_USER"}]})));
        assert!(fits(json!({"taskInputQuery": "seven", "fullTextQuery": "*"})));
        for no in [
            json!({"states": ["PENDING"]}),
            json!({"assignees": [{"user": "bob"}]}),
            json!({"claimants": [{"user": "ada"}]}),
            json!({"taskRefNames": ["other"]}),
            json!({"taskInputQuery": "eight"}),
        ] {
            assert!(!fits(no.clone()), "{no}");
        }
    }
}
