//! The child: evaluates one script after another, each in an engine of its own.

use super::{Answer, Question};
use rquickjs::context::EvalOptions;
use rquickjs::{CatchResultExt, Context, Ctx, Runtime, Value};
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// Scripts that nest deeper fail instead of ending the process.
const STACK_BYTES: usize = 512 * 1024;

/// Answers questions from standard input until that ends. The binary calls it, and nothing else, in a child.
pub fn child_main() {
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    serve(input, output);
}

/// As [`child_main`], on any lines.
pub fn serve(input: impl BufRead, mut output: impl Write) {
    for line in input.lines() {
        let Ok(line) = line else { return };
        let answer = match serde_json::from_str::<Question<'_>>(&line) {
            Ok(question) => evaluate(&question).map_or_else(Answer::Failed, Answer::Done),
            Err(error) => Answer::Failed(format!("the question is not understood: {error}")),
        };
        let Ok(text) = serde_json::to_string(&answer) else { return };
        if writeln!(output, "{text}").and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

fn evaluate(question: &Question<'_>) -> Result<String, String> {
    let engine = |error: rquickjs::Error| format!("the script engine does not start: {error}");
    let runtime = Runtime::new().map_err(engine)?;
    runtime.set_memory_limit(question.memory_bytes);
    runtime.set_max_stack_size(STACK_BYTES);
    let until = Instant::now() + Duration::from_millis(question.time_ms);
    runtime.set_interrupt_handler(Some(Box::new(move || Instant::now() >= until)));
    let context = Context::full(&runtime).map_err(engine)?;
    let result = context.with(|ctx| run(&ctx, question));
    match result {
        Err(_) if Instant::now() >= until => {
            Err(format!("Script not evaluated within {} ms, interrupted.", question.time_ms))
        }
        other => other,
    }
}

/// Definitions write to names that they never declared.
fn sloppy() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options
}

fn run(ctx: &Ctx<'_>, question: &Question<'_>) -> Result<String, String> {
    let said = |error: rquickjs::CaughtError<'_>| message(&error);
    let input = ctx.json_parse(question.input.to_string()).catch(ctx).map_err(said)?;
    ctx.globals().set("$", input).catch(ctx).map_err(said)?;
    let quiet = "globalThis.console = {log() {}, info() {}, warn() {}, error() {}, debug() {}};";
    ctx.eval::<(), _>(quiet).catch(ctx).map_err(said)?;
    let value: Value<'_> = ctx.eval_with_options(&*question.script, sloppy()).catch(ctx).map_err(said)?;
    let text = ctx.json_stringify(value).catch(ctx).map_err(said)?;
    match text {
        // What has no JSON, such as undefined or a function, is nothing.
        None => Ok("null".to_owned()),
        Some(text) => text.to_string().catch(ctx).map_err(said),
    }
}

fn message(error: &rquickjs::CaughtError<'_>) -> String {
    match error {
        rquickjs::CaughtError::Exception(exception) => {
            exception.message().unwrap_or_else(|| "the script failed".to_owned())
        }
        other => other.to_string().trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};
    use std::borrow::Cow;

    fn asked(script: &str, input: Json) -> Result<Json, String> {
        let question =
            Question { script: Cow::Borrowed(script), input: Cow::Owned(input), time_ms: 200, memory_bytes: 16 << 20 };
        let mut lines = serde_json::to_vec(&question).expect("a question");
        lines.push(b'\n');
        let mut output = Vec::new();
        serve(lines.as_slice(), &mut output);
        match serde_json::from_slice(&output).expect("an answer") {
            Answer::Done(text) => Ok(serde_json::from_str(&text).expect("JSON")),
            Answer::Failed(message) => Err(message),
        }
    }

    #[test]
    fn the_last_statement_is_the_result() {
        for (script, result) in [
            ("$.a + 1", json!(2)),
            ("if ($.a < 5) { true; } else { false; }", json!(true)),
            ("(function () { return {'x': $.list.length}; })()", json!({"x": 2})),
            ("function e() { return $.list.map(i => i * 2); } e();", json!([2, 4])),
            ("undeclared = 3; undeclared", json!(3)),
            ("var x = 1; console.log(x); undefined", json!(null)),
            ("$.text", json!("ö \u{2028} \"")),
            ("1.5 * 2", json!(3)),
            ("JSON.parse('{\"k\": [1]}')", json!({"k": [1]})),
        ] {
            let input = json!({"a": 1, "list": [1, 2], "text": "ö \u{2028} \""});
            assert_eq!(asked(script, input), Ok(result), "{script}");
        }
    }

    #[test]
    fn whatever_a_script_does_there_is_an_answer() {
        for (script, part) in [
            ("throw new Error('no')", "no"),
            ("nobody.x", "nobody"),
            ("if (", ""),
            ("while (true) {}", "not evaluated within 200 ms"),
            ("var a = []; while (true) { a.push(new Array(1000).fill('x')); }", ""),
            ("function f() { return f(); } f()", ""),
            ("let a = {}; a.a = a; a", ""),
        ] {
            let said = asked(script, json!({})).expect_err(script);
            assert!(said.contains(part), "{script}: {said}");
        }
    }
}
