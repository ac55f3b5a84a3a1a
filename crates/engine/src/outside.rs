//! `http()` and `subflow()` in expressions: evaluation stops with what it needs, the need is seen to, and the same is
//! evaluated again.
//!
//! Only reads are asked for (GET and HEAD), so asking twice does no harm: a crash before the result of the evaluation is
//! durable reads again, and nothing had been decided. All that one evaluation asks for is kept until it has come to its
//! end, so that it sees one answer to one request however often it is begun; the result is journaled like any other.
//! The request goes where those of `http.Request` go, through the guarded client. Evaluation never leaves its thread.
//! Flows are run for the inputs of others only, before there is a run ([`crate::asked_flows`]).

use crate::asked_flows::Call;
use crate::driver::outcome::translate;
use crate::handle::Engine;
use crate::masking::Mask;
use crate::scope::Services;
use semel_core::ir::InputDef;
use semel_core::limits::Limits;
use semel_core::run::Performed;
use semel_core::{Hash16, WorkspaceId};
use semel_expr::{Part, Value};
use semel_tasks::{Home, Log, Outcome, Request, Stop, timeout_hint_ms};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

const TYPE: &str = "http.Request";

/// Requests that one evaluation may make.
const REQUESTS_MAX: usize = 20;

/// The arguments of `http()`, in their order.
const ARGUMENTS: [&str; 8] = ["uri", "method", "query", "body", "contentType", "headers", "options", "accept"];

/// What evaluation cannot go on without.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    pub key: Hash16,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// A request, as stored: with holes where secrets are.
    Read(Json),
    Run(Box<Call>),
}

/// What came of the requests of one evaluation: bodies in stored form, or why there is none.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<BTreeMap<Hash16, Result<Json, String>>>);

impl Answers {
    pub fn put(&mut self, key: Hash16, answer: Result<Json, String>) {
        Arc::make_mut(&mut self.0).insert(key, answer);
    }
}

struct Asking {
    answers: Answers,
    need: Option<Need>,
    /// There is no run yet, so that flows may be run.
    before: bool,
}

thread_local! {
    static ASKING: RefCell<Option<Asking>> = const { RefCell::new(None) };
}

/// What `act` came to; `Err` with what it could not go on without, whatever was made of that.
pub fn asking<T>(answers: &Answers, act: impl FnOnce() -> T) -> Result<T, Need> {
    asking_at(answers, false, act)
}

fn asking_at<T>(answers: &Answers, before: bool, act: impl FnOnce() -> T) -> Result<T, Need> {
    ASKING.set(Some(Asking { answers: answers.clone(), need: None, before }));
    let out = act();
    match ASKING.take().and_then(|asking| asking.need) {
        Some(need) => Err(need),
        None => Ok(out),
    }
}

/// What must come out the same whenever it is evaluated, such as the key of an event, asks nobody.
pub fn without<T>(act: impl FnOnce() -> T) -> T {
    let around = ASKING.take();
    let out = act();
    ASKING.set(around);
    out
}

/// The function that reads.
pub fn http(args: &[Value], named: &[(String, Value)]) -> Result<Value, String> {
    let config = config_of(args, named)?.to_stored();
    let key = Hash16::of(&[config.to_string().as_bytes()]);
    ASKING.with_borrow_mut(|asking| match asking {
        Some(asking) => asking.answer(Need { key, what: What::Read(config) }),
        None => Err("http() is not asked here: use it in tasks, outputs and inputs".to_owned()),
    })
}

/// The function that runs a flow.
pub fn subflow(args: &[Value], named: &[(String, Value)]) -> Result<Value, String> {
    let call = Call::read(args, named)?;
    ASKING.with_borrow_mut(|asking| match asking.as_mut().filter(|asking| asking.before) {
        Some(asking) => asking.answer(Need { key: call.key(), what: What::Run(Box::new(call)) }),
        None => Err("subflow() is for the inputs of a flow: in a task use one of type flow.Subflow".to_owned()),
    })
}

impl Asking {
    fn answer(&mut self, need: Need) -> Result<Value, String> {
        match self.answers.0.get(&need.key) {
            Some(answer) => answer.clone().map(|stored| Value::from_stored(&stored)),
            None if self.answers.0.len() >= REQUESTS_MAX => {
                Err(format!("expressions that are evaluated together make {REQUESTS_MAX} requests at most"))
            }
            None => {
                self.need.get_or_insert(need);
                Err("the answer is not there yet".to_owned())
            }
        }
    }
}

/// An argument of a function, by its name or its place; `None` where it is null too.
pub fn argument_of<'a>(
    function: &str,
    known: &[&str],
    args: &'a [Value],
    named: &'a [(String, Value)],
    name: &str,
) -> Result<Option<&'a Value>, String> {
    if let Some((name, _)) = named.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(format!("{function} has no argument `{name}`; it has {}", known.join(", ")));
    }
    let placed = || known.iter().position(|other| *other == name).and_then(|at| args.get(at));
    let found = named.iter().find(|(other, _)| other == name).map(|(_, value)| value).or_else(placed);
    Ok(found.filter(|value| **value != Value::Null))
}

fn config_of(args: &[Value], named: &[(String, Value)]) -> Result<Value, String> {
    argument_of("http()", &ARGUMENTS, args, named, "uri")?;
    let argument = |name: &str| argument_of("http()", &ARGUMENTS, args, named, name).ok().flatten();
    let method = match argument("method") {
        None => "GET".to_owned(),
        Some(Value::Str(word)) => word.to_ascii_uppercase(),
        Some(_) => return Err("`method` of http() must be GET or HEAD".to_owned()),
    };
    if !matches!(method.as_str(), "GET" | "HEAD") || argument("body").is_some() {
        let what = if argument("body").is_some() { "a request with a body" } else { method.as_str() };
        return Err(format!("http() only reads (GET, HEAD): use a task of type http.Request for {what}"));
    }
    let uri = argument("uri").ok_or("http() needs `uri`")?;
    let uri = match argument("query") {
        None => uri.clone(),
        Some(query) => Value::str(&with_query(uri, query)?),
    };
    let mut headers = match argument("headers") {
        None => indexmap::IndexMap::new(),
        Some(Value::Map(map)) => map.as_ref().clone(),
        Some(_) => return Err("`headers` of http() must be a map".to_owned()),
    };
    headers.retain(|name, _| !name.eq_ignore_ascii_case("accept") && !name.eq_ignore_ascii_case("content-type"));
    let json = || Value::str("application/json");
    headers.insert("Accept".to_owned(), argument("accept").cloned().unwrap_or_else(json));
    let mut config = indexmap::IndexMap::from([
        ("uri".to_owned(), uri),
        ("method".to_owned(), Value::str(&method)),
        ("headers".to_owned(), Value::map(headers)),
    ]);
    config.extend(argument("options").map(|options| ("options".to_owned(), options.clone())));
    Ok(Value::map(config))
}

fn with_query(uri: &Value, query: &Value) -> Result<String, String> {
    let (Value::Str(uri), Value::Map(query)) = (uri, query) else {
        return Err("`uri` and `query` of http() must be a text and a map without secrets".to_owned());
    };
    let mut uri = uri.to_string();
    for (name, value) in query.iter() {
        if value.is_tainted() {
            return Err("`query` of http() cannot hold a secret: send it as a header".to_owned());
        }
        uri.push(if uri.contains('?') { '&' } else { '?' });
        encode(name, &mut uri);
        uri.push('=');
        encode(&value.to_text().to_string(), &mut uri);
    }
    Ok(uri)
}

fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => into.push(char::from(byte)),
            byte => into.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// The request of a need, with its secrets filled in, and what is to be masked in the answer.
pub fn request_of(
    services: &Services,
    limits: &Limits,
    workspace: &WorkspaceId,
    need: &Need,
) -> Result<(Request, Vec<Mask>), String> {
    let masks: RefCell<Vec<Mask>> = RefCell::default();
    let fill = |part: &Part| {
        let text = services.secrets.reveal(workspace, part)?;
        masks.borrow_mut().push((part.clone(), text.clone()));
        Ok(text)
    };
    let What::Read(config) = &need.what else {
        return Err("subflow() is for the inputs of a flow".to_owned());
    };
    let config = Value::from_stored(config).fill(&fill)?;
    let request = Request {
        step_id: need.key.hex(),
        type_name: TYPE.to_owned(),
        timeout_ms: timeout_hint_ms(TYPE, &config).unwrap_or(limits.http_timeout_ms),
        config,
        idempotency_key: None,
        send_before: None,
        traceparent: None,
        // It may be asked for before there is a run, and reads no files.
        home: Home { workspace: workspace.clone(), ..Home::default() },
        log: Log::default(),
        stop: Stop::default(),
    };
    Ok((request, masks.into_inner()))
}

/// The body of an answer, as the expression sees it: what calls itself JSON is read as such.
pub fn answer_of(
    services: &Services,
    workspace: &WorkspaceId,
    outcome: Outcome,
    masks: &[Mask],
) -> Result<Json, String> {
    let seal = |text: &str| services.secrets.seal(workspace, text).ok();
    let output = match translate(outcome, masks, &seal) {
        Performed::Done { output } => Value::from_stored(output.json()),
        Performed::FailedClean { failure } | Performed::Lost { failure } => {
            return Err(format!("http(): {}", failure.message()));
        }
    };
    let body = output.get("body").unwrap_or(Value::Null);
    let is_json = output.get("headers").is_some_and(|headers| {
        let Value::Map(headers) = headers else { return false };
        let of_type = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        of_type.is_some_and(|(_, kind)| kind.to_text().to_string().contains("json"))
    });
    match &body {
        Value::Str(text) if is_json && !text.is_empty() => match serde_json::from_str::<Json>(text) {
            Ok(json) => Ok(Value::from_json(&json).to_stored()),
            Err(error) => Err(format!("http(): the answer is not the JSON it calls itself: {error}")),
        },
        body => Ok(body.to_stored()),
    }
}

/// Whether inputs may ask for something before there is a run. Too often costs a copy, never a wrong answer.
pub fn may_ask(inputs: &[InputDef]) -> bool {
    let asks = |text: &str| text.contains("http") || text.contains("subflow");
    inputs.iter().any(|input| {
        let defaults = input.defaults.as_ref().is_some_and(|json| asks(&json.to_string()));
        let condition = input.depends_on.as_ref().and_then(|depends| depends.condition.as_deref());
        defaults || input.expression.as_deref().is_some_and(asks) || condition.is_some_and(asks)
    })
}

/// Evaluates what inputs come to, and sees to what that needs, until it has all. `event`: what the event is known by, if
/// it has a key.
pub async fn answered<T>(
    engine: &Engine,
    workspace: &WorkspaceId,
    event: Option<&str>,
    mut act: impl FnMut() -> T,
) -> T {
    let (services, performer) = (engine.services(), engine.performer());
    let mut answers = Answers::default();
    loop {
        let need = match asking_at(&answers, true, &mut act) {
            Ok(out) => return out,
            Err(need) => need,
        };
        let answer = match &need.what {
            What::Run(call) => engine.run_asked(workspace, call, event).await,
            What::Read(_) => match request_of(services, engine.limits(), workspace, &need) {
                Ok((request, masks)) => answer_of(services, workspace, performer.perform(request).await, &masks),
                Err(message) => Err(message),
            },
        };
        answers.put(need.key, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(named: &[(&str, Json)]) -> Result<Json, String> {
        let named: Vec<(String, Value)> =
            named.iter().map(|(name, value)| ((*name).to_owned(), Value::from_json(value))).collect();
        config_of(&[], &named).map(|config| config.to_stored())
    }

    #[test]
    fn a_request_is_made_of_the_arguments() {
        let made = asked(&[
            ("uri", json!("https://api.example/x?a=1")),
            ("query", json!({"b c": "d&e"})),
            ("headers", json!({"X-One": "1", "accept": "text/csv"})),
        ]);
        assert_eq!(
            made.unwrap(),
            json!({"uri": "https://api.example/x?a=1&b%20c=d%26e", "method": "GET",
                "headers": {"X-One": "1", "Accept": "application/json"}})
        );
        assert_eq!(asked(&[("uri", json!("u")), ("method", json!("head"))]).unwrap()["method"], "HEAD");
    }

    #[test]
    fn what_writes_is_refused_with_what_to_do_instead() {
        let refused = |named: &[(&str, Json)]| asked(named).unwrap_err();
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let said = refused(&[("uri", json!("u")), ("method", json!(method))]);
            assert!(said.contains("http.Request") && said.contains(method), "{said}");
        }
        assert!(refused(&[("uri", json!("u")), ("body", json!({}))]).contains("http.Request"));
        assert!(refused(&[("url", json!("u"))]).contains("no argument `url`"));
        assert!(refused(&[]).contains("needs `uri`"));
    }

    #[test]
    fn evaluation_stops_with_its_need_and_goes_on_with_the_answer() {
        let ask = || http(&[Value::str("https://api.example/x")], &[]);
        assert!(ask().unwrap_err().contains("not asked here"), "nobody listens");
        let mut answers = Answers::default();
        let need = asking(&answers, ask).unwrap_err();
        assert_eq!(asking(&answers, || ask().is_err()).unwrap_err(), need, "a default does not hide the need");
        answers.put(need.key, Ok(json!([1, 2])));
        let answer = asking(&answers, ask).unwrap().unwrap();
        assert_eq!(answer.to_stored(), json!([1, 2]));
        let said = asking(&answers, || without(ask)).unwrap().unwrap_err();
        assert!(said.contains("not asked here"), "{said}");
        for n in 0..REQUESTS_MAX {
            answers.put(Hash16::of(&[&[n as u8]]), Ok(Json::Null));
        }
        let other = || http(&[Value::str("https://api.example/y")], &[]);
        assert!(asking(&answers, other).unwrap().unwrap_err().contains("at most"));
    }
}
