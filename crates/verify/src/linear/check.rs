//! Whether the answers about one key can be explained by one object that takes one attempt after the other.
//!
//! The object of a key is a box for the name of a run. The first attempt puts a new run into it and hears that run as
//! *created*; every other hears what is in it. Where the key has a window, any attempt may find the window over, and
//! puts in a new run again. Each attempt takes effect at one instant between its asking and its answer; one that heard
//! nothing takes effect at any instant after its asking, or never.
//!
//! All attempts that heard one run are a *group*: its first is the one that created the run, and no attempt of another
//! group comes in between. So an order exists if, and only if,
//!
//! | condition | else |
//! |---|---|
//! | without a window there is one group | [`Fault::TwoRuns`] |
//! | at most one attempt of a group created its run | [`Fault::CreatedTwice`] |
//! | nobody heard a run before its creator asked | [`Fault::BeforeItsTime`] |
//! | groups without a known creator each have one that heard nothing, and asked early enough | [`Fault::FromNowhere`] |
//! | of two groups, one can lie before the other as a whole | [`Fault::Interleaved`] |
//!
//! The last one is enough for any number of groups. With `first` the earliest answer of a group and `last` its latest
//! asking, A must come before B if `A.first < B.last`; a circle of such demands always has a circle of two in it, for
//! the group of the circle with the earliest `first` must come before all of them. An unheard creator belongs to its
//! group and so to its `last`: the group with the earliest `first` gets the one that asked first, and so on. Two of them
//! need never be exchanged, for whatever the later one would be in the way of, it would be in the way of in the other
//! group too.

use super::{Attempt, Heard};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    TwoRuns(Vec<String>),
    CreatedTwice(String),
    BeforeItsTime(String),
    FromNowhere(String),
    Interleaved(String, String),
    /// A second run while the window of the first was open.
    TooSoon(String, String),
    /// The run of a window that was over.
    Stale(String),
}

/// Whether a key may lead to another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Never,
    /// When its window is over, of which this check knows nothing; [`window_faults`] does.
    AfterWindow,
}

struct Group<'h> {
    run: &'h str,
    /// When the known creator asked.
    created: Option<u64>,
    creators: usize,
    first_returned: u64,
    last_invoked: u64,
}

fn groups(history: &[Attempt]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for attempt in history {
        let Some(Heard { returned, run, created }) = &attempt.heard else { continue };
        let fresh = Group { run, created: None, creators: 0, first_returned: u64::MAX, last_invoked: 0 };
        let group = groups.entry(run).or_insert(fresh);
        group.first_returned = group.first_returned.min(*returned);
        group.last_invoked = group.last_invoked.max(attempt.invoked);
        if *created {
            group.creators += 1;
            group.created = Some(attempt.invoked);
        }
    }
    groups.into_values().collect()
}

/// Everything that keeps the history of one key from being explained; empty if and only if it can be.
pub fn faults(history: &[Attempt], again: Again) -> Vec<Fault> {
    let mut groups = groups(history);
    let mut found = Vec::new();
    if again == Again::Never && groups.len() > 1 {
        found.push(Fault::TwoRuns(groups.iter().map(|group| group.run.to_owned()).collect()));
    }
    for group in &groups {
        let name = || group.run.to_owned();
        if group.creators > 1 {
            found.push(Fault::CreatedTwice(name()));
        } else if group.created.is_some_and(|asked| group.first_returned < asked) {
            found.push(Fault::BeforeItsTime(name()));
        }
    }
    found.extend(from_nowhere(history, &mut groups));
    found.extend(interleaved(&groups));
    found
}

/// Gives each group without a known creator one that heard nothing.
fn from_nowhere(history: &[Attempt], groups: &mut [Group]) -> Vec<Fault> {
    let mut unheard: Vec<u64> = history.iter().filter(|one| one.heard.is_none()).map(|one| one.invoked).collect();
    unheard.sort_unstable();
    let mut orphans: Vec<&mut Group> = groups.iter_mut().filter(|group| group.creators == 0).collect();
    orphans.sort_by_key(|group| group.first_returned);
    let mut found = Vec::new();
    for (number, group) in orphans.into_iter().enumerate() {
        match unheard.get(number) {
            Some(asked) if *asked <= group.first_returned => group.last_invoked = group.last_invoked.max(*asked),
            _ => found.push(Fault::FromNowhere(group.run.to_owned())),
        }
    }
    found
}

fn interleaved(groups: &[Group]) -> Vec<Fault> {
    let must_precede = |one: &Group, other: &Group| one.first_returned < other.last_invoked;
    let mut found = Vec::new();
    for (number, one) in groups.iter().enumerate() {
        for other in &groups[number + 1..] {
            if must_precede(one, other) && must_precede(other, one) {
                found.push(Fault::Interleaved(one.run.to_owned(), other.run.to_owned()));
            }
        }
    }
    found
}

/// What is known of a key's window.
pub struct Window {
    /// From the creation of a run on.
    pub span: u64,
    /// How far the clocks of clients and store may be apart.
    pub slack: u64,
    /// A run that is not over keeps its key; this long at most.
    pub live_max: u64,
}

/// What a window adds: no second run within it, and nobody who asks after it hears of the first. Sound, not exact: of
/// runs whose creator heard nothing it says nothing.
pub fn window_faults(history: &[Attempt], window: &Window) -> Vec<Fault> {
    let heard = |one: &'_ Attempt| one.heard.clone().map(|heard| (one.invoked, heard));
    let all: Vec<(u64, Heard)> = history.iter().filter_map(heard).collect();
    let mut found = Vec::new();
    for (asked, first) in all.iter().filter(|(_, heard)| heard.created) {
        let open_until = asked + window.span;
        for (later_asked, later) in &all {
            let follows = *later_asked > first.returned && later.created && later.run != first.run;
            if follows && later.returned + window.slack < open_until {
                found.push(Fault::TooSoon(first.run.clone(), later.run.clone()));
            }
        }
        let over = first.returned + window.span + window.slack + window.live_max;
        if all.iter().any(|(later_asked, later)| later.run == first.run && *later_asked > over) {
            found.push(Fault::Stale(first.run.clone()));
        }
    }
    found
}
