//! Sequences, branches, parallel groups, loops, handlers, and the limits on them.

use super::flows::*;
use super::world::*;
use crate::run::*;
use Answer::*;

scenarios! {
    fn a_working_directory_shows_its_files_when_its_tasks_are_done() {
        let world = World::of(vec![directory("dir", vec![inline("a")]), inline("last")]).start().finished();
        world.assert_ends(&["dir/a:success", "dir:success", "last:success"]);
        assert_eq!(world.count(|e| matches!(e, Event::GroupAnswered { output: Some(_), .. })), 1);
        // Where its tasks fail there is nothing to show.
        let world = World::of(vec![directory("dir", vec![inline("a")])]).evals("a", &[Answer::Fail]).start().finished();
        world.assert_ends(&["dir/a:failed", "dir:failed"]);
        assert_eq!(world.count(|e| matches!(e, Event::GroupAsks { .. })), 0);
    }

    fn a_sequence_runs_in_order_and_completes() {
        let world = World::of(vec![inline("a"), seq("g", vec![inline("b"), op("c")]), read("d")]).start().finished();
        world.assert_ends(&["a:success", "g/b:success", "g/c:success", "g:success", "d:success"]);
        assert_eq!(world.status(), Status::Completed);
        assert_eq!(world.state.steps.len(), 1, "finished steps leave memory");
    }

    fn a_flow_without_enabled_tasks_completes() {
        let world = World::of(vec![inline("a").with(|t| t.disabled = true)]).start().finished();
        world.assert_ends(&[]);
        assert_eq!(world.status(), Status::Completed);
    }

    fn the_first_failure_stops_the_sequence() {
        let world = World::of(vec![inline("a"), inline("b")]).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["a:failed"]);
        assert_eq!(world.status(), Status::Failed);
        let Some(Event::Ended { failure: Some(failure), .. }) = world.journal.last() else { panic!("ended with a failure") };
        assert_eq!((failure.code.as_str(), failure.message()), ("inline", "no"));
    }

    fn an_expression_that_does_not_evaluate_is_tried_as_often_as_its_step() {
        let once = World::of(vec![naked("a")]).evals("a", &[BadExpression]).start().finished();
        once.assert_ends(&["a:failed"]);
        assert!(once.intents("a").is_empty());
        let later = World::of(vec![naked("a").retried(3, 10)]).evals("a", &[BadExpression]).start().finished();
        later.assert_ends(&["a:success"]);
        assert_eq!(later.intents("a").len(), 1);
        let never = [BadExpression, BadExpression, BadExpression];
        World::of(vec![naked("a").retried(3, 10)]).evals("a", &never).start().finished().assert_ends(&["a:failed"]);
    }

    fn a_group_that_does_not_evaluate_is_not_tried_again() {
        let group = seq("g", vec![inline("b")]).retried(3, 10);
        World::of(vec![group]).evals("g", &[BadExpression]).start().finished().assert_ends(&["g:failed"]);
    }

    fn run_if_skips_a_step_and_a_group_with_all_below() {
        let tasks = vec![inline("a"), seq("g", vec![inline("b")]), inline("c")];
        let world = World::of(tasks).evals("a", &[Skip]).evals("g", &[Skip]).start().finished();
        world.assert_ends(&["a:skipped", "g:skipped", "c:success"]);
        assert_eq!(world.status(), Status::Completed);
        assert!(!world.state.warned);
    }

    fn if_takes_one_branch() {
        for (condition, taken) in [(true, "i/yes:success"), (false, "i/no:success")] {
            let tasks = vec![branch("i", condition, vec![inline("yes")], vec![inline("no")])];
            World::of(tasks).start().finished().assert_ends(&[taken, "i:success"]);
        }
    }

    fn if_without_else_does_nothing_when_false() {
        World::of(vec![branch("i", false, vec![inline("yes")], vec![])]).start().finished().assert_ends(&["i:success"]);
    }

    fn switch_takes_its_case_else_the_defaults_else_nothing() {
        let cases = || vec![("x", vec![inline("in_x")]), ("y", vec![inline("in_y")])];
        let run = |value: &str, defaults| World::of(vec![switch("s", value, cases(), defaults)]).start().finished().ends();
        assert_eq!(run("x", None), ["s/in_x:success", "s:success"]);
        assert_eq!(run("y", None), ["s/in_y:success", "s:success"]);
        assert_eq!(run("z", Some(vec![inline("other")])), ["s/other:success", "s:success"]);
        assert_eq!(run("z", None), ["s:success"]);
    }

    fn parallel_runs_at_most_its_limit_at_once() {
        let tasks = || (0..5).map(|n| sleep(&format!("s{n}"), 1000)).collect::<Vec<_>>();
        for (concurrent, at_once) in [(1, 1), (2, 2), (0, 5), (9, 5)] {
            let mut world = World::of(vec![parallel("p", concurrent, tasks())]).start();
            world.answer_all();
            assert_eq!(world.state.timers.len(), at_once);
            assert_eq!(world.status(), Status::Waiting);
            world.finish();
            assert_eq!((world.ends().len(), world.status()), (6, Status::Completed));
        }
    }

    fn parallel_branches_have_a_limit() {
        for concurrent in [0, 3, 4] {
            let tasks = (0..5).map(|n| sleep(&format!("s{n}"), 9)).collect();
            let mut world = World::of(vec![parallel("p", concurrent, tasks)]);
            world.limits.parallel_branches_max = 3;
            let mut world = world.start();
            world.answer_all();
            assert_eq!(world.state.timers.len(), 3);
            world.finish();
            assert_eq!(world.status(), Status::Completed);
        }
    }

    fn a_failed_branch_lets_the_open_ones_finish_and_starts_no_other() {
        let tasks = vec![parallel("p", 2, vec![inline("bad"), sleep("slow", 1000), inline("never")])];
        let world = World::of(tasks).evals("bad", &[Fail]).start().finished();
        world.assert_ends(&["p/bad:failed", "p/slow:success", "p:failed"]);
        assert_eq!(world.status(), Status::Failed);
    }

    /// A failed group is kept for a restart; an op beside it must not end it once more.
    fn a_failed_group_beside_an_op_ends_once() {
        let tasks = vec![parallel("p", 0, vec![seq("g", vec![inline("bad")]), op("o"), sleep("slow", 1000)])];
        let mut world = World::of(tasks).evals("bad", &[Fail]).calls("o", &[Silence]).start();
        world.answer_all();
        world.carry_op(&key("p/o"), false);
        world.must(Input::Continue);
        assert_eq!(world.status(), Status::Waiting, "the slow branch is open");
        world.crash();
        world.finish();
        world.assert_ends(&["p/g/bad:failed", "p/g:failed", "p/o:success", "p/slow:success", "p:failed"]);
    }

    fn a_loop_runs_one_iteration_after_another() {
        let world = World::of(vec![each("e", 3, 1, vec![inline("a")])]).start().finished();
        let ends = ["e[0]/a:success", "e[0]:success", "e[1]/a:success", "e[1]:success", "e[2]/a:success", "e[2]:success", "e:success"];
        world.assert_ends(&ends);
    }

    fn a_loop_runs_iterations_side_by_side() {
        for (concurrent, at_once) in [(1, 1), (3, 3), (0, 7)] {
            let mut world = World::of(vec![each("e", 7, concurrent, vec![sleep("s", 1000)])]).start();
            world.answer_all();
            assert_eq!(world.state.timers.len(), at_once);
            world.finish();
            assert_eq!((world.ends().len(), world.status()), (15, Status::Completed));
        }
    }

    fn a_loop_over_nothing_succeeds() {
        World::of(vec![each("e", 0, 1, vec![inline("a")])]).start().finished().assert_ends(&["e:success"]);
    }

    fn a_failed_iteration_stops_new_ones_while_open_ones_finish() {
        let tasks = vec![each("e", 9, 2, vec![sleep("s", 1000), inline("a")])];
        let world = World::of(tasks).evals("e[0]/a", &[Fail]).start().finished();
        let ends = ["e[0]/s:success", "e[0]/a:failed", "e[0]:failed", "e[1]/s:success", "e[1]/a:success", "e[1]:success", "e:failed"];
        world.assert_ends(&ends);
    }

    fn loops_nest() {
        let world = World::of(vec![each("o", 2, 1, vec![each("i", 2, 0, vec![inline("a")])])]).start().finished();
        let leaves: Vec<_> = world.ends().into_iter().filter(|e| e.contains("/a:")).collect();
        assert_eq!(leaves, ["o[0]/i[0]/a:success", "o[0]/i[1]/a:success", "o[1]/i[0]/a:success", "o[1]/i[1]/a:success"]);
    }

    fn errors_then_finally_run_at_the_root_and_the_run_fails() {
        let flow = flow(vec![inline("a")]).with(|f| {
            f.errors = vec![inline("e1"), inline("e2")];
            f.finally = vec![inline("f")];
        });
        let world = World::new(flow.clone()).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["a:failed", "e1:success", "e2:success", "f:success"]);
        assert_eq!(world.status(), Status::Failed);
        let world = World::new(flow).start().finished();
        world.assert_ends(&["a:success", "f:success"]);
        assert_eq!(world.status(), Status::Completed);
    }

    fn errors_and_finally_of_a_group_run_before_its_end() {
        let group = seq("g", vec![inline("a")]).errors(vec![inline("e")]).finally(vec![inline("f")]);
        let world = World::of(vec![group, inline("b")]).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["g/a:failed", "g/e:success", "g/f:success", "g:failed"]);
    }

    fn handlers_of_branches_and_of_a_loop_belong_to_the_whole() {
        let each = each("e", 3, 1, vec![inline("a")]).errors(vec![inline("x")]).finally(vec![inline("y")]);
        let world = World::of(vec![each]).evals("a", &[Good, Fail]).start().finished();
        let ends = ["e[0]/a:success", "e[0]:success", "e[1]/a:failed", "e[1]:failed", "e/x:success", "e/y:success", "e:failed"];
        world.assert_ends(&ends);
        let branch = branch("i", true, vec![inline("a")], vec![]).errors(vec![inline("x")]);
        World::of(vec![branch]).evals("a", &[Fail]).start().finished().assert_ends(&["i/a:failed", "i/x:success", "i:failed"]);
        let switch = switch("s", "c", vec![("c", vec![inline("a")])], None).finally(vec![inline("y")]);
        World::of(vec![switch]).start().finished().assert_ends(&["s/a:success", "s/y:success", "s:success"]);
    }

    fn a_failing_handler_stops_itself_and_finally_still_runs() {
        let group = seq("g", vec![inline("a")]).errors(vec![inline("e1"), inline("e2")]).finally(vec![inline("f")]);
        let world = World::of(vec![group]).evals("a", &[Fail]).evals("e1", &[Fail]).start().finished();
        world.assert_ends(&["g/a:failed", "g/e1:failed", "g/f:success", "g:failed"]);
    }

    fn a_failing_finally_fails_a_good_group() {
        let group = seq("g", vec![inline("a")]).finally(vec![inline("f1"), inline("f2")]);
        let world = World::of(vec![group]).evals("f1", &[Fail]).start().finished();
        world.assert_ends(&["g/a:success", "g/f1:failed", "g:failed"]);
        assert_eq!(world.status(), Status::Failed);
    }

    fn allow_failure_turns_a_failure_into_a_warning() {
        let world = World::of(vec![inline("a").may_fail(), inline("b")]).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["a:failed?", "b:success"]);
        assert_eq!(world.status(), Status::Completed);
        assert!(world.state.warned);
        let group = seq("g", vec![seq("h", vec![inline("a")]).may_fail(), inline("b")]);
        let world = World::of(vec![group]).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["g/h/a:failed", "g/h:failed?", "g/b:success", "g:warning"]);
        assert_eq!(world.state.steps.len(), 1, "a tolerated failure is not kept");
    }

    fn allow_warning_hides_a_warning() {
        let group = seq("g", vec![inline("a").may_fail()]).with(|t| t.allow_warning = true);
        let world = World::of(vec![group]).evals("a", &[Fail]).start().finished();
        world.assert_ends(&["g/a:failed?", "g:success"]);
        assert!(!world.state.warned);
    }

    fn labels_are_set_by_an_inline_task() {
        let labels = Evaluated::Inline { result: Ok(None), labels: Some(payload("labels")) };
        let world = World::of(vec![inline("a")]).evals("a", &[Evaluates(labels)]).start().finished();
        assert_eq!(world.count(|e| matches!(e, Event::LabelsSet { .. })), 1);
    }

    fn failing_outputs_fail_the_run() {
        let world = World::of(vec![inline("a")]).evals("outputs", &[Fail]).start().finished();
        assert_eq!(world.status(), Status::Failed);
        assert_eq!(World::of(vec![inline("a")]).start().finished().status(), Status::Completed);
    }

    fn a_run_has_at_most_its_limit_of_steps() {
        for (max, status) in [(3, Status::Completed), (2, Status::Failed)] {
            let mut world = World::of(vec![inline("a"), inline("b"), inline("c")]);
            world.limits.steps_per_run_max = max;
            assert_eq!(world.start().finished().status(), status, "{max}");
        }
        let flow = flow(vec![each("e", 100, 0, vec![inline("a")])]).with(|f| f.errors = vec![inline("x")]);
        let mut world = World::new(flow);
        world.limits.steps_per_run_max = 10;
        let world = world.start().finished();
        assert_eq!(world.status(), Status::Failed);
        assert!(world.journal.len() < 60, "a run at its limit ends soon");
    }

    fn a_loop_has_at_most_its_limit_of_items() {
        for (items, status) in [(5, Status::Completed), (6, Status::Failed)] {
            let mut world = World::of(vec![each("e", items, 1, vec![inline("a")])]);
            world.limits.foreach_items_max = 5;
            assert_eq!(world.start().finished().status(), status, "{items}");
        }
    }

    fn a_quiet_period_ends_in_the_lane_and_a_start_clears_its_timer() {
        let mut world = World::of(vec![inline("a")]);
        let quiet = |timer, due| Event::TimerSet { timer, due: crate::time::Millis(due), step: StepKey::root(), why: TimerWhy::Quiet };
        world.store_writes(&[quiet(1, 2_000_000)]);
        world.store_writes(&[Event::InputsReplaced { inputs: payload("later"), trigger: payload("later") }]);
        world.must(Input::Delivered { payload: payload("one more") });
        world.crash();
        assert_eq!(world.status(), Status::Queued);
        world.finish();
        assert!(world.asked.contains(&Action::EnterLane));
        assert_eq!(world.status(), Status::Completed);

        let mut world = World::of(vec![sleep("a", 9)]);
        world.store_writes(&[quiet(1, 2_000_000)]);
        let mut world = world.start();
        assert_eq!(world.count(|e| matches!(e, Event::TimerCleared { timer: 1 })), 1);
        world.must(Input::Delivered { payload: payload("more") });
        world.must(Input::Start);
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }
}

/// Not a scenario: it is slow to refold at each decision.
#[test]
fn ten_thousand_iterations_leave_nothing_behind() {
    for concurrent in [1, 8] {
        let mut world = World::of(vec![each("e", 10_000, concurrent, vec![inline("a"), read("b")])]);
        world.big = true;
        let mut world = world.start();
        let mut most = 0;
        while let Some(action) = world.pending.pop_front() {
            world.answer_with(&action, Good);
            most = most.max(world.state.steps.len());
        }
        assert_eq!(world.status(), Status::Completed);
        assert!(most <= 2 + 2 * concurrent as usize, "{most} steps at once");
        assert_eq!(world.state.steps.len(), 1);
        assert!(world.state.timers.is_empty() && world.state.doubts.is_empty());
        assert_eq!(RunState::fold(&world.journal).as_ref(), Some(&world.state));
    }
}
