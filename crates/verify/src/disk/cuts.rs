//! Many power cuts: scripts are recorded, cut off at random points in random weather, and what is found is counted.

use super::image::{self, Weather};
use super::script::{Found, Recording, Script};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const IMAGES_PER_SCRIPT: u64 = 125;
const WRITES: usize = 45;
const THREADS: usize = 2;
/// Bad images that are told in full.
const EXAMPLES_MAX: usize = 5;

#[derive(Debug, Default)]
pub struct Tally {
    pub scripts: u64,
    pub good: u64,
    pub lost: u64,
    pub no_prefix: u64,
    pub damaged: u64,
    /// A few of the bad ones, with what makes them again.
    pub examples: Vec<String>,
}

impl Tally {
    pub fn images(&self) -> u64 {
        self.good + self.bad()
    }

    pub fn bad(&self) -> u64 {
        self.lost + self.no_prefix + self.damaged
    }

    pub fn add(&mut self, found: &Found, what: impl FnOnce() -> String) {
        match found {
            Found::Prefix(_) => self.good += 1,
            Found::Lost { .. } => self.lost += 1,
            Found::NoPrefix { .. } => self.no_prefix += 1,
            Found::Damaged(_) => self.damaged += 1,
        }
        if !matches!(found, Found::Prefix(_)) && self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{}: {found:?}", what()));
        }
    }
}

impl fmt::Display for Tally {
    /// What programs read: the rest of a line that begins with `SUMMARY` and a name.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Tally { scripts, lost, no_prefix, damaged, .. } = self;
        let (images, bad) = (self.images(), self.bad());
        write!(
            f,
            "scripts={scripts} images={images} lost={lost} no_prefix={no_prefix} damaged={damaged} violations={bad}"
        )
    }
}

/// Opens that many images of scripts numbered from `first` on. `undone` is for controls, see
/// [`semel_store_sqlite::Options::undone`].
pub fn run(images: u64, first: u64, undone: &[(&'static str, &'static str)]) -> Tally {
    let tally = Mutex::new(Tally::default());
    for (index, number) in (first..first + images.div_ceil(IMAGES_PER_SCRIPT)).enumerate() {
        // Some scripts are one long life, some are closed and opened again in between.
        let lives = 1 + (number % 3) as usize;
        let script = Script { seed: number, writes: WRITES, lives, alone: number % 4 == 0, undone: undone.to_vec() };
        let recording = script.record();
        assert!(recording.writes() >= WRITES);
        let share = (images - index as u64 * IMAGES_PER_SCRIPT).min(IMAGES_PER_SCRIPT);
        cut(&recording, number, share, &tally);
        tally.lock().unwrap_or_else(PoisonError::into_inner).scripts += 1;
    }
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Each image is made from a seed of its own.
fn cut(recording: &Recording, script: u64, count: u64, tally: &Mutex<Tally>) {
    let next = AtomicU64::new(0);
    let one = |number: u64| {
        let mut chance = StdRng::seed_from_u64((script << 32) | number);
        let until = chance.random_range(0..=recording.ops.len());
        let weather = Weather::any(&mut chance);
        let files = image::after(&recording.ops, until, weather, &mut chance);
        let found = recording.open(&files, until);
        let what = || format!("script {script}, image {number}, until {until}, {weather:?}");
        tally.lock().unwrap_or_else(PoisonError::into_inner).add(&found, what);
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    match next.fetch_add(1, Ordering::SeqCst) {
                        number if number < count => one(number),
                        _ => return,
                    }
                }
            });
        }
    });
}
