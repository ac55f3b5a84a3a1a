//! Steps at which somebody approves or denies: what their expressions give.

use crate::api::ControlError;
use crate::evaluate::Evaluator;
use crate::handle::Engine;
use crate::pauses::{find, said, told_of};
use crate::scope::ExprScope;
use semel_core::ir::{AfterReview, CommentRequired, ReviewDecision, ReviewSpec, Reviewed};
use semel_core::run::{By, Evaluated, Failure, ListName, Payload, StepKey, Work};
use semel_core::{RunId, WorkspaceId};
use semel_expr::{Budget, Template, Value, render};
use serde_json::{Value as Json, json};

/// Characters of a comment.
const COMMENT_MAX: usize = 10_000;

impl Evaluator<'_> {
    /// Nobody is asked where it is approved by itself.
    pub(crate) fn ask(&self, review: &ReviewSpec) -> Result<Evaluated, Failure> {
        let auto = self.plain_text(&review.auto, "autoApprove")?;
        let auto = match auto.trim() {
            "true" => true,
            "false" => false,
            other => return Err(wrong("autoApprove", other, &["true", "false"])),
        };
        let mut output = json!({ "auto": auto });
        if auto {
            output["decision"] = json!(ReviewDecision::Approved.word());
        }
        if let Some(url) = self.execution_url() {
            output["url"] = json!(url);
        }
        let list = if auto { ListName::Tasks } else { ListName::OnPause };
        Ok(Evaluated::Branch { list, output: Some(Payload::new(output)) })
    }

    fn execution_url(&self) -> Option<String> {
        let base = self.services.url.as_ref()?.trim_end_matches('/');
        let flow = &self.flow.flow_ref;
        let workspace = &self.workspace.0;
        Some(format!("{base}/ui/{workspace}/executions/{}/{}/{}", flow.namespace, flow.id, self.family.run))
    }

    /// What was decided, as the list tells that runs since.
    pub(crate) fn decision(&self, key: &StepKey) -> Option<ReviewDecision> {
        match self.work(key) {
            Some(Work::Group(group)) => match group.list {
                ListName::Tasks => Some(ReviewDecision::Approved),
                ListName::OnDeny => Some(ReviewDecision::Denied),
                ListName::OnExpire => Some(ReviewDecision::Expired),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn reviewed(&self, key: &StepKey, review: &ReviewSpec) -> Result<Evaluated, Failure> {
        let decision = self.decision(key).unwrap_or(ReviewDecision::Approved);
        let name = match decision {
            ReviewDecision::Approved => "approveBehavior",
            ReviewDecision::Denied => "denyBehavior",
            ReviewDecision::Expired => "expireBehavior",
        };
        let word = self.plain_text(review.behavior(decision), name)?;
        let then = AfterReview::parse(&word).ok_or_else(|| wrong(name, &word, AfterReview::WORDS))?;
        Ok(Evaluated::Reviewed { then })
    }
}

/// What a step shows: what it did before it was decided, and the decision.
pub(crate) fn with_decision(before: Option<Json>, decided: &Json) -> Json {
    match (before, decided) {
        (Some(Json::Object(mut shown)), Json::Object(decided)) => {
            shown.extend(decided.clone());
            Json::Object(shown)
        }
        _ => decided.clone(),
    }
}

fn wrong(name: &str, found: &str, words: &[&str]) -> Failure {
    Failure::new("bad_behavior", format!("`{found}` is not a value of `{name}`: {}", words.join(", ")))
}

impl Engine {
    /// Approves or denies at a step that asks for it: the one that is named by id or path, else the only one.
    pub async fn review(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        step: Option<&str>,
        reviewed: Reviewed,
        given: &Json,
        by: By,
    ) -> Result<(), ControlError> {
        let control = {
            let told = told_of(&self.services, &self.flows, workspace, run)?;
            let mut open = told.pauses();
            open.retain(|pause| pause.review.is_some());
            if step.is_none() && open.len() > 1 {
                let names: Vec<&str> = open.iter().map(|pause| pause.task_id.as_str()).collect();
                let text = format!("several steps wait for a review ({}); say which one", names.join(", "));
                return Err(ControlError::NotPossible(text));
            }
            let pause = find(open, step)
                .map_err(|_| ControlError::NotPossible("the run waits for no review there".to_owned()))?;
            let scope = told.scope(&self.services, workspace, run, &pause.step, self.store().now());
            if let Some(review) = &pause.review {
                hold_comment(&scope, review, &reviewed)?;
            }
            let inputs = said(&scope, &pause, given)?;
            crate::api::Control::ResumeStep { step: pause.step_id, inputs, review: Some(reviewed) }
        };
        self.control(workspace, run, control, by).await
    }
}

fn hold_comment(scope: &ExprScope, review: &ReviewSpec, said: &Reviewed) -> Result<(), ControlError> {
    let refuse = |text: String| Err(ControlError::NotPossible(text));
    if said.comment.as_ref().is_some_and(|text| text.chars().count() > COMMENT_MAX) {
        return refuse(format!("the comment may have {COMMENT_MAX} characters"));
    }
    let rendered = Template::of(&review.comment).map_err(|error| error.message);
    let rendered =
        rendered.and_then(|template| render(&template, scope, &mut Budget::default()).map_err(|error| error.message));
    let word = match rendered {
        Ok(Value::Str(word)) => word.to_string(),
        Ok(_) => String::new(),
        Err(text) => return refuse(format!("`commentRequired` cannot be evaluated: {text}")),
    };
    let Some(required) = CommentRequired::parse(&word) else {
        return refuse(wrong("commentRequired", &word, CommentRequired::WORDS).message().to_owned());
    };
    if required.of(said.decision) && said.comment.as_ref().is_none_or(|text| text.trim().is_empty()) {
        return refuse("this review needs a comment: say why".to_owned());
    }
    Ok(())
}
