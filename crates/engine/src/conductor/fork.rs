//! The tasks of a dynamic fork, from what a task gave.
//!
//! Whatever stands in them is data: a `${…}` in it is not resolved, where Conductor would resolve it.

use indexmap::IndexMap;
use semel_core::run::Failure;
use semel_expr::Value;
use semel_expr::conductor::print;

fn refused(message: impl Into<String>) -> Failure {
    Failure::new("bad_fork", message)
}

fn text(value: &Value, name: &str) -> Option<String> {
    match value.get(name) {
        None | Some(Value::Null) => None,
        Some(found) => Some(print(&found)),
    }
}

fn merged(under: Value, over: Option<Value>) -> Value {
    let mut all = match under {
        Value::Map(entries) => entries.as_ref().clone(),
        _ => IndexMap::new(),
    };
    if let Some(Value::Map(entries)) = over {
        all.extend(entries.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    Value::map(all)
}

struct Forked {
    reference: String,
    name: String,
    kind: String,
    optional: bool,
    input: Value,
    sub_workflow: Value,
    definition: Value,
    retry_count: Value,
}

/// `tasks`, one entry for each task, and `references`, their names.
///
/// Another fork before this one may have made tasks of the same names: then they have its name in theirs.
pub fn tasks(config: &Value, is_first: bool) -> Result<Value, Failure> {
    let input = config.get("input").unwrap_or(Value::Null);
    let optional = config.get("optional") == Some(Value::Bool(true));
    let made = match (input.get("forkTaskInputs"), text(config, "tasksParam"), text(config, "listParam")) {
        (Some(Value::List(inputs)), _, _) => {
            let fork = text(config, "fork").unwrap_or_default();
            simple(&input, &inputs, optional, &fork, is_first)
        }
        (_, Some(param), _) => listed(config, &input, &param)?,
        (_, None, Some(param)) => legacy(&input, &param)?,
        (_, None, None) => return Err(refused("forkTaskInputs must give a list of inputs")),
    };
    let kinds = match config.get("kinds") {
        Some(Value::List(kinds)) => kinds.iter().map(print).collect(),
        _ => Vec::new(),
    };
    let mut names = std::collections::BTreeSet::new();
    for task in &made {
        if !kinds.contains(&task.kind) {
            let message = format!(
                "task `{}` is of type {}, which a dynamic fork cannot make here; it can make {}",
                task.reference,
                task.kind,
                kinds.join(", ")
            );
            return Err(refused(message));
        }
        if !names.insert(task.reference.as_str()) {
            let message = format!("attempted to create a duplicate task reference name: {}", task.reference);
            return Err(refused(message));
        }
    }
    let references = made.iter().map(|task| Value::str(&task.reference)).collect();
    let tasks = made.into_iter().map(entry).collect();
    let entries = [("tasks".to_owned(), Value::list(tasks)), ("references".to_owned(), Value::list(references))];
    Ok(Value::map(entries.into_iter().collect()))
}

fn entry(task: Forked) -> Value {
    let case = if task.optional { format!("{}?", task.kind) } else { task.kind.clone() };
    let entries = [
        ("reference", Value::str(task.reference)),
        ("name", Value::str(task.name)),
        ("type", Value::str(task.kind)),
        ("case", Value::str(case)),
        ("input", task.input),
        ("subWorkflowParam", task.sub_workflow),
        ("taskDefinition", task.definition),
        ("retryCount", task.retry_count),
    ];
    Value::map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// One task, or one workflow, for each of many inputs.
fn simple(input: &Value, inputs: &[Value], optional: bool, fork: &str, is_first: bool) -> Vec<Forked> {
    let workflow = text(input, "forkTaskWorkflow");
    let kind = match &workflow {
        Some(_) => "SUB_WORKFLOW".to_owned(),
        None => text(input, "forkTaskType").unwrap_or_else(|| "SIMPLE".to_owned()),
    };
    let named = text(input, "forkTaskName").or_else(|| workflow.clone());
    let name = named.unwrap_or_else(|| if kind == "SIMPLE" { fork.to_owned() } else { kind.clone() });
    let sub_workflow = workflow.map_or(Value::Null, |workflow| {
        let version = input.get("forkTaskWorkflowVersion").unwrap_or(Value::Null);
        Value::map([("name".to_owned(), Value::str(workflow)), ("version".to_owned(), version)].into_iter().collect())
    });
    let forked = |(place, given): (usize, &Value)| {
        let own = match given {
            Value::Map(_) => given.clone(),
            other => Value::map([("input".to_owned(), other.clone())].into_iter().collect()),
        };
        let index = Value::map([("__index".to_owned(), Value::Int(place as i128))].into_iter().collect());
        Forked {
            reference: if is_first { format!("_{name}_{place}") } else { format!("_{fork}_{name}_{place}") },
            name: name.clone(),
            kind: kind.clone(),
            optional,
            input: merged(own, Some(index)),
            sub_workflow: sub_workflow.clone(),
            definition: Value::Null,
            retry_count: Value::Null,
        }
    };
    inputs.iter().enumerate().map(forked).collect()
}

/// A list of tasks, and a map of their inputs by reference name.
fn listed(config: &Value, input: &Value, param: &str) -> Result<Vec<Forked>, Failure> {
    let wrong = || {
        refused(format!("Input '{param}' is invalid. It must give a list of tasks, each with its taskReferenceName"))
    };
    let inputs = match input.get(&text(config, "inputsParam").unwrap_or_default()) {
        Some(inputs @ Value::Map(_)) => inputs,
        _ => return Err(refused("Input to the dynamically forked tasks is not a map -> expecting a map of K,V")),
    };
    let Some(Value::List(tasks)) = input.get(param) else { return Err(wrong()) };
    tasks
        .iter()
        .map(|task| {
            let reference = text(task, "taskReferenceName").ok_or_else(wrong)?;
            let own = task.get("inputParameters").unwrap_or(Value::Null);
            Ok(Forked {
                name: text(task, "name").unwrap_or_else(|| reference.clone()),
                kind: text(task, "type").unwrap_or_else(|| "SIMPLE".to_owned()),
                optional: task.get("optional") == Some(Value::Bool(true)),
                input: merged(own, inputs.get(&reference)),
                sub_workflow: task.get("subWorkflowParam").unwrap_or(Value::Null),
                definition: task.get("taskDefinition").unwrap_or(Value::Null),
                retry_count: task.get("retryCount").unwrap_or(Value::Null),
                reference,
            })
        })
        .collect()
}

/// `dynamicForkJoinTasksParam`: one object with all of it.
fn legacy(input: &Value, param: &str) -> Result<Vec<Forked>, Failure> {
    let wrong = || {
        refused(format!(
            "Dynamic tasks could not be created. The value of {param} has no dynamic tasks to be scheduled"
        ))
    };
    let Some(Value::List(tasks)) = input.get(param).and_then(|list| list.get("dynamicTasks")) else {
        return Err(wrong());
    };
    tasks
        .iter()
        .map(|task| {
            Ok(Forked {
                reference: text(task, "referenceName").ok_or_else(wrong)?,
                name: text(task, "taskName").ok_or_else(wrong)?,
                kind: text(task, "type").unwrap_or_else(|| "SIMPLE".to_owned()),
                optional: false,
                input: merged(task.get("input").unwrap_or(Value::Null), None),
                sub_workflow: Value::Null,
                definition: Value::Null,
                retry_count: Value::Null,
            })
        })
        .collect()
}
