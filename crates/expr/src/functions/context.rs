//! Functions over what a run offers: its outputs, loops, tasks and environment. Values pass through as they are.

use indexmap::IndexMap;

use crate::eval::missing;
use crate::filters::Args;
use crate::value::Value;
use crate::{EvalError, Scope, ops};

/// The roots that `printContext()` shows, where they are.
const ROOTS: &[&str] = &[
    "envs",
    "execution",
    "flow",
    "globals",
    "inputs",
    "item",
    "kestra",
    "labels",
    "outputs",
    "parent",
    "parents",
    "task",
    "taskrun",
    "tasks",
    "trigger",
    "vars",
];

pub(super) fn call(scope: &dyn Scope, name: &str, args: &Args) -> Result<Value, EvalError> {
    match name {
        "currentEachOutput" => current_each_output(scope, args),
        "iterationOutput" => iteration_output(scope, args),
        "parentOutput" => parent_output(scope, args),
        "loopOutputs" => loop_outputs(args),
        "tasksWithState" => tasks_with_state(scope, args),
        "env" => env(scope, args),
        _ => Ok(context(scope)),
    }
}

fn wrong(message: impl Into<String>) -> EvalError {
    EvalError::new("function", message)
}

fn loop_value(run: &Value) -> Option<String> {
    Some(run.get("taskrun")?.get("value")?.to_text())
}

/// Values of the loops around the one that asks, outermost first.
fn outer_values(scope: &dyn Scope) -> Vec<String> {
    match scope.root("parents") {
        Some(Value::List(parents)) => parents.iter().rev().filter_map(loop_value).collect(),
        _ => Vec::new(),
    }
}

/// Walks the outputs of a step inside nested loops down to the iteration that asks.
fn current_each_output(scope: &dyn Scope, args: &Args) -> Result<Value, EvalError> {
    let mut current = args.required(0, "outputs", "currentEachOutput")?.clone();
    let own = scope.root("taskrun").and_then(|run| run.get("value")).map(|value| value.to_text());
    let mut path = outer_values(scope);
    // Below a group inside the loop the group has the value, and it is among the parents.
    if path.last() != own.as_ref() || current_has(&current, &path, own.as_deref()) {
        path.push(own.ok_or_else(|| missing("taskrun.value"))?);
    }
    for key in path {
        current = current.get(&key).ok_or_else(|| missing(&key))?;
    }
    Ok(current)
}

fn current_has(outputs: &Value, path: &[String], own: Option<&str>) -> bool {
    let found = path.iter().try_fold(outputs.clone(), |inner, key| inner.get(key));
    found.zip(own).is_some_and(|(inner, own)| inner.get(own).is_some())
}

/// `iterationOutput(taskId, iteration)`: the value another iteration put out; the one before when none is named. Given
/// outputs instead of an id, it is all that the iteration put out.
fn iteration_output(scope: &dyn Scope, args: &Args) -> Result<Value, EvalError> {
    let run = scope.root("taskrun").unwrap_or(Value::Null);
    let Some(Value::Int(current)) = run.get("iteration") else {
        return Err(wrong("`iterationOutput` works inside a loop"));
    };
    let own = || scope.root("task").and_then(|task| task.get("id")).unwrap_or(Value::Null);
    let wanted = args.value(0, "taskId").filter(|value| **value != Value::Null).cloned().unwrap_or_else(own);
    let whole = matches!(wanted, Value::Map(_));
    let found = if whole { Some(wanted) } else { scope.root("outputs").and_then(|all| all.get(&wanted.to_text())) };
    let Some(mut found) = found else { return Ok(Value::Null) };
    let mut outer = outer_values(scope);
    if outer.last() == run.get("value").map(|value| value.to_text()).as_ref() {
        outer.pop();
    }
    for value in outer {
        let Some(inner) = found.get(&value) else { return Ok(Value::Null) };
        found = inner;
    }
    let number = args.int(1, "iteration", "iterationOutput")?.map_or(current - 1, i128::from);
    let Value::Map(iterations) = &found else { return Ok(Value::Null) };
    let place = usize::try_from(number).ok();
    match place.and_then(|place| iterations.get_index(place)) {
        Some((_, output)) if whole => Ok(output.clone()),
        Some((_, output)) => Ok(output.get("value").unwrap_or(Value::Null)),
        None => Err(wrong(format!("there is no iteration {number}: {} have put something out", iterations.len()))),
    }
}

/// `parentOutput(index)`: what the task around this one put out; 0 is the outermost.
fn parent_output(scope: &dyn Scope, args: &Args) -> Result<Value, EvalError> {
    let parent = match args.int(0, "index", "parentOutput")? {
        None => scope.root("parent"),
        Some(index) => match scope.root("parents") {
            Some(Value::List(parents)) => {
                let place = usize::try_from(index).ok().filter(|index| *index < parents.len());
                let place =
                    place.ok_or_else(|| wrong(format!("there are {} parents, not one at {index}", parents.len())))?;
                Some(parents[parents.len() - 1 - place].clone())
            }
            _ => None,
        },
    };
    Ok(parent.and_then(|parent| parent.get("outputs")).unwrap_or(Value::Null))
}

/// `loopOutputs(outputs.loop.outputs, 'name')`: one output of every iteration.
fn loop_outputs(args: &Args) -> Result<Value, EvalError> {
    let Value::List(iterations) = args.required(0, "outputs", "loopOutputs")? else {
        return Err(wrong("`loopOutputs` needs the list of a loop's outputs"));
    };
    let name = args.required_text(1, "name", "loopOutputs")?;
    let pick = |one: &Value| one.get("outputs").and_then(|outputs| outputs.get(&name)).unwrap_or(Value::Null);
    Ok(Value::list(iterations.iter().map(pick).collect()))
}

/// `tasksWithState('FAILED')`: entries of task, state and, in loops, the value.
fn tasks_with_state(scope: &dyn Scope, args: &Args) -> Result<Value, EvalError> {
    let wanted = args.required_text(0, "state", "tasksWithState")?.to_uppercase();
    let mut found = Vec::new();
    if let Some(Value::Map(tasks)) = scope.root("tasks") {
        for (task, states) in tasks.iter() {
            collect(task, None, states, &wanted, &mut found);
        }
    }
    Ok(Value::list(found))
}

fn collect(task: &str, value: Option<&str>, states: &Value, wanted: &str, found: &mut Vec<Value>) {
    let Value::Map(states) = states else { return };
    for (key, inner) in states.iter() {
        if let (Value::Str(state), "state") = (inner, key.as_str()) {
            if state.eq_ignore_ascii_case(wanted) {
                let mut entry =
                    IndexMap::from([("taskId".to_owned(), Value::str(task)), ("state".to_owned(), inner.clone())]);
                entry.extend(value.map(|value| ("value".to_owned(), Value::str(value))));
                found.push(Value::map(entry));
            }
        } else {
            collect(task, Some(key), inner, wanted, found);
        }
    }
}

/// `env('name', 'default')`: a variable of the environment, the default when it is not there or empty.
fn env(scope: &dyn Scope, args: &Args) -> Result<Value, EvalError> {
    let name = args.required_text(0, "name", "env")?;
    let found = scope.root("envs").and_then(|envs| envs.get(&name)).filter(|value| !ops::is_empty(value));
    Ok(found.or_else(|| args.value(1, "default").cloned()).unwrap_or(Value::Null))
}

/// Everything an expression can name here; author text in `vars` is shown as it is written.
fn context(scope: &dyn Scope) -> Value {
    let shown = |name: &&str| {
        let value = scope.root(name)?;
        let value = if *name == "vars" { Value::from_json(&value.to_masked_json()) } else { value };
        Some(((*name).to_owned(), value))
    };
    Value::map(ROOTS.iter().filter_map(shown).collect())
}
