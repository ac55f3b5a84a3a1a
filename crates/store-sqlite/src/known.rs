//! Claims that twins asked for lately, each with the head of its run, so that the next twin costs no snapshot.
//!
//! What is known is what is committed. The writer says which claims a commit changes before it commits and again
//! afterwards ([`Known::changing`]); in between nothing is known of them, and what a reader saw before is not taken
//! up after. One process has the file, so nobody else can change a claim.

use parking_lot::Mutex;
use semel_core::admission::Claim;
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::{AdmitRequest, AdmitResult, DecisionRow, Look, Result, RunRow, script};
use std::collections::HashMap;
use std::sync::Arc;

/// Claims in each of the two generations. The older is dropped when the younger is full.
const GENERATION: usize = 8_192;
const SHELVES: usize = 256;

#[derive(Debug)]
struct Pair {
    claim: Claim,
    run: RunRow,
}

struct Shelves {
    /// By the first byte of the hash: how often a commit began or ended to change a claim there. Odd: one is at it.
    changes: [u64; SHELVES],
    young: HashMap<Hash16, Arc<Pair>>,
    old: HashMap<Hash16, Arc<Pair>>,
}

pub struct Known(Mutex<Shelves>);

impl Default for Known {
    fn default() -> Known {
        Known(Mutex::new(Shelves { changes: [0; SHELVES], young: HashMap::new(), old: HashMap::new() }))
    }
}

/// When a reader began, as far as one claim is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(u64);

/// A commit that changes claims; they can be known again once this is dropped.
pub struct Changing<'a> {
    known: &'a Known,
    touched: [bool; SHELVES],
}

fn shelf(hash: Hash16) -> usize {
    usize::from(hash.0[0])
}

impl Shelves {
    fn forget(&mut self, hash: Hash16) {
        self.young.remove(&hash);
        self.old.remove(&hash);
    }

    fn get(&mut self, hash: Hash16) -> Option<Arc<Pair>> {
        if let Some(pair) = self.young.get(&hash) {
            return Some(pair.clone());
        }
        let pair = self.old.remove(&hash)?;
        self.insert(hash, pair.clone());
        Some(pair)
    }

    fn insert(&mut self, hash: Hash16, pair: Arc<Pair>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, pair);
    }
}

impl Known {
    /// To be taken before the snapshot from which something is [`Known::put`].
    pub fn since(&self, hash: Hash16) -> Since {
        Since(self.0.lock().changes[shelf(hash)])
    }

    /// Takes up what a snapshot showed, unless a commit has been at the claim since. A claim that joined another
    /// event's run is not taken up: that run's head changes without its being named.
    pub fn put(&self, since: Since, claim: Claim, run: RunRow) {
        let hash = claim.hash;
        if run.claim != Some(hash) || since.0 % 2 == 1 {
            return;
        }
        let mut shelves = self.0.lock();
        if shelves.changes[shelf(hash)] == since.0 {
            shelves.old.remove(&hash);
            shelves.insert(hash, Arc::new(Pair { claim, run }));
        }
    }

    /// A commit is about to change these claims, or the heads of their runs.
    pub fn changing(&self, hashes: &[Hash16]) -> Changing<'_> {
        let mut touched = [false; SHELVES];
        let mut shelves = self.0.lock();
        for hash in hashes {
            shelves.forget(*hash);
            if !std::mem::replace(&mut touched[shelf(*hash)], true) {
                shelves.changes[shelf(*hash)] += 1;
            }
        }
        Changing { known: self, touched }
    }

    /// Takes the decision as [`script::peek`] does, if all it looks at is known; the outer `None` means it is not.
    #[allow(clippy::type_complexity)]
    pub fn peek(&self, request: &AdmitRequest, now: Millis) -> Result<Option<Option<(AdmitResult, DecisionRow)>>> {
        let mut look = LookAtKnown { known: self, now, pair: None, missed: false };
        let found = script::peek(&mut look, request)?;
        Ok(if look.missed { None } else { Some(found) })
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut shelves = self.known.0.lock();
        for (at, _) in self.touched.iter().enumerate().filter(|(_, touched)| **touched) {
            shelves.changes[at] += 1;
        }
    }
}

struct LookAtKnown<'a> {
    known: &'a Known,
    now: Millis,
    pair: Option<Arc<Pair>>,
    /// Something was asked for that is not known, so the answer is worth nothing.
    missed: bool,
}

impl Look for LookAtKnown<'_> {
    fn now(&self) -> Millis {
        self.now
    }

    fn claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        self.pair = self.known.0.lock().get(hash).filter(|pair| pair.run.workspace == *workspace);
        self.missed |= self.pair.is_none();
        Ok(self.pair.as_ref().map(|pair| pair.claim.clone()))
    }

    fn run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        let known = self.pair.as_ref().map(|pair| &pair.run).filter(|run| run.id == id && run.workspace == *workspace);
        self.missed |= known.is_none();
        Ok(known.cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_store::conformance::Bench;
    use semel_store::memory::MemoryStore;

    /// A claim as a store keeps it, and a twin of its event.
    fn stored() -> (Bench, AdmitRequest, Claim, RunRow) {
        let bench = Bench::new(&|clock| MemoryStore::new(clock));
        let run = bench.start(bench.keyed("k"));
        let twin = bench.keyed("k");
        let claim = twin.key.as_ref().and_then(|key| bench.store.claim(&bench.ws(), key.hash).unwrap()).unwrap();
        let run = bench.head(run);
        (bench, twin, claim, run)
    }

    fn knows(known: &Known, twin: &AdmitRequest) -> bool {
        known.peek(twin, Millis(0)).unwrap().is_some()
    }

    #[test]
    fn a_twin_is_decided_as_on_a_snapshot() {
        let (bench, twin, claim, run) = stored();
        let known = Known::default();
        assert!(!knows(&known, &twin));
        known.put(known.since(claim.hash), claim, run);
        let (now, expected) = (bench.store.now(), bench.store.peek(&twin).unwrap());
        assert!(expected.is_some());
        let found = known.peek(&twin, now).unwrap().expect("it is known");
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        let foreign = AdmitRequest { workspace: WorkspaceId("theirs".into()), ..twin };
        assert!(!knows(&known, &foreign));
    }

    #[test]
    fn what_a_commit_changes_is_not_known_until_it_is_read_again() {
        let (_bench, twin, claim, run) = stored();
        let (known, hash) = (Known::default(), claim.hash);
        let put = |since| known.put(since, claim.clone(), run.clone());
        put(known.since(hash));
        let before = known.since(hash);
        let changing = known.changing(&[hash, hash]);
        assert!(!knows(&known, &twin));
        let during = known.since(hash);
        for since in [before, during] {
            put(since);
            assert!(!knows(&known, &twin), "read before the end of the commit");
        }
        drop(changing);
        for since in [before, during] {
            put(since);
            assert!(!knows(&known, &twin), "read before the end of the commit, taken up after it");
        }
        put(known.since(hash));
        assert!(knows(&known, &twin));
    }

    #[test]
    fn a_claim_on_the_run_of_another_event_is_not_kept() {
        let (_bench, twin, claim, run) = stored();
        let known = Known::default();
        known.put(known.since(claim.hash), claim, RunRow { claim: Some(Hash16([7; 16])), ..run });
        assert!(!knows(&known, &twin));
    }

    #[test]
    fn two_generations_are_kept_and_no_more() {
        let (_bench, _, claim, run) = stored();
        let known = Known::default();
        let hash = |at: usize| Hash16::of(&[&at.to_be_bytes()]);
        let put = |at: usize| {
            let (claim, run) =
                (Claim { hash: hash(at), ..claim.clone() }, RunRow { claim: Some(hash(at)), ..run.clone() });
            known.put(known.since(hash(at)), claim, run);
        };
        (0..GENERATION * 2).for_each(put);
        let get = |at: usize| known.0.lock().get(hash(at)).is_some();
        assert!(get(0) && get(GENERATION), "both generations are looked at");
        (GENERATION * 2..GENERATION * 5).for_each(put);
        assert!(!get(0) && get(GENERATION * 5 - 1));
        let shelves = known.0.lock();
        assert!(shelves.young.len() <= GENERATION && shelves.old.len() <= GENERATION);
    }
}
