//! After a restore nothing happens to a run before a person says so.

use super::flows::*;
use super::world::*;
use crate::ir::EffectClass;
use crate::run::*;
use Answer::*;

/// A process starts on the restored store: all there is, is the journal of the backup.
fn restored(world: &mut World) {
    world.pending.clear();
    let at = world.now;
    world.store_writes(&[Event::Restored { at }]);
    assert_eq!((world.status(), world.state.is_active()), (Status::Held, false));
}

fn released(world: &mut World) {
    world.must(Input::Release { by: by() });
}

scenarios! {
    fn a_restored_run_does_nothing_until_it_is_released() {
        let mut world = World::of(vec![sleep("nap", 1_000), inline("last")]).start();
        world.answer_all();
        restored(&mut world);
        world.now = world.now.plus(1_000_000);
        let timer = *world.state.timers.keys().next().expect("a timer");
        for input in [
            Input::TimerFired { timer },
            Input::Recover,
            Input::Start,
            Input::Continue,
            Input::DoubtsBelow { run: child_id(1), count: 1 },
            Input::Delivered { payload: payload("p") },
        ] {
            let decided = world.must(input);
            assert!(decided.events.is_empty() && decided.actions.is_empty());
        }
        for input in [
            Input::Pause { by: by() },
            Input::Resume { by: by() },
            Input::Restart { by: by() },
            Input::Replay { by: by(), from: None },
        ] {
            assert!(world.input(input).is_err());
        }
        let decided = world.must(Input::Release { by: by() });
        assert!(decided.events.iter().any(|e| matches!(e, Event::TimerSet { timer: t, .. } if *t == timer)));
        assert!(world.input(Input::Release { by: by() }).is_err(), "once is enough");
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_released_run_goes_on_as_after_a_crash() {
        let mut world = World::of(vec![effect("a", EffectClass::Repeatable), inline("last")]).calls("a", &[Silence]).start();
        world.answer_all();
        restored(&mut world);
        released(&mut world);
        assert_eq!(world.intents("a").len(), 2);
        world.finish();
        assert_eq!(world.status(), Status::Completed);

        let mut world = World::of(vec![effect("a", EffectClass::Naked)]).calls("a", &[Silence]).start();
        world.answer_all();
        restored(&mut world);
        released(&mut world);
        assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 1), "what was in flight is in doubt");
    }

    fn a_run_that_waits_for_its_lane_is_held_too() {
        let mut world = World::of(vec![inline("a")]);
        restored(&mut world);
        world.must(Input::Start);
        assert_eq!(world.status(), Status::Held, "its slot does not start it");
        released(&mut world);
        assert_eq!(world.status(), Status::Queued);
        world.must(Input::Start);
        world.finish();
        assert_eq!(world.status(), Status::Completed);
    }

    fn a_restored_run_can_be_cancelled() {
        let mut world = World::of(vec![sleep("nap", 1_000)]).start();
        world.answer_all();
        restored(&mut world);
        world.must(Input::Cancel { by: by() });
        assert_eq!(world.status(), Status::Cancelled);

        let mut world = World::of(vec![effect("a", EffectClass::Naked)]).calls("a", &[Silence]).start();
        world.answer_all();
        restored(&mut world);
        world.must(Input::Cancel { by: by() });
        assert_eq!((world.status(), world.state.open_doubts()), (Status::Held, 1), "but not what it had sent");
    }
}
