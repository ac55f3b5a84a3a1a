//! Tasks that a run stops before.

use super::flows::*;
use super::world::*;
use crate::run::*;
use Answer::*;

fn go_on(tasks: &[&str]) -> Input {
    go_on_to(tasks, &[])
}

fn go_on_to(tasks: &[&str], places: &[&str]) -> Input {
    let places = places.iter().map(|key| StepKey((*key).to_owned())).collect();
    Input::ResumeFromBreakpoint { by: by(), tasks: tasks.iter().map(|task| (*task).to_owned()).collect(), places }
}

/// As an admission leaves it: the tasks are named before anything starts.
fn stopping(world: World, tasks: &[&str]) -> World {
    let mut world = world;
    let tasks = tasks.iter().map(|task| (*task).to_owned()).collect();
    world.store_writes(&[Event::BreakpointsSet { tasks, places: vec![] }]);
    let mut world = world.start();
    world.finish();
    world
}

fn stops(world: &World) -> Vec<String> {
    let stop = |event: &Event| match event {
        Event::StoppedAt { step } => Some(step.0.clone()),
        _ => None,
    };
    world.journal.iter().filter_map(stop).collect()
}

scenarios! {
    fn a_run_stops_before_a_task_and_goes_on_when_it_is_told() {
        let mut world = stopping(World::of(vec![inline("a"), inline("b"), inline("c")]), &["b", "c"]);
        assert_eq!((world.status(), world.state.conclusion), (Status::Paused, Some(Conclusion::Breakpoint)));
        assert!(!world.state.is_active());
        world.assert_ends(&["a:success"]);
        world.must(go_on(&["b", "c"]));
        world.finish();
        assert_eq!(stops(&world), ["b", "c"], "the task it stood before is let through");
        world.must(go_on(&[]));
        world.finish();
        world.assert_ends(&["a:success", "b:success", "c:success"]);
        assert_eq!((world.status(), world.state.conclusion), (Status::Completed, None));
        assert!(world.input(go_on(&[])).is_err(), "it has ended");
    }

    fn a_bare_resume_goes_on_to_the_next_one() {
        let mut world = stopping(World::of(vec![inline("a"), inline("b")]), &["a", "b"]);
        assert!(world.input(Input::Pause { by: by() }).is_err(), "nothing starts as it is");
        world.must(Input::Resume { by: by() });
        world.finish();
        assert_eq!((stops(&world).len(), world.status()), (2, Status::Paused));
    }

    fn a_run_that_a_person_paused_stands_at_no_breakpoint() {
        let mut world = World::of(vec![sleep("s", 10), inline("a")]).start();
        world.answer_all();
        world.must(Input::Pause { by: by() });
        assert!(world.input(go_on(&[])).is_err());
        assert_eq!(world.state.conclusion, None);
    }

    fn each_round_of_a_loop_stops_at_its_task() {
        let mut world = stopping(World::of(vec![each("each", 2, 1, vec![inline("say")])]), &["say"]);
        world.must(go_on(&["say"]));
        world.finish();
        assert_eq!(stops(&world), ["each[0]/say", "each[1]/say"]);
        world.must(go_on(&[]));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn one_round_of_a_loop_that_has_begun_stops_at_its_task() {
        let tasks = vec![inline("a"), each("each", 3, 1, vec![inline("say"), inline("after")])];
        let mut world = stopping(World::of(tasks), &["say"]);
        assert_eq!(stops(&world), ["each[0]/say"]);
        world.must(go_on_to(&["after.two"], &["each[2]/after"]));
        world.finish();
        assert_eq!(stops(&world), ["each[0]/say", "each[2]/after"]);
        world.crash();
        world.must(go_on(&[]));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn what_was_sent_before_the_stop_settles() {
        let tasks = vec![naked("sent"), seq("g", vec![sleep("s", 10), inline("b")])];
        let mut world = stopping(World::of(vec![parallel("all", 0, tasks)]).calls("sent", &[Silence, Silence, Silence, Silence]), &["b"]);
        assert_eq!(world.status(), Status::Running, "an answer is awaited");
        let action = world.pending.pop_front().expect("a send");
        world.answer_with(&action, Good);
        assert_eq!((world.status(), stops(&world)), (Status::Paused, vec!["all/g/b".to_owned()]));
        world.must(go_on(&[]));
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_crash_and_a_cancel_find_a_run_that_has_stopped() {
        let mut world = stopping(World::of(vec![inline("a"), inline("b")]), &["b"]);
        world.crash();
        assert_eq!((world.status(), world.state.stopped_at.is_some()), (Status::Paused, true));
        world.must(Input::Cancel { by: by() });
        assert_eq!((world.status(), world.state.conclusion, world.state.stopped_at.is_some()), (Status::Cancelled, None, false));
        world.must(Input::Restart { by: by() });
        world.finish();
        assert_eq!((world.status(), stops(&world).len()), (Status::Paused, 2), "a restart stops there again");
    }
}
