//! The machine against a fake engine: named scenarios for every rule, then random flows and faults.

mod audit;
mod coverage;
mod flows;
mod world;

/// Defines scenarios as tests, and lists them so that `coverage` can run them all in one place.
macro_rules! scenarios {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$meta])* fn $name() $body)*

        pub const SCENARIOS: &[(&str, fn())] = &[$((stringify!($name), $name)),*];

        mod each {
            $(#[test] fn $name() { super::$name(); })*
        }
    };
}

mod again;
mod asked;
mod batches;
mod breakpoints;
mod crashes;
mod effects;
mod errands;
mod exits;
mod fatal;
mod groups;
mod kinds;
mod pauses;
mod people;
mod random;
mod restored;
mod reviews;
mod rules;
mod subruns;
mod verdicts;
mod wishes;

fn all_scenarios() -> impl Iterator<Item = &'static (&'static str, fn())> {
    let rooms = [
        groups::SCENARIOS,
        kinds::SCENARIOS,
        exits::SCENARIOS,
        fatal::SCENARIOS,
        effects::SCENARIOS,
        errands::SCENARIOS,
        crashes::SCENARIOS,
        verdicts::SCENARIOS,
        people::SCENARIOS,
        pauses::SCENARIOS,
        reviews::SCENARIOS,
        subruns::SCENARIOS,
        restored::SCENARIOS,
        asked::SCENARIOS,
        breakpoints::SCENARIOS,
        rules::SCENARIOS,
        batches::SCENARIOS,
        again::SCENARIOS,
        wishes::SCENARIOS,
    ];
    rooms.into_iter().flatten()
}
