//! Steps at which somebody approves or denies.

use super::flows::*;
use super::world::*;
use crate::ir::{AfterReview, OnTime, ReviewDecision, Reviewed, TaskKind};
use crate::run::*;
use AfterReview::*;
use serde_json::json;

const USUAL: [AfterReview; 3] = [Continue, Cancel, Cancel];

fn say(step: &str, decision: ReviewDecision) -> Input {
    let review = Some(Reviewed { decision, comment: Some("because".into()) });
    Input::ResumeStep { step: key(step), by: by(), inputs: None, review }
}

fn shown(world: &World) -> serde_json::Value {
    let found = world.journal.iter().rev().find_map(|event| match event {
        Event::StepResumed { output: Some(output), .. } => Some(output.json().clone()),
        _ => None,
    });
    found.expect("a step was decided")
}

fn conclusion(world: &World) -> Option<Conclusion> {
    world.state.conclusion
}

scenarios! {
    fn what_is_approved_goes_on_with_what_follows_an_approval() {
        let mut world = World::of(vec![review("q", 0, USUAL), inline("a")]).start();
        world.finish();
        assert_eq!(world.status(), Status::Paused);
        world.crash();
        world.must(say("q", ReviewDecision::Approved));
        let on = world.now.to_rfc3339();
        assert_eq!(shown(&world), json!({"decision": "APPROVED", "auto": false, "by": "ann", "comment": "because", "on": on}));
        world.finish();
        world.assert_ends(&["q/q_approved:success", "q:success", "a:success"]);
        assert_eq!(world.status(), Status::Completed);
    }

    fn what_is_denied_is_cancelled_by_a_rule_once_what_follows_a_denial_is_done() {
        let mut world = World::of(vec![review("q", 0, USUAL), inline("a")]).start();
        world.finish();
        world.must(say("q", ReviewDecision::Denied));
        world.finish();
        world.assert_ends(&["q/q_denied:success", "q:cancelled"]);
        assert_eq!((world.status(), conclusion(&world)), (Status::Cancelled, Some(Conclusion::ByRule)));
    }

    fn silence_is_no_approval() {
        let asked = review("q", 60_000, USUAL).finally(vec![inline("f")]);
        let mut world = World::of(vec![asked, inline("a")]).start();
        world.answer_all();
        world.crash();
        world.finish();
        world.assert_ends(&["q/f:success", "q:cancelled"]);
        assert_eq!((shown(&world)["decision"].as_str(), shown(&world).get("by")), (Some("EXPIRED"), None));
        assert_eq!(shown(&world)["due"], shown(&world)["on"]);
        assert_eq!((world.status(), conclusion(&world)), (Status::Cancelled, Some(Conclusion::ByRule)));
    }

    fn a_decision_means_what_its_author_says() {
        for (then, ends, status) in [
            (Continue, vec!["q/q_denied:success", "q:success", "a:success"], Status::Completed),
            (Warn, vec!["q/q_denied:success", "q:warning", "a:success"], Status::Completed),
            (Fail, vec!["q/q_denied:success", "q:failed"], Status::Failed),
            (Succeed, vec!["q/q_denied:success", "q:success"], Status::Completed),
            (Cancel, vec!["q/q_denied:success", "q:cancelled"], Status::Cancelled),
            (Kill, vec!["q/q_denied:success", "q:cancelled"], Status::Cancelled),
        ] {
            let mut world = World::of(vec![review("q", 0, [Continue, then, Continue]), inline("a")]).start();
            world.finish();
            world.must(say("q", ReviewDecision::Denied));
            world.finish();
            world.assert_ends(&ends);
            assert_eq!((world.status(), world.state.warned), (status, then == Warn), "{then:?}");
            assert_eq!(conclusion(&world) == Some(Conclusion::ByRule), then == Cancel, "{then:?}: a kill is no rule");
        }
    }

    fn what_fails_after_a_decision_fails_the_run_whatever_the_decision_means() {
        let asked = review("q", 0, [Succeed, Cancel, Cancel]).around(vec![], vec![inline("x")]);
        let mut world = World::of(vec![asked]).evals("x", &[Answer::Fail]).start();
        world.finish();
        world.must(say("q", ReviewDecision::Approved));
        world.finish();
        world.assert_ends(&["q/x:failed", "q:failed"]);
        assert_eq!(world.status(), Status::Failed);
    }

    fn the_last_word_leaves_the_handlers_their_work() {
        for (then, status) in [(Succeed, Status::Completed), (Cancel, Status::Cancelled)] {
            let inner = seq("g", vec![review("q", 0, [then; 3]), inline("a")]).finally(vec![inline("f")]);
            let mut world = World::new(flow(vec![inner, inline("b")]).with(|flow| flow.finally = vec![inline("z")])).start();
            world.finish();
            world.must(say("g/q", ReviewDecision::Approved));
            world.finish();
            let word = if then == Cancel { "cancelled" } else { "success" };
            let ends = ["g/q/q_approved:success".into(), format!("g/q:{word}"), "g/f:success".into(), format!("g:{word}"), "z:success".into()];
            world.assert_ends(&ends.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(world.status(), status);
        }
    }

    fn what_runs_beside_it_ends_by_itself_and_starts_nothing_more() {
        let beside = seq("s", vec![naked("n"), inline("m")]);
        let tasks = vec![review("q", 0, USUAL), review("r", 0, USUAL), beside];
        let mut world = World::of(vec![parallel("p", 0, tasks), inline("a")]).calls("n", &[Answer::Silence, Answer::Silence]).start();
        world.answer_all();
        world.must(say("p/q", ReviewDecision::Denied));
        world.answer_all();
        assert!(!world.state.is_ended(), "a call is out");
        world.finish();
        world.assert_ends(&["p/q/q_denied:success", "p/r:cancelled", "p/q:cancelled", "p/s/n:success", "p/s:success", "p:cancelled"]);
        assert_eq!(world.status(), Status::Cancelled);
    }

    fn in_a_loop_it_is_the_last_word_for_its_round() {
        let mut world = World::of(vec![rounds("l", 2, 1, vec![review("q", 0, USUAL), inline("a")]), inline("b")]).start();
        world.finish();
        world.must(say("l[0]/q", ReviewDecision::Denied));
        world.finish();
        world.must(say("l[1]/q", ReviewDecision::Approved));
        world.finish();
        world.assert_ends(&[
            "l[0]/q/q_denied:success", "l[0]/q:cancelled", "l[0]:skipped",
            "l[1]/q/q_approved:success", "l[1]/q:success", "l[1]/a:success", "l[1]:success",
            "l:success", "b:success",
        ]);
        assert_eq!(world.status(), Status::Completed);
    }

    fn nobody_is_asked_where_it_is_approved_by_itself() {
        let asked = review("q", 0, USUAL).around(vec![inline("w")], vec![inline("x")]).with(|task| match &mut task.kind {
            TaskKind::Pause(spec) => spec.review.as_mut().expect("a review").auto = "true".into(),
            _ => unreachable!(),
        });
        let mut world = World::of(vec![asked]).start();
        world.finish();
        world.assert_ends(&["q/x:success", "q:success"]);
        assert_eq!(world.count(|event| matches!(event, Event::StepPaused { .. })), 0);
    }

    fn a_bare_resume_decides_nothing_and_finds_the_pause_beside_it() {
        let mut world = World::of(vec![parallel("p", 0, vec![review("q", 0, USUAL), pause("r", 0, OnTime::Resume)])]).start();
        world.finish();
        world.must(Input::Resume { by: by() });
        world.finish();
        world.assert_ends(&["p/r:success"]);
        let said = world.input(Input::Resume { by: by() }).unwrap_err().to_string();
        assert!(said.contains("review"), "{said}");
        let bare = Input::ResumeStep { step: key("p/q"), by: by(), inputs: None, review: None };
        assert!(world.input(bare).unwrap_err().to_string().contains("review"));
        world.must(say("p/q", ReviewDecision::Approved));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert!(world.input(say("p/q", ReviewDecision::Denied)).is_err(), "one decision is all there is");
    }

    fn a_pause_is_not_decided() {
        let mut world = World::of(vec![pause("p", 0, OnTime::Resume)]).start();
        world.finish();
        assert!(world.input(say("p", ReviewDecision::Approved)).unwrap_err().to_string().contains("no decision"));
    }
}
