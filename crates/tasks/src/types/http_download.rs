//! `http.Download`: the answer to a request becomes a file.

use super::http::{self, METHODS, OPTIONS};
use super::{field, required};
use crate::effect::{EffectWork, Outcome, Performing, Request, Tools};
use crate::files::{Desk, FileError};
use crate::inline::Level;
use crate::net::{Answer, Pour};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::json;
use tokio::sync::mpsc;

pub const SPEC: TaskSpec = TaskSpec {
    name: "http.Download",
    aliases: &["io.kestra.plugin.fs.http.Download", "io.kestra.core.tasks.http.Download"],
    summary: "Keep the answer to an HTTP request as a file.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[
        required("uri", FieldKind::Text, "Where to, http or https."),
        field("method", FieldKind::Choice(METHODS), "GET by default."),
        field("body", FieldKind::Any, "Text is sent as it is, anything else as JSON."),
        field("formData", FieldKind::Any, "Sent as a form, instead of `body`."),
        field("contentType", FieldKind::Text, "Content-Type of the body; application/json by default."),
        field("headers", FieldKind::TextMap, "Headers to send."),
        field("options", FieldKind::Object(OPTIONS), "Credentials, time and tolerance."),
        field("allowFailed", FieldKind::Bool, "Old place of options.allowFailed."),
        field("auth", FieldKind::Object(http::AUTH), "Another place of options.auth."),
        field("sslOptions", FieldKind::Object(http::SSL), "Old place of options.ssl."),
        field("failOnEmptyResponse", FieldKind::Bool, "Fail if the answer has no body; true by default."),
        field("saveAs", FieldKind::Text, "Name of the file, instead of the one that the answer gives it."),
    ],
    outputs: &["uri", "code", "length", "headers"],
};

pub const WORK: Work =
    Work::Effect(EffectWork { class: http::class, sends_key: http::sends_key, timeout_ms: http::timeout_ms, perform });

/// Pieces that may wait to be written.
const PIECES_MAX: usize = 16;

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    Box::pin(async move {
        match download(tools, &request).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    })
}

async fn download(tools: &Tools, request: &Request) -> Result<Outcome, TaskError> {
    let desk = tools.desk(request)?;
    let mut plan = http::plan(tools, request).await?;
    let fail_on_empty = config::flag(&request.config, "failOnEmptyResponse", true)?;
    let judge = plan.judge();
    let (to, pieces) = mpsc::channel(PIECES_MAX);
    plan.call.into = Some(Pour { to, bytes_max: desk.files.bytes_max() });
    let uri = plan.call.uri.clone();
    // The name is known when the answer is: the pieces are kept, and named at their end.
    let (name, named) = std::sync::mpsc::channel::<Option<String>>();
    let writing = tokio::task::spawn_blocking(move || keep(&desk, pieces, &named));
    let called = tools.net.call(plan.call).await;
    let answer = match called {
        Ok(answer) => answer,
        Err(error) => return Ok(error.into()),
    };
    let code = answer.status.as_u16();
    let takes = judge.takes(code) && !answer.status.is_redirection();
    let saved_as = config::text(&request.config, "saveAs").filter(|name| !name.trim().is_empty());
    let file_name = saved_as.or_else(|| name_of(&answer)).unwrap_or_else(|| name_in(&uri));
    // The writer is gone only when it has failed, which it says itself.
    let _ = name.send(takes.then_some(file_name));
    let kept = writing.await.map_err(|error| TaskError { code: "internal", message: error.to_string() })??;
    let Some((address, length)) = kept else {
        return Ok(Outcome::FailedClean {
            code: "http_status",
            message: format!("the far side answered {code}"),
            output: None,
            retryable: http::may_pass(code),
        });
    };
    if length == 0 {
        if fail_on_empty && !judge.allow_failed {
            let message = "the far side answered without a body".to_owned();
            return Ok(Outcome::FailedClean { code: "empty_answer", message, output: None, retryable: true });
        }
        request.log.say(Level::Warn, format!("File '{uri}' is empty"));
    }
    let headers = http::header_lists(&answer);
    Ok(Outcome::Done { output: json!({"uri": address, "code": code, "length": length, "headers": headers}) })
}

/// Writes the pieces down; the file's address and length, unless it is not wanted in the end.
fn keep(
    desk: &Desk,
    mut pieces: mpsc::Receiver<Vec<u8>>,
    named: &std::sync::mpsc::Receiver<Option<String>>,
) -> Result<Option<(String, u64)>, FileError> {
    let mut writer = desk.create("download")?;
    while let Some(piece) = pieces.blocking_recv() {
        writer.write(&piece)?;
    }
    // A call that failed drops its end without a word.
    let Ok(Some(name)) = named.recv() else { return Ok(None) };
    let length = writer.bytes();
    Ok(Some((writer.finish_as(&name)?, length)))
}

/// The name in `Content-Disposition`, if there is one.
fn name_of(answer: &Answer) -> Option<String> {
    let header = answer.headers.get(reqwest::header::CONTENT_DISPOSITION)?;
    disposition_name(header.to_str().ok()?)
}

fn disposition_name(header: &str) -> Option<String> {
    let mut plain = None;
    for part in header.split(';').skip(1) {
        let Some((name, value)) = part.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            // As it is written there, percent signs and all: they are as safe in an address.
            "filename*" => return value.rsplit('\'').next().filter(|name| !name.is_empty()).map(str::to_owned),
            "filename" if !value.is_empty() => plain = Some(value.to_owned()),
            _ => {}
        }
    }
    plain
}

/// A name with the ending that the URL's path has.
fn name_in(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    let last = path.split("//").nth(1).and_then(|rest| rest.split_once('/')).map_or("", |(_, path)| path);
    let ending = semel_core::files::extension(last).filter(|ending| ending.len() > 1);
    format!("download{}", ending.unwrap_or(".tmp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_answer_or_the_url() {
        for (header, name) in [
            ("attachment; filename=\"a b.csv\"", Some("a b.csv")),
            ("attachment; filename=a.csv; size=3", Some("a.csv")),
            ("attachment; filename=x; filename*=UTF-8''na%20me.csv", Some("na%20me.csv")),
            ("inline", None),
            ("attachment; filename=\"\"", None),
        ] {
            assert_eq!(disposition_name(header).as_deref(), name, "{header}");
        }
        for (uri, name) in [
            ("http://host/a/data.csv?x=1.y", "download.csv"),
            ("http://host.org/a/data", "download.tmp"),
            ("http://host.org", "download.tmp"),
        ] {
            assert_eq!(name_in(uri), name, "{uri}");
        }
    }
}
