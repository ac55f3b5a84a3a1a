//! A flow as a picture, and flows as they start each other.

use super::super::flow_json;
use super::show::{flag, revision};
use super::{address, all, head, invalid, text, unknown};
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use semel_core::FlowRef;
use semel_store::FlowRow;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

/// Fields that hold tasks, with the relation of what is in them.
const BRANCHES: &[(&str, &str)] = &[
    ("tasks", "SEQUENTIAL"),
    ("then", "CHOICE"),
    ("else", "CHOICE"),
    ("defaults", "CHOICE"),
    ("errors", "ERROR"),
    ("finally", "FINALLY"),
    ("afterExecution", "AFTER_EXECUTION"),
];

#[derive(Default)]
pub struct Graph {
    nodes: Vec<Json>,
    edges: Vec<Json>,
    clusters: Vec<Json>,
    flowables: Vec<Json>,
}

impl Graph {
    /// The picture of a flow.
    pub fn of(flow: &Json) -> Json {
        let mut graph = Graph::default();
        graph.nodes.push(json!({"uid": "root", "type": "io.kestra.core.models.hierarchies.GraphClusterRoot"}));
        graph.branches(flow, "root", &mut Vec::new());
        graph.nodes.push(json!({"uid": "end", "type": "io.kestra.core.models.hierarchies.GraphClusterEnd"}));
        for trigger in flow["triggers"].as_array().into_iter().flatten() {
            let uid = format!("Triggers.{}", trigger["id"].as_str().unwrap_or_default());
            graph.nodes.push(json!({"uid": uid, "type": "io.kestra.core.models.hierarchies.GraphTrigger", "triggerDeclaration": trigger}));
            graph.edge(&uid, "root", "TRIGGER");
        }
        json!({"nodes": graph.nodes, "edges": graph.edges, "clusters": graph.clusters, "flowables": graph.flowables})
    }

    fn edge(&mut self, source: &str, target: &str, relation: &str) {
        self.edges.push(json!({"source": source, "target": target, "relation": {"relationType": relation}}));
    }

    /// The tasks of all fields of one thing, each list behind the other; leads to what follows when it is the root.
    fn branches(&mut self, owner: &Json, from: &str, inside: &mut Vec<String>) {
        let mut last = from.to_owned();
        for (field, relation) in BRANCHES {
            let list = owner[*field].as_array().map(Vec::as_slice).unwrap_or_default();
            let end = self.chain(list, if *relation == "SEQUENTIAL" { &last } else { from }, relation, inside);
            if *relation == "SEQUENTIAL" {
                last = end;
            }
        }
        for (_, list) in owner["cases"].as_object().into_iter().flatten() {
            self.chain(list.as_array().map(Vec::as_slice).unwrap_or_default(), from, "CHOICE", inside);
        }
        if from == "root" {
            self.edge(&last, "end", "SEQUENTIAL");
        }
    }

    fn chain(&mut self, tasks: &[Json], from: &str, relation: &str, inside: &mut Vec<String>) -> String {
        let mut last = from.to_owned();
        for (index, task) in tasks.iter().enumerate() {
            // A task of a Dag stands one level deeper.
            let task = task.get("task").unwrap_or(task);
            let uid = task["id"].as_str().unwrap_or_default().to_owned();
            self.nodes.push(json!({"uid": uid, "type": "io.kestra.core.models.hierarchies.GraphTask", "task": without_tasks(task), "relationType": relation}));
            self.edge(&last, &uid, if index == 0 { relation } else { "SEQUENTIAL" });
            if BRANCHES.iter().any(|(field, _)| task[*field].is_array()) || task["cases"].is_object() {
                self.flowables.push(uid.clone().into());
                let first = self.nodes.len();
                inside.push(uid.clone());
                self.branches(task, &uid, inside);
                inside.pop();
                let members: Vec<Json> = self.nodes[first..].iter().map(|node| node["uid"].clone()).collect();
                self.clusters.push(json!({"cluster": {"uid": format!("cluster_{uid}"), "type": "io.kestra.core.models.hierarchies.GraphCluster"}, "nodes": members, "parents": inside, "start": uid, "end": uid}));
            }
            last = uid;
        }
        last
    }
}

fn without_tasks(task: &Json) -> Json {
    let Json::Object(fields) = task else { return task.clone() };
    let is_own = |name: &str| name != "cases" && !BRANCHES.iter().any(|(field, _)| *field == name);
    let own: Map<String, Json> =
        fields.iter().filter(|(name, _)| is_own(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    Json::Object(own)
}

pub async fn get(call: Call) -> Answer {
    let (workspace, flow, revision) = (call.workspace()?, address(&call)?, revision(&call.query)?);
    let row = call.app.read(move |store| store.flow(&workspace, &flow, revision)).await?.ok_or_else(unknown)?;
    ok(Graph::of(&flow_json::flow(&row, call.app.limits(), call.sees_payloads())))
}

/// The picture of a text that is not stored.
pub async fn post(call: Call) -> Answer {
    let source = text(&call)?.to_owned();
    let (engine, workspace, limits) = (call.app.engine().clone(), call.workspace()?, call.app.limits().clone());
    let drawn = tokio::task::spawn_blocking(move || {
        engine.validate_flow(&workspace, &source).map_err(|found| invalid(&found, &source, &limits))?;
        let flow =
            semel_flow::yaml_value(&source, &limits).map_err(|_| Problem::internal("a compiled flow is no YAML"))?;
        Ok::<Json, Problem>(Graph::of(&flow))
    });
    ok(drawn.await.map_err(|_| Problem::internal("the compiler panicked"))??)
}

/// Which flows a flow starts, by their names in its compiled form.
fn started_by(row: &FlowRow) -> Vec<FlowRef> {
    fn walk(ir: &Json, found: &mut Vec<FlowRef>) {
        match ir {
            Json::Object(fields) => {
                if let (Some(Json::String(namespace)), Some(Json::String(id))) =
                    (fields.get("namespace"), fields.get("flow_id"))
                {
                    found.push(FlowRef::new(namespace, id));
                }
                fields.values().for_each(|value| walk(value, found));
            }
            Json::Array(items) => items.iter().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let ir: Json = serde_json::from_str(&row.ir).unwrap_or(Json::Null);
    let mut found = Vec::new();
    for part in ["tasks", "errors", "finally", "after_execution"] {
        walk(&ir[part], &mut found);
    }
    found
}

fn uid(flow: &FlowRef) -> String {
    format!("{}_{}", flow.namespace, flow.id)
}

/// Flows around one flow: those it starts, and, unless told otherwise, those that start it.
pub async fn dependencies(call: Call) -> Answer {
    let (workspace, flow) = (call.workspace()?, address(&call)?);
    let forward_only = flag(&call.query, "destinationOnly", false)?;
    head(&call.app, &workspace, &flow).await?;
    let rows = call.app.read(move |store| all(store, &workspace, |_| true)).await?;
    let known: BTreeSet<&FlowRef> = rows.iter().map(|row| &row.flow).collect();
    let mut edges: BTreeSet<(FlowRef, FlowRef)> = BTreeSet::new();
    for row in &rows {
        for target in started_by(row).into_iter().filter(|target| known.contains(target)) {
            if row.flow == flow || (target == flow && !forward_only) {
                edges.insert((row.flow.clone(), target));
            }
        }
    }
    let mut around: BTreeSet<FlowRef> = edges.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
    around.insert(flow);
    let nodes: Vec<Json> =
        around.iter().map(|flow| json!({"uid": uid(flow), "namespace": flow.namespace, "id": flow.id})).collect();
    let edges: Vec<Json> = edges
        .iter()
        .map(|(from, to)| json!({"source": uid(from), "target": uid(to), "relation": "FLOW_TASK"}))
        .collect();
    ok(json!({"nodes": nodes, "edges": edges}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_nodes_and_what_follows_is_an_edge() {
        let flow = json!({"tasks": [{"id": "a", "type": "x"}, {"id": "b", "type": "y", "then": [{"id": "c", "type": "z"}]}], "triggers": [{"id": "t"}]});
        let graph = Graph::of(&flow);
        let uids: Vec<&str> =
            graph["nodes"].as_array().unwrap().iter().map(|node| node["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, ["root", "a", "b", "c", "end", "Triggers.t"]);
        let edges: Vec<(&str, &str)> = graph["edges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|edge| (edge["source"].as_str().unwrap(), edge["target"].as_str().unwrap()))
            .collect();
        assert_eq!(edges, [("root", "a"), ("a", "b"), ("b", "c"), ("b", "end"), ("Triggers.t", "root")]);
        assert_eq!(graph["clusters"][0]["nodes"], json!(["c"]));
        assert_eq!(graph["nodes"][2]["task"], json!({"id": "b", "type": "y"}), "a node does not repeat what is in it");
    }
}
