//! `POST /v1/runs`: a run started by a person or a tool.

use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::doors::answer::{self, Style};
use crate::doors::event;
use crate::problem::Problem;
use semel_core::Door;
use semel_core::admission::{PRESETS, PresetName, check_key};
use semel_engine::Occurrence;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    workflow_id: String,
    #[serde(default)]
    inputs: Map<String, Json>,
    #[serde(default)]
    labels: Map<String, Json>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    correlation_id: Option<String>,
    #[serde(default)]
    strategy: Option<String>,
}

pub async fn post(call: Call) -> Answer {
    let body: Body = call.json()?;
    let key = key(event::header_key(&call.headers)?, body.key)?;
    let wait = event::prefer_wait(&call.headers, call.app.limits().prefer_wait_ms_max);
    if let Some(id) = &body.correlation_id {
        super::check_name("correlation_id", id)?;
    }
    let who = call.principal()?;
    let flow = call.app.engine().resolve_flow(&who.workspace, &body.workflow_id)?;
    let inputs = Json::Object(body.inputs);
    let occurrence = Occurrence {
        workspace: who.workspace.clone(),
        flow,
        door: Door::Cli,
        caller: who.name.clone(),
        trigger:
            json!({"data": inputs, "key": key, "headers": event::visible_headers(&call.headers, &call.spelling, None)})
                .into(),
        caller_key: key,
        intrinsic_key: None,
        door_preset: PresetName::Semel,
        request_preset: body.strategy.as_deref().map(strategy).transpose()?,
        scope: None,
        inputs,
        trigger_id: None,
        labels: labels(body.labels)?,
        correlation_id: body.correlation_id,
        run: None,
        start_at: None,
        breakpoints: vec![],
    };
    let result = call.app.admit(occurrence).await?;
    let style = Style { wait, preference_applied: true, outputs: true, decision: true, bare: None };
    answer::admitted(&call.app, &who.workspace, result, style).await
}

fn key(header: Option<String>, body: Option<String>) -> Result<Option<String>, Problem> {
    if let Some(key) = &body {
        check_key(key)?;
    }
    match (header, body) {
        (Some(header), Some(body)) if header != body => Err(Problem::new(
            Code::KeyRepeated,
            "the header Idempotency-Key and the field `key` differ; send one of them",
        )),
        (header, body) => Ok(header.or(body)),
    }
}

fn strategy(word: &str) -> Result<PresetName, Problem> {
    PresetName::parse(word).ok_or_else(|| {
        let words: Vec<&str> = PRESETS.iter().map(|preset| preset.word).collect();
        Problem::field("strategy", format!("is none of {}", words.join(", ")))
    })
}

fn labels(given: Map<String, Json>) -> Result<Vec<(String, String)>, Problem> {
    given
        .into_iter()
        .map(|(name, value)| {
            super::check_name("labels", &name)?;
            match value {
                Json::String(text) => Ok((name, text)),
                Json::Number(_) | Json::Bool(_) => Ok((name, value.to_string())),
                Json::Null | Json::Array(_) | Json::Object(_) => {
                    Err(Problem::field(&format!("labels.{name}"), "must be text"))
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_field_must_agree() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(key(some("a"), None), Ok(some("a")));
        assert_eq!(key(None, some("b")), Ok(some("b")));
        assert_eq!(key(some("a"), some("a")), Ok(some("a")));
        assert_eq!(key(some("a"), some("b")).unwrap_err().code, Code::KeyRepeated);
        assert_eq!(key(None, some(" b")).unwrap_err().code, Code::KeyOuterBlanks);
    }

    #[test]
    fn strategies_are_preset_words_and_labels_are_text() {
        assert_eq!(strategy("ietf"), Ok(PresetName::Ietf));
        assert_eq!(strategy("IETF").unwrap_err().code, Code::BodyInvalid);
        let map = |value: Json| value.as_object().cloned().unwrap_or_default();
        assert_eq!(
            labels(map(json!({"a": "x", "n": 1}))).unwrap(),
            [("a".to_owned(), "x".to_owned()), ("n".to_owned(), "1".to_owned())]
        );
        assert!(labels(map(json!({"a": null}))).is_err());
    }
}
