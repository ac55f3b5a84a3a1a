//! Checks that need the whole flow: names in expressions, outputs anyone reads, a flow that starts itself.

use crate::codes;
use crate::diagnostic::Finding;
use crate::lower::{Context, Moment, TemplateUse};
use crate::suggest;
use crate::templates::{self, Path};
use semel_core::FlowRef;
use semel_core::ir::{Flow, SPLIT_PART, Task};
use std::collections::HashSet;
use std::ops::Range;

/// What an expression may name anywhere in a flow.
const ROOTS: &[&str] = &[
    "flow",
    "execution",
    "task",
    "taskrun",
    "inputs",
    "outputs",
    "vars",
    "trigger",
    "labels",
    "tasks",
    "parent",
    "parents",
    "envs",
    "globals",
    "kestra",
    "namespace",
    "schedule",
    "item",
    "workingDir",
    "outputDir",
    "workerTaskrun",
    "run",
    "step",
    // Never there: `a ?? raise` is how Kestra's documents make a missing value an error.
    "raise",
];
/// What exists only inside a run.
const INSIDE_ONLY: &[&str] = &["outputs", "task", "taskrun", "tasks", "parent", "parents", "item", "step"];
/// What the types of a flow in Kestra's spelling begin with.
pub(crate) const KESTRA_TYPES: &str = "io.kestra.";
/// Functions that can read any task's outputs without naming it.
const READS_ANY_OUTPUT: &[&str] = &["fetchContext", "printContext", "iterationOutput", "parentOutput", "loopOutputs"];

pub(crate) type Outcome = (Flow, Vec<(FlowRef, Range<usize>)>);

/// Runs the checks and fills in what they find out.
pub(crate) fn finish(context: &mut Context, flow: Option<Flow>) -> Option<Outcome> {
    let read = expressions(context);
    cycles(context);
    let mut flow = flow?;
    for tasks in [&mut flow.tasks, &mut flow.errors, &mut flow.finally, &mut flow.after] {
        each_task(tasks, &mut |task| {
            // The parts of a file are read by the task that starts sub-runs for them.
            let asked_for = task.type_name == SPLIT_PART;
            task.keep_output = read.any || read.ids.contains(&task.id) || asked_for;
        });
    }
    let refs = context.subflows.iter().map(|subflow| (subflow.target.clone(), subflow.at.clone())).collect();
    Some((flow, refs))
}

/// Which outputs the expressions of the flow can read.
#[derive(Default)]
struct OutputsRead {
    ids: HashSet<String>,
    any: bool,
}

fn expressions(context: &mut Context) -> OutputsRead {
    let mut read = OutputsRead::default();
    for used in std::mem::take(&mut context.templates) {
        let references = &used.references;
        let Some(scalar) = used.node.scalar() else { continue };
        let paths = templates::paths(&scalar.text);
        read.any |= references.outputs_dynamic
            || references.functions.iter().any(|(name, _)| READS_ANY_OUTPUT.contains(&name.as_str()))
            || paths
                .iter()
                .any(|path| path.reaches_outputs && !matches!(path.root.as_str(), "outputs" | "trigger" | "inputs"));
        read.ids.extend(references.outputs.iter().cloned());
        functions(context, &used);
        roots(context, &used, &paths);
        inputs(context, &used, &paths);
        outputs(context, &used, &paths);
    }
    read
}

/// A name that does not exist. A flow in Kestra's spelling is judged as Kestra does, where the run is what fails, or
/// does not, since `??` may stand behind the name; what is evaluated before a run exists is refused in any case.
fn unknown(context: &Context, used: &TemplateUse, code: &'static str, at: Range<usize>, message: String) -> Finding {
    if used.moment != Moment::Admission && context.source.text.contains(KESTRA_TYPES) {
        Finding::warning(code, at, message)
    } else {
        Finding::error(code, at, message)
    }
}

/// The place in the file of a piece of an expression.
fn locate(context: &Context, used: &TemplateUse, at: Option<Range<usize>>) -> Range<usize> {
    match (used.node.scalar(), at) {
        (Some(scalar), Some(at)) => scalar.locate(context.source.text, &used.node.at, at),
        _ => used.node.at.clone(),
    }
}

/// A function that Kestra has and this build does not is refused here, not in the middle of a run.
fn functions(context: &mut Context, used: &TemplateUse) {
    for (name, at) in used.references.functions.iter().filter(|(name, _)| !semel_expr::is_built_function(name)) {
        if context.is_full() {
            return;
        }
        let place = locate(context, used, Some(*at..at + name.len()));
        let message = format!("the function `{name}` is known in Kestra, and this build does not have it");
        let finding = Finding::error(codes::NOT_BUILT, place, message);
        context.report(finding.suggest("do it in a task of its own, or leave this flow on Kestra until it is built"));
    }
}

fn roots(context: &mut Context, used: &TemplateUse, paths: &[Path]) {
    for root in &used.references.roots {
        let known = ROOTS.contains(&root.as_str());
        let too_early = match used.moment {
            Moment::Admission => INSIDE_ONLY.contains(&root.as_str()),
            // Those of the upstream run.
            Moment::Upstream => INSIDE_ONLY.contains(&root.as_str()) && root != "outputs",
            Moment::Task(_) | Moment::Whole => false,
        };
        if known && !too_early || context.is_full() {
            continue;
        }
        let place = paths.iter().find(|path| path.root == *root).map(|path| path.root_at.clone());
        let at = locate(context, used, place);
        let finding = if too_early {
            let message = format!("`{root}` does not exist yet: this is evaluated before the run starts");
            Finding::error(codes::UNKNOWN_VARIABLE, at, message)
                .suggest("use `inputs`, `trigger`, `vars`, `labels` or `flow`")
        } else {
            let finding = unknown(context, used, codes::UNKNOWN_VARIABLE, at, format!("unknown variable `{root}`"));
            finding.maybe_suggest(meant_root(context, root))
        };
        context.report(finding);
    }
}

/// A bare name of an input, variable or task is the commonest reason for an unknown root.
fn meant_root(context: &Context, root: &str) -> Option<String> {
    if context.inputs.contains_key(root) {
        return Some(format!("write `inputs.{root}`"));
    }
    if context.tasks.contains_key(root) {
        return Some(format!("write `outputs.{root}`"));
    }
    if root == "secrets" || root == "secret" {
        return Some("write `secret('NAME')`".to_owned());
    }
    suggest::did_you_mean(root, ROOTS.iter().copied())
}

fn inputs(context: &mut Context, used: &TemplateUse, paths: &[Path]) {
    if !used.references.roots.contains("inputs") {
        return;
    }
    for path in paths.iter().filter(|path| path.root == "inputs") {
        if let Some((name, at)) = &path.member {
            let at = locate(context, used, Some(at.clone()));
            if let Some((message, help)) = context.undeclared_input(name) {
                let finding = unknown(context, used, codes::UNKNOWN_INPUT, at, message);
                context.report(finding.maybe_suggest(help));
            }
        }
    }
}

fn outputs(context: &mut Context, used: &TemplateUse, paths: &[Path]) {
    if used.moment == Moment::Upstream {
        return;
    }
    for id in &used.references.outputs {
        // Looking a place up costs a walk over the expression.
        let late = match (context.tasks.get(id), used.moment) {
            (None, _) => true,
            (Some(task), Moment::Task(order)) => task.order >= order,
            (Some(_), _) => false,
        };
        if !late || context.is_full() {
            continue;
        }
        let place = paths
            .iter()
            .filter(|path| path.root == "outputs")
            .find_map(|path| path.member.as_ref().filter(|(name, _)| name == id))
            .map(|(_, at)| at.clone());
        let at = locate(context, used, place);
        match (context.tasks.get(id), used.moment) {
            (None, _) => {
                let prefix = format!("{id}-");
                let dashed = context.tasks.keys().find(|task| task.starts_with(&prefix));
                let near = suggest::did_you_mean(id, context.tasks.keys().map(String::as_str));
                let hint =
                    dashed.map(|task| format!("write `outputs['{task}']`: a `-` after a name is a minus")).or(near);
                let finding = unknown(context, used, codes::UNKNOWN_OUTPUT, at, format!("no task has the id `{id}`"));
                context.report(finding.maybe_suggest(hint));
            }
            (Some(task), Moment::Task(order)) if task.order == order => {
                let message = format!("`{id}` reads its own output, which does not exist yet");
                context.report(Finding::warning(codes::LATER_OUTPUT, at, message));
            }
            (Some(task), Moment::Task(order)) if task.order > order => {
                let message = format!("`{id}` runs after this task, so it has no output yet");
                let first = task.at.clone();
                let finding = Finding::warning(codes::LATER_OUTPUT, at, message);
                context.report(finding.related(first, "defined here"));
            }
            (Some(_), _) => {}
        }
    }
}

fn cycles(context: &mut Context) {
    let own = context.own.clone();
    let found: Vec<Range<usize>> = context
        .subflows
        .iter()
        .filter(|subflow| subflow.target == own && !subflow.conditional)
        .map(|subflow| subflow.at.clone())
        .collect();
    for at in found {
        let finding =
            Finding::error(codes::CYCLIC_SUBFLOW, at, "this flow starts itself every time it runs, without end");
        context.report(finding.suggest("put the task under a condition (`runIf` or flow.If)"));
    }
}

/// Visits every task, however deep.
fn each_task(tasks: &mut [Task], visit: &mut impl FnMut(&mut Task)) {
    for task in tasks {
        visit(task);
        task.kind.lists_mut().into_iter().for_each(|tasks| each_task(tasks, visit));
    }
}
