//! The check of histories is exact: it agrees with trying every order, and finds what is planted.

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use semel_verify::linear::check::{Again, Fault, Window, faults, window_faults};
use semel_verify::linear::{Attempt, Heard};
use std::collections::BTreeSet;

/// What has happened so far, while every order is tried.
#[derive(Clone, Default)]
struct Tried<'h> {
    taken: u32,
    inside: Option<&'h str>,
    made: BTreeSet<&'h str>,
}

/// Tries every order, and for attempts that heard nothing every effect.
fn explained(history: &[Attempt], again: Again) -> bool {
    let names: BTreeSet<&str> = history.iter().filter_map(|one| Some(one.heard.as_ref()?.run.as_str())).collect();
    go_on(history, again, &names, &Tried::default())
}

fn go_on<'h>(history: &'h [Attempt], again: Again, names: &BTreeSet<&'h str>, tried: &Tried<'h>) -> bool {
    let open = |number: usize| tried.taken & (1 << number) == 0;
    let left: Vec<usize> = (0..history.len()).filter(|number| open(*number)).collect();
    // Attempts that heard nothing need not have any effect.
    if left.iter().all(|number| history[*number].heard.is_none()) {
        return true;
    }
    let may_be_next = |number: usize| {
        left.iter().all(|other| {
            let heard = history[*other].heard.as_ref();
            heard.is_none_or(|heard| heard.returned >= history[number].invoked)
        })
    };
    left.iter().filter(|number| may_be_next(**number)).any(|number| {
        let mut next = tried.clone();
        next.taken |= 1 << number;
        let may_create = tried.inside.is_none() || again == Again::AfterWindow;
        match &history[*number].heard {
            Some(heard) if heard.created => {
                next.inside = Some(&heard.run);
                may_create && next.made.insert(&heard.run) && go_on(history, again, names, &next)
            }
            Some(heard) => tried.inside == Some(&heard.run) && go_on(history, again, names, &next),
            // It created one of the runs that others heard; any other run would only be in the way.
            None => {
                may_create
                    && names.iter().any(|name| {
                        let mut next = next.clone();
                        next.inside = Some(name);
                        next.made.insert(name) && go_on(history, again, names, &next)
                    })
            }
        }
    })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let heard = (0..6_u64, prop::sample::select(vec!["a", "b", "c"]), prop::bool::weighted(0.35));
    (0..10_u64, prop::option::weighted(0.75, heard)).prop_map(|(invoked, heard)| Attempt {
        invoked,
        heard: heard.map(|(span, run, created)| Heard { returned: invoked + span, run: run.to_owned(), created }),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn the_check_agrees_with_trying_every_order(history in prop::collection::vec(attempt(), 0..7)) {
        for again in [Again::Never, Again::AfterWindow] {
            let found = faults(&history, again);
            prop_assert_eq!(found.is_empty(), explained(&history, again), "{:?}: {:?}", again, found);
        }
    }
}

/// What an object that works would have answered: each attempt takes effect at an instant of its own.
fn truthful(chance: &mut StdRng, count: usize, window: Option<u64>) -> Vec<Attempt> {
    let mut points: Vec<(u64, u64, Option<u64>)> = Vec::new();
    for _ in 0..count {
        let invoked = chance.random_range(0..10_000_u64);
        let point = invoked + chance.random_range(0..200_u64);
        let returned = chance.random_bool(0.9).then(|| point + chance.random_range(0..200_u64));
        points.push((point, invoked, returned));
    }
    points.sort();
    let mut inside: Option<(u64, u64)> = None;
    let mut history = Vec::new();
    for (point, invoked, returned) in points {
        if returned.is_none() && chance.random_bool(0.5) {
            history.push(Attempt { invoked, heard: None });
            continue;
        }
        let over = inside.is_none_or(|(_, since)| window.is_some_and(|window| point >= since + window));
        if over {
            inside = Some((inside.map_or(0, |(run, _)| run + 1), point));
        }
        let run = format!("run-{}", inside.map_or(0, |(run, _)| run));
        history.push(Attempt { invoked, heard: returned.map(|returned| Heard { returned, run, created: over }) });
    }
    history
}

fn window(span: u64, slack: u64) -> Window {
    Window { span, slack, live_max: 0 }
}

fn heard(history: &mut [Attempt]) -> Vec<&mut Heard> {
    history.iter_mut().filter_map(|one| one.heard.as_mut()).collect()
}

#[test]
fn what_an_object_that_works_answers_is_explained() {
    let mut chance = StdRng::seed_from_u64(5);
    for _ in 0..2_000 {
        assert_eq!(faults(&truthful(&mut chance, 60, None), Again::Never), []);
        let windowed = truthful(&mut chance, 60, Some(2_500));
        assert_eq!(faults(&windowed, Again::AfterWindow), []);
        assert_eq!(window_faults(&windowed, &window(2_500, 0)), []);
    }
}

#[test]
fn planted_answers_are_found() {
    let mut chance = StdRng::seed_from_u64(6);
    for _ in 0..500 {
        let history = truthful(&mut chance, 60, None);
        // Of what was never answered the rest can make anything; here the first is known to have been created.
        if !history.iter().any(|one| one.heard.as_ref().is_some_and(|heard| heard.created)) {
            continue;
        }
        let mut two_runs = history.clone();
        heard(&mut two_runs).pop().expect("one").run = "other".to_owned();
        assert!(matches!(faults(&two_runs, Again::Never)[0], Fault::TwoRuns(_)));
        let mut created_twice = history.clone();
        heard(&mut created_twice).into_iter().rfind(|one| !one.created).expect("a twin").created = true;
        assert_eq!(faults(&created_twice, Again::Never), [Fault::CreatedTwice("run-0".to_owned())]);
        let mut early = history.clone();
        early.push(Attempt { invoked: 0, heard: Some(Heard { returned: 0, run: "run-0".to_owned(), created: false }) });
        let asked = history.iter().find(|one| one.heard.as_ref().is_some_and(|heard| heard.created)).expect("one");
        assert_eq!(faults(&early, Again::Never).is_empty(), asked.invoked == 0);
        let mut nobody = history.clone();
        nobody.retain(|one| one.heard.as_ref().is_some_and(|heard| !heard.created));
        assert_eq!(faults(&nobody, Again::Never), [Fault::FromNowhere("run-0".to_owned())]);
    }
}

/// Found by trying every order: whoever created a run unheard is part of its group.
#[test]
fn a_run_whose_creator_asked_too_late_for_what_followed_is_found() {
    let one = |invoked, returned, run: &str, created| Attempt {
        invoked,
        heard: Some(Heard { returned, run: run.to_owned(), created }),
    };
    let unheard = Attempt { invoked: 6, heard: None };
    let history = [one(0, 1, "b", true), one(1, 6, "a", false), unheard, one(7, 7, "b", false)];
    assert!(!explained(&history, Again::AfterWindow));
    assert_eq!(faults(&history, Again::AfterWindow), [Fault::Interleaved("a".into(), "b".into())]);
}

#[test]
fn answers_from_the_wrong_side_of_a_window_are_found() {
    let one = |invoked, returned, run: &str, created| Attempt {
        invoked,
        heard: Some(Heard { returned, run: run.to_owned(), created }),
    };
    let good = vec![one(0, 10, "a", true), one(50, 60, "a", false), one(110, 120, "b", true)];
    assert_eq!(window_faults(&good, &window(100, 0)), []);
    let soon = vec![one(0, 10, "a", true), one(50, 60, "b", true)];
    assert_eq!(window_faults(&soon, &window(100, 0)), [Fault::TooSoon("a".into(), "b".into())]);
    assert_eq!(window_faults(&soon, &window(100, 40)), []);
    let mut stale = good.clone();
    stale.push(one(111, 112, "a", false));
    assert_eq!(window_faults(&stale, &window(100, 0)), [Fault::Stale("a".into())]);
    // After the second run nobody hears of the first.
    stale = good;
    stale.push(one(130, 140, "a", false));
    assert_eq!(faults(&stale, Again::AfterWindow), [Fault::Interleaved("a".into(), "b".into())]);
}
