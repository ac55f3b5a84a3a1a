//! Groups that tolerate failures, that start by what is done, and loops that ask.

use super::flows::*;
use super::world::*;
use crate::ir::TaskKind;
use crate::run::*;
use Answer::*;

fn started(world: &World) -> Vec<String> {
    let found = world.journal.iter().filter_map(|event| match event {
        Event::StepStarted { step, .. } => Some(step.0.clone()),
        _ => None,
    });
    found.collect()
}

scenarios! {
    fn what_fails_inside_allow_failure_is_a_warning_outside() {
        let group = tolerant("g", vec![inline("a"), inline("b")]).errors(vec![inline("e")]).finally(vec![inline("f")]);
        let world = World::of(vec![group.clone(), inline("c")]).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["g/a:failed", "g/e:success", "g/f:success", "g:warning", "c:success"]);
        assert_eq!((world.status(), world.state.warned, world.state.steps.len()), (Status::Completed, true, 1));
        World::of(vec![group]).start().finished().assert_ends(&["g/a:success", "g/b:success", "g/f:success", "g:success"]);
    }

    fn a_dag_starts_each_task_when_its_needs_are_done() {
        let tasks = || vec![(sleep("d", 5), &["b", "c"][..]), (sleep("b", 30), &["a"][..]), (sleep("c", 10), &["a"][..]), (sleep("a", 5), &[][..])];
        let world = World::of(vec![dag("g", 0, tasks())]).start().finished();
        assert_eq!(started(&world), ["g", "g/a", "g/b", "g/c", "g/d"]);
        world.assert_ends(&["g/a:success", "g/c:success", "g/b:success", "g/d:success", "g:success"]);
        let mut world = World::of(vec![dag("g", 1, tasks())]).start();
        world.answer_all();
        world.fire_next();
        world.crash();
        world.finish();
        world.assert_ends(&["g/a:success", "g/b:success", "g/c:success", "g/d:success", "g:success"]);
    }

    fn a_failure_in_a_dag_stops_what_needs_it_and_a_restart_goes_on() {
        let tasks = vec![(inline("a"), &[][..]), (naked("b"), &["a"][..]), (inline("c"), &["b"][..])];
        let mut world = World::of(vec![dag("g", 0, tasks).errors(vec![inline("e")])]).calls("b", &[Fail]).start().finished();
        world.assert_ends(&["g/a:success", "g/b:failed", "g/e:success", "g:failed"]);
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!(world.ends()[4..], ["g/b:success", "g/c:success", "g:success"]);
    }

    fn nobody_in_a_dag_waits_for_a_disabled_task() {
        let tasks = vec![(inline("a").with(|t| t.disabled = true), &[][..]), (inline("b"), &["a"][..])];
        World::of(vec![dag("g", 0, tasks)]).start().finished().assert_ends(&["g/b:success", "g:success"]);
    }

    fn a_loop_goes_round_until_its_condition_holds() {
        let mut world = World::of(vec![until("u", 3, vec![naked("a")]), inline("b")]).start();
        world.answer_all();
        assert_eq!((world.status(), world.state.timers.len()), (Status::Waiting, 1));
        world.crash();
        world.finish();
        world.assert_ends(&["u[0]/a:success", "u[0]:success", "u[1]/a:success", "u[1]:success", "u[2]/a:success", "u[2]:success", "u:success", "b:success"]);
        let keys: std::collections::BTreeSet<String> = (0..3).map(|n| world.intents(&format!("u[{n}]/a"))[0].2.clone()).collect();
        assert_eq!(keys.len(), 3, "each round sends something new");
    }

    fn a_crash_while_a_loop_asks_asks_again() {
        let mut world = World::of(vec![until("u", 2, vec![inline("a")])]).evals("u", &[Good, Silence]).start();
        world.answer_all();
        assert!(world.state.is_active());
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_loop_that_reached_its_bound_fails_by_itself_and_its_handlers_run() {
        for answer in [Fail, BadExpression] {
            let task = until("u", 9, vec![inline("a")]).errors(vec![inline("e")]).finally(vec![inline("f")]);
            let mut world = World::of(vec![task]).evals("u", &[Good, answer]).start().finished();
            world.assert_ends(&["u[0]/a:success", "u[0]:success", "u/e:success", "u/f:success", "u:failed"]);
            world.must(Input::Restart { by: by() });
            world.finish();
            assert_eq!(world.status(), Status::Completed, "it asks again");
        }
    }

    fn a_failure_in_a_round_fails_the_loop_and_a_restart_goes_on_in_that_round() {
        let mut world = World::of(vec![until("u", 2, vec![naked("a"), naked("b")])]).calls("u[1]/b", &[Fail]).start().finished();
        assert_eq!(world.status(), Status::Failed);
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!((world.status(), world.intents("u[1]/a").len()), (Status::Completed, 1));
    }

    fn a_paused_run_goes_round_when_it_goes_on() {
        let mut world = World::of(vec![until("u", 2, vec![inline("a")])]).start();
        world.answer_all();
        world.must(Input::Pause { by: by() });
        world.finish();
        world.assert_ends(&["u[0]/a:success", "u[0]:success"]);
        world.must(Input::Resume { by: by() });
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn cancel_ends_a_loop_between_its_rounds() {
        let mut world = World::of(vec![until("u", 2, vec![inline("a")])]).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        assert_eq!((world.status(), world.state.timers.len()), (Status::Cancelled, 0));
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn each_round_of_a_loop_of_its_own_is_asked_what_it_gives() {
        let task = rounds("l", 2, 1, vec![inline("a")]).finally(vec![inline("f")]);
        let world = World::of(vec![task]).start().finished();
        world.assert_ends(&["l[0]/a:success", "l[0]/f:success", "l[0]:success", "l[1]/a:success", "l[1]/f:success", "l[1]:success", "l:success"]);
        let answers = |step: &str| world.count(|e| matches!(e, Event::GroupAnswered { step: found, .. } if found.0 == step));
        assert_eq!((answers("l[0]"), answers("l[1]"), answers("l")), (1, 1, 1));
    }

    fn a_round_may_be_the_last_one() {
        let last = Evaluates(Evaluated::Answered { output: None, failure: None, stop: true });
        let world = World::of(vec![rounds("l", 5, 1, vec![inline("a")])]).evals("l[1]", &[last]).start().finished();
        world.assert_ends(&["l[0]/a:success", "l[0]:success", "l[1]/a:success", "l[1]:success", "l:success"]);
    }

    fn a_loop_may_keep_the_failures_of_its_rounds_to_itself() {
        let task = rounds("l", 2, 1, vec![inline("a")]).with(|t| match &mut t.kind {
            TaskKind::Loop(spec) => spec.transmit_failed = false,
            _ => unreachable!(),
        });
        let world = World::of(vec![task]).evals("l[0]/a", &[Fail]).start().finished();
        world.assert_ends(&["l[0]/a:failed", "l[0]:failed?", "l[1]/a:success", "l[1]:success", "l:warning"]);
    }
}
