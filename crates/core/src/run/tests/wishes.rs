//! What can be asked again: granted once, and once more when it is repeated.

use super::errands::terms;
use super::flows::*;
use super::world::*;
use crate::ids::FlowRef;
use crate::ir::{ConductorFlow, Dialect, ErrandKind, Task};
use crate::run::*;
use Answer::*;

fn wish(wish: Wish) -> Input {
    Input::Wish { wish, by: by() }
}

fn terminate() -> Input {
    wish(Wish::Terminate { failure: Failure::new(TERMINATED, "no longer wanted") })
}

fn retry(anew: bool) -> Input {
    wish(Wish::Retry { anew })
}

fn redo(world: &World, step: Option<&str>) -> Result<Input, NotPossible> {
    let back = step.map(|step| back_to(&world.index, &world.journal, &key(step))).transpose()?;
    Ok(wish(Wish::Redo(Box::new(Redo { back, ..Redo::default() }))))
}

/// Begins a run again from a step.
fn again(world: &mut World, step: &str) {
    let input = redo(world, Some(step)).expect("the step was reached");
    world.must(input);
}

fn skip(task: &str) -> Input {
    wish(Wish::Skip { task: task.into(), input: None, output: Some(payload("skipped")) })
}

fn jump(task: &str) -> Input {
    wish(Wish::Jump { task: task.into(), input: Some(payload("given")) })
}

fn upgrade(was: &FlowIndex, missed: &[&str]) -> Input {
    let missed = missed.iter().map(|task| ((*task).to_owned(), Some(payload("was")))).collect();
    let (flow, inputs) = (FlowRef::new("n", "flow-2"), Some(payload("inputs")));
    wish(Wish::Upgrade(Box::new(Upgrade { flow, revision: 7, inputs, missed, was: was.clone() })))
}

fn at_errand(tasks: Vec<Task>) -> World {
    let mut world = World::of(tasks).start();
    world.answer_all();
    world
}

fn answer(world: &mut World, step: &str) {
    let said = Said::Done { output: payload("result") };
    let attempt = world.state.steps[&key(step)].attempt;
    world.must(Input::Errand { step: key(step), attempt, said, seen: Seen::default() });
}

fn failed(world: &World) -> Option<String> {
    world.journal.iter().rev().find_map(|event| match event {
        Event::Ended { failure, .. } | Event::StatusChanged { failure, .. } => {
            failure.as_ref().map(|failure| format!("{}: {}", failure.code, failure.message()))
        }
        _ => None,
    })
}

/// Takes of the steps of a task, in their order.
fn takes(world: &World, task: &str) -> Vec<u32> {
    let started = world.journal.iter().filter_map(|event| match event {
        Event::StepStarted { step, take, .. } if step.task_id() == task => Some(*take),
        _ => None,
    });
    started.collect()
}

scenarios! {
    fn a_pause_and_a_resume_can_be_repeated() {
        let mut world = at_errand(vec![errand("a"), inline("b")]);
        assert!(world.input(wish(Wish::Resume)).is_err(), "it was never paused");
        world.must(wish(Wish::Pause));
        assert!(world.must(wish(Wish::Pause)).events.is_empty());
        // What is out may be answered; nothing new starts.
        answer(&mut world, "a");
        world.answer_all();
        world.assert_ends(&["a:success"]);
        world.must(wish(Wish::Resume));
        assert!(world.must(wish(Wish::Resume)).events.is_empty());
        world.now = world.now.plus(REPEAT_MS);
        assert!(world.input(wish(Wish::Resume)).is_err(), "too long ago to be a repeat");
        world.finish();
        assert!(world.input(wish(Wish::Resume)).is_err());
        let mut failed = World::of(vec![inline("a")]).evals("a", &[Fail]).start().finished();
        assert!(failed.input(wish(Wish::Pause)).is_err());
        let mut stopping = World::of(vec![naked("a")]).calls("a", &[Silence]).start();
        stopping.answer_all();
        stopping.must(terminate());
        assert!(stopping.input(wish(Wish::Pause)).is_err());
    }

    fn a_run_is_ended_with_the_reason_that_was_given() {
        let mut world = at_errand(vec![errand("a")]);
        world.must(terminate());
        assert_eq!((world.status(), world.state.conclusion), (Status::Cancelled, None));
        assert_eq!(failed(&world).as_deref(), Some("terminated: no longer wanted"));
        assert!(world.must(terminate()).events.is_empty(), "a repeat");
        let mut waiting = World::of(vec![inline("a")]);
        waiting.must(terminate());
        assert_eq!(waiting.status(), Status::Cancelled);
        let mut failing = World::of(vec![inline("a")]).evals("a", &[Fail]).start().finished();
        failing.must(terminate());
        assert_eq!((failing.status(), failed(&failing).as_deref()), (Status::Cancelled, Some("terminated: no longer wanted")));
        let mut doubtful = World::of(vec![naked("a")]).calls("a", &[Lost]).start().finished();
        assert!(doubtful.input(terminate()).is_err(), "what is unknown is not swept away");
        let mut completed = World::of(vec![inline("a")]).start().finished();
        assert!(completed.input(terminate()).is_err());
    }

    fn what_was_sent_settles_before_the_end() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Silence]).start();
        world.answer_all();
        world.must(terminate());
        assert_eq!(world.state.phase, Phase::Open);
        assert!(world.must(terminate()).events.is_empty());
        world.answer_all();
        assert_eq!(failed(&world).as_deref(), Some("terminated: no longer wanted"));
    }

    fn a_run_of_conductors_tells_why_it_was_cancelled() {
        let flow = flow(vec![errand("a")]).with(|f| f.dialect = Dialect::Conductor);
        let mut world = World::new(flow).start();
        world.answer_all();
        world.must(Input::Cancel { by: by() });
        world.answer_all();
        assert_eq!(failed(&world).as_deref(), Some("terminated: test"));
    }

    fn a_restore_is_no_obstacle_to_an_end() {
        let mut world = at_errand(vec![errand("a")]);
        let at = world.now;
        world.store_writes(&[Event::Restored { at }]);
        assert!(world.input(wish(Wish::Pause)).is_err());
        world.must(terminate());
        assert_eq!(world.status(), Status::Cancelled);
    }

    fn a_retry_does_what_failed_and_can_be_repeated() {
        let tasks = vec![parallel("p", 0, vec![naked("a"), errand("b")]), inline("c")];
        let mut world = World::of(tasks).calls("a", &[Fail]).start();
        world.answer_all();
        assert!(world.input(retry(false)).is_err(), "it has not ended");
        world.must(terminate());
        world.must(retry(false));
        assert!(world.must(retry(false)).events.is_empty());
        world.answer_all();
        assert_eq!(world.state.steps[&key("p/b")].attempt, 2, "the attempt that was withdrawn is not awaited any more");
        answer(&mut world, "p/b");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(takes(&world, "a"), [0], "the same step, tried again");
        assert!(world.input(retry(false)).is_err(), "it completed");
        let mut world = World::of(vec![inline("a")]).evals("a", &[Fail]).start().finished();
        world.must(retry(false));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn sub_runs_go_on_or_are_begun_anew() {
        for anew in [false, true] {
            let mut world = World::of(vec![subflow("a")]).start();
            world.answer_all();
            world.child_ends(1, EndStatus::Failed, 0);
            assert_eq!(world.state.failed_children.get(&key("a")), Some(&child_id(1)));
            world.must(retry(anew));
            assert_eq!(world.state.child_round, u32::from(anew));
            world.answer_all();
            world.child_ends(2, EndStatus::Completed, 0);
            world.finish();
            assert_eq!(world.status(), Status::Completed);
        }
    }

    fn a_sub_run_that_goes_on_takes_its_parent_with_it() {
        let reopened = |n| Input::ChildReopened { run: child_id(n), by: by() };
        let mut world = World::of(vec![parallel("p", 0, vec![subflow("a"), errand("b")]), inline("c")]).start();
        world.answer_all();
        assert!(world.must(reopened(1)).events.is_empty(), "it has not ended");
        world.child_ends(1, EndStatus::Failed, 0);
        world.must(terminate());
        // Ended by a person after the child had failed: the step is kept.
        let mut failing = World::of(vec![subflow("a"), inline("c")]).start();
        failing.answer_all();
        failing.child_ends(1, EndStatus::Failed, 0);
        assert_eq!(failing.status(), Status::Failed);
        assert!(failing.must(reopened(5)).events.is_empty(), "another run");
        failing.must(reopened(1));
        failing.answer_all();
        assert_eq!(failing.status(), Status::Waiting);
        failing.child_ends(1, EndStatus::Completed, 0);
        failing.finish();
        failing.assert_ends(&["a:failed", "a:success", "c:success"]);
    }

    fn a_run_begins_again_from_its_start() {
        let mut world = World::of(vec![naked("a"), errand("b")]).start();
        world.answer_all();
        let input = redo(&world, None).unwrap();
        assert!(world.input(input.clone()).is_err(), "it has not ended");
        answer(&mut world, "b");
        world.finish();
        world.must(input.clone());
        assert!(world.must(input).events.is_empty(), "a repeat");
        world.answer_all();
        assert_eq!((takes(&world, "a"), world.intents("a").len()), (vec![0, 1], 2));
        let keys: Vec<String> = world.intents("a").into_iter().map(|(_, _, key)| key).collect();
        assert_ne!(keys[0], keys[1], "what a person asks for again is another effect");
        world.must(terminate());
        let input = redo(&world, None).unwrap();
        world.must(input);
        world.answer_all();
        answer(&mut world, "b");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_workflow_that_is_not_restartable_is_not_once_it_has_completed() {
        let own = ConductorFlow { restartable: false, ..ConductorFlow::default() };
        let flow = flow(vec![inline("a")]).with(|f| f.conductor = Some(Box::new(own)));
        let mut completed = World::new(flow.clone()).start().finished();
        let input = redo(&completed, None).unwrap();
        assert!(completed.input(input).is_err());
        let mut failing = World::new(flow).evals("a", &[Fail]).start().finished();
        let input = redo(&failing, None).unwrap();
        failing.must(input);
        failing.finish();
        assert_eq!(failing.status(), Status::Completed);
    }

    fn a_doubt_comes_before_beginning_again() {
        let mut world = World::of(vec![naked("a")]).calls("a", &[Lost]).start().finished();
        let input = redo(&world, None).unwrap();
        assert!(world.input(input).is_err());
    }

    fn a_run_may_begin_again_with_other_inputs_and_by_another_definition() {
        let mut world = World::of(vec![inline("a")]).start().finished();
        let redo = Redo {
            back: None,
            flow: Some((FlowRef::new("n", "flow-2"), 3)),
            inputs: Some(payload("other")),
            correlation_id: Some("order-1".into()),
        };
        let decided = world.must(wish(Wish::Redo(Box::new(redo))));
        assert!(matches!(decided.events[0], Event::FlowChanged { revision: 3, .. }));
        assert!(matches!(decided.events[1], Event::InputsGiven { .. }));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn from_a_task_on_in_a_row() {
        let mut world = World::of(vec![naked("a"), seq("g", vec![naked("b"), naked("c"), naked("d")]), naked("e")]).start().finished();
        again(&mut world, "g/c");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        let sent = |task: &str| takes(&world, task);
        assert_eq!((sent("a"), sent("b"), sent("c"), sent("d"), sent("e")), (vec![0], vec![0], vec![0, 1], vec![0, 1], vec![0, 1]));
        again(&mut world, "g/b");
        let repeat = redo(&world, Some("g/b")).unwrap();
        assert!(world.must(repeat).events.is_empty());
        world.finish();
        assert_eq!(takes(&world, "e"), [0, 1, 2]);
    }

    fn from_a_task_on_in_a_fork() {
        let branches = || vec![seq("left", vec![naked("a"), naked("b")]), seq("right", vec![naked("c"), naked("d")]), naked("f")];
        let tasks = vec![parallel("p", 0, branches()), naked("e")];
        let mut world = World::of(tasks.clone()).start().finished();
        again(&mut world, "p/left/b");
        world.finish();
        assert_eq!((takes(&world, "a"), takes(&world, "b"), takes(&world, "e")), (vec![0], vec![0, 1], vec![0, 1]));
        assert_eq!((takes(&world, "c"), takes(&world, "d"), takes(&world, "f")), (vec![0], vec![0], vec![0]), "what ran beside it stays done");
        again(&mut world, "p/f");
        world.finish();
        assert_eq!((takes(&world, "f"), takes(&world, "e")), (vec![0, 2], vec![0, 1, 2]));
        // What had failed beside it goes on where it was.
        let mut world = World::of(tasks).calls("d", &[Fail]).start().finished();
        assert_eq!(world.status(), Status::Failed);
        again(&mut world, "p/left/a");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!((takes(&world, "a"), takes(&world, "b")), (vec![0, 1], vec![0, 1]));
        assert_eq!((takes(&world, "c"), takes(&world, "d"), world.intents("p/right/d").len()), (vec![0], vec![0], 2));
    }

    fn from_a_task_on_in_a_loop() {
        let mut world = World::of(vec![until("u", 3, vec![naked("a"), naked("b")]), naked("e")]).start().finished();
        assert_eq!(takes(&world, "a"), [0, 0, 0]);
        again(&mut world, "u[1]/b");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(takes(&world, "a"), [0, 0, 0, 1], "two rounds stay done but for what followed, and the third is done again");
        assert_eq!((takes(&world, "b"), takes(&world, "e")), (vec![0, 0, 0, 1, 1], vec![0, 1]));
        let mut world = World::of(vec![each("f", 3, 0, vec![naked("a")]), naked("e")]).start().finished();
        again(&mut world, "f[1]/a");
        world.finish();
        assert_eq!((takes(&world, "a"), takes(&world, "e")), (vec![0, 0, 0, 1], vec![0, 1]));
    }

    fn from_a_task_on_that_others_wait_for() {
        let tasks = || vec![(naked("a"), &[][..]), (naked("b"), &["a"][..]), (naked("c"), &[][..]), (naked("d"), &["b", "c"][..])];
        let mut world = World::of(vec![dag("g", 0, tasks()), naked("e")]).start().finished();
        again(&mut world, "g/b");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        let sent = |task: &str| takes(&world, task);
        assert_eq!((sent("a"), sent("b"), sent("c"), sent("d"), sent("e")), (vec![0], vec![0, 1], vec![0], vec![0, 1], vec![0, 1]));
    }

    fn from_a_task_on_in_a_case() {
        let tasks = vec![switch("s", "x", vec![("x", vec![naked("a"), naked("b")])], Some(vec![naked("z")])), naked("e")];
        let mut world = World::of(tasks).start().finished();
        again(&mut world, "s/b");
        world.finish();
        assert_eq!((takes(&world, "a"), takes(&world, "b"), takes(&world, "e"), takes(&world, "z")), (vec![0], vec![0, 1], vec![0, 1], vec![]));
    }

    fn a_step_that_was_not_reached_is_no_place_to_go_on_from() {
        let world = World::of(vec![inline("a"), inline("b")]).evals("a", &[Fail]).start().finished();
        for step in ["b", "nowhere", "", "a[1]"] {
            assert!(redo(&world, Some(step)).is_err(), "{step}");
        }
        let world = World::of(vec![rounds("l", 2, 1, vec![inline("a")])]).start().finished();
        assert!(redo(&world, Some("l[0]/a")).is_err(), "its rounds are its own");
    }

    fn going_back_survives_a_crash() {
        let mut world = World::of(vec![parallel("p", 0, vec![seq("l", vec![naked("a"), keyed("b")]), naked("c")]), naked("e")]).start().finished();
        again(&mut world, "p/l/b");
        world.crash();
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert_eq!((takes(&world, "b"), takes(&world, "c"), takes(&world, "e")), (vec![0, 1], vec![0], vec![0, 1]));
    }

    fn a_task_that_was_not_reached_is_skipped() {
        let evaluated = Evaluates(Evaluated::SkipWith { output: Some(payload("skipped")) });
        let mut world = World::of(vec![errand("a"), errand("b"), inline("c")]).evals("b", &[evaluated]).start();
        world.answer_all();
        assert!(world.input(skip("a")).is_err(), "it has begun");
        assert!(world.input(skip("nothing")).is_err());
        world.must(skip("b"));
        assert!(world.must(skip("b")).events.is_empty(), "a repeat");
        answer(&mut world, "a");
        world.finish();
        world.assert_ends(&["a:success", "b:skipped", "c:success"]);
        assert!(world.input(skip("b")).is_err());
    }

    fn variables_and_an_answer_are_told_at_once() {
        let tell = |variables: bool, attempt: Option<u32>| {
            let told = |attempt| Told { step: key("a"), attempt, said: Said::Done { output: payload("result") }, seen: Seen::default() };
            let variables = variables.then(|| payload("variables"));
            wish(Wish::Tell { variables, errand: attempt.map(|attempt| Box::new(told(attempt))) })
        };
        let mut world = World::of(vec![errand("a")]).evals("a", &[Evaluates(Evaluated::Errand { terms: Box::new(terms(ErrandKind::Human)), request: payload("r") })]);
        world.must(tell(true, None));
        world.must(Input::Start);
        world.answer_all();
        assert!(world.input(tell(true, Some(9))).is_err(), "nothing of it happens");
        let decided = world.must(tell(true, None));
        assert!(matches!(decided.events[..], [Event::VariablesSet { by: Some(_), .. }]));
        world.must(tell(true, Some(1)));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert!(world.input(tell(true, None)).is_err());
    }

    fn a_message_is_taken_once_and_whoever_waits_for_one_is_done() {
        let leave = || wish(Wish::Leave { message: payload("message"), output: payload("output") });
        let waits = || Evaluates(Evaluated::Errand { terms: Box::new(ErrandTerms { retry: None, ..terms(ErrandKind::Messages) }), request: payload("r") });
        let takes = |from: u64, count: u32| Evaluates(Evaluated::Messages { from, count, output: payload("taken") });
        // One was left before the run began: the step is evaluated again, and takes it. The next one takes nothing and
        // goes on; the last one waits.
        let tasks = vec![errand("a"), errand("b"), errand("c")];
        let mut world = World::of(tasks)
            .evals("a", &[waits(), takes(0, 1)])
            .evals("b", &[takes(0, 1), takes(1, 0)])
            .evals("c", &[waits()]);
        world.must(leave());
        world.must(Input::Start);
        world.answer_all();
        assert_eq!((world.state.messages_left, world.state.messages_taken), (1, 1));
        assert_eq!(world.count(|e| matches!(e, Event::MessagesTaken { .. })), 1, "what another step took is not taken");
        world.must(Input::Pause { by: By::default() });
        assert!(world.input(leave()).is_err(), "nobody pulls");
        world.must(Input::Resume { by: By::default() });
        world.must(leave());
        world.finish();
        world.assert_ends(&["a:success", "b:success", "c:success"]);
        assert_eq!((world.state.messages_left, world.state.messages_taken), (2, 2));
        assert!(world.input(leave()).is_err());
        let mut full = World::of(vec![errand("a")]).evals("a", &[Evaluates(Evaluated::Errand { terms: Box::new(terms(ErrandKind::Human)), request: payload("r") })]);
        full.must(Input::Start);
        full.answer_all();
        for _ in 0..MESSAGES_MAX {
            full.must(leave());
        }
        assert_eq!(full.input(leave()).unwrap_err().to_string(), MESSAGES_FULL);
    }

    fn lists_among_the_variables_get_more() {
        let append = || wish(Wish::Append { variables: payload("more") });
        let mut world = World::of(vec![errand("a")]).evals("a", &[Evaluates(Evaluated::Errand { terms: Box::new(terms(ErrandKind::Human)), request: payload("r") })]);
        world.must(append());
        world.must(Input::Start);
        world.answer_all();
        let decided = world.must(append());
        assert!(matches!(decided.events[..], [Event::VariablesSet { by: Some(_), append: true, .. }]));
        answer(&mut world, "a");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
        assert!(world.input(append()).is_err());
    }

    fn a_run_jumps_forward_and_back() {
        let tasks = vec![inline("a"), seq("g", vec![errand("b"), inline("x")]), errand("c"), errand("d")];
        let mut world = at_errand(tasks);
        assert!(world.input(jump("nowhere")).is_err());
        world.must(jump("d"));
        assert!(world.must(jump("d")).events.is_empty(), "a repeat");
        world.answer_all();
        world.assert_ends(&["a:success", "g:skipped"]);
        assert_eq!(world.state.errands().map(|(key, ..)| key.0.as_str()).collect::<Vec<_>>(), ["d"]);
        world.must(jump("a"));
        world.answer_all();
        assert_eq!((takes(&world, "a"), world.state.take), (vec![0, 1], 1), "finished steps are asked for again");
        world.must(terminate());
        let mut sending = World::of(vec![naked("a"), inline("b")]).calls("a", &[Silence]).start();
        sending.answer_all();
        assert!(sending.input(jump("b")).is_err(), "its answer is awaited");
        let mut failing = World::of(vec![inline("a")]).evals("a", &[Fail]).start().finished();
        assert!(failing.input(jump("a")).is_err());
    }

    fn a_run_jumps_inside_of_what_is_under_way() {
        let inner = vec![inline("x"), errand("b"), inline("y"), errand("c")];
        let mut world = at_errand(vec![parallel("p", 2, vec![seq("g", inner), errand("beside")]), errand("later")]);
        world.must(jump("c"));
        assert!(world.must(jump("c")).events.is_empty(), "a repeat");
        world.answer_all();
        let out = |world: &World| world.state.errands().map(|(key, ..)| key.0.clone()).collect::<Vec<_>>();
        assert_eq!(out(&world), ["p/beside", "p/g/c"], "what runs beside the list goes on");
        world.must(jump("x"));
        world.answer_all();
        assert_eq!((out(&world), takes(&world, "x")), (vec!["p/beside".into(), "p/g/b".into()], vec![0, 1]));
        assert!(world.input(jump("beside")).is_err(), "its list does all at the same time");
        for step in ["p/g/b", "p/beside"] {
            answer(&mut world, step);
            world.answer_all();
        }
        answer(&mut world, "p/g/c");
        world.answer_all();
        assert!(world.input(jump("b")).is_err(), "its list is not under way any more");
        answer(&mut world, "later");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_run_goes_on_by_another_definition() {
        let mut world = at_errand(vec![inline("a"), errand("b"), inline("c")]);
        let old = world.index.clone();
        world.index = FlowIndex::new(flow(vec![inline("a"), inline("c")]));
        assert!(world.input(upgrade(&old, &[])).is_err(), "`b` has no place there");
        world.index = FlowIndex::new(flow(vec![inline("a"), inline("new"), errand("b"), inline("d")]));
        world.must(upgrade(&old, &["new"]));
        assert!(world.must(upgrade(&old, &["new"])).events.is_empty(), "a repeat");
        answer(&mut world, "b");
        world.finish();
        world.assert_ends(&["a:success", "new:skipped", "b:success", "d:success"]);
        assert!(world.input(upgrade(&old, &[])).is_err());
        // Branches that have begun stand where they were: another order would begin one twice and forget one.
        let mut forked = at_errand(vec![parallel("p", 0, vec![errand("x"), errand("y")])]);
        let was = forked.index.clone();
        forked.index = FlowIndex::new(flow(vec![parallel("p", 0, vec![errand("y"), errand("x")])]));
        assert!(forked.input(upgrade(&was, &[])).is_err());
        forked.index = FlowIndex::new(flow(vec![parallel("p", 0, vec![errand("x"), errand("y"), inline("z")])]));
        forked.must(upgrade(&was, &[]));
        let mut paused = at_errand(vec![errand("a"), inline("b")]);
        paused.must(wish(Wish::Pause));
        answer(&mut paused, "a");
        let was = paused.index.clone();
        assert!(paused.input(upgrade(&was, &[])).is_err(), "nothing is under way");
    }
}
