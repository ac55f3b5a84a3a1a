//! When a small batch should wait for the one that is on its way.
//!
//! Two batches at once use a database that has time to spare; on one that has none each pays for its own transaction, and
//! both take longer. How long the batches take says which it is: as long as they are about as quick as the quickest of
//! late, every writer goes at once. When they are much slower, a writer that has little to write lets the other one land
//! first, and gathers meanwhile. Where several nodes write, their batches are beside each other anyway: a second one of
//! the same node would only make both smaller.

use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// A batch of this many for each node goes at once: the more nodes there are, the more batches fly beside each other.
const ENOUGH: usize = 10;
/// So many times slower than the quickest is slow.
const SLOW: u32 = 2;
/// The quickest is forgotten by this part of itself with each batch, so that it follows a database that changes.
const FORGET: u32 = 256;
/// Nobody waits longer for another.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// From so many nodes on, a node has one small batch under way at a time.
pub const SEVERAL: usize = 3;

#[derive(Default)]
struct Traffic {
    under_way: usize,
    quickest: Duration,
    is_slow: bool,
}

#[derive(Default)]
pub struct Flights {
    traffic: Mutex<Traffic>,
    landed: Condvar,
}

impl Flights {
    /// Waits until another has landed, if that is better than to go with so few. True if it has waited.
    pub fn gather(&self, jobs: usize, nodes: usize) -> bool {
        let mut traffic = self.traffic.lock();
        let goes_beside = nodes < SEVERAL && !traffic.is_slow;
        if jobs >= ENOUGH * nodes || goes_beside || traffic.under_way == 0 {
            return false;
        }
        let until = Instant::now() + WAIT_MAX;
        while traffic.under_way > 0 && !self.landed.wait_until(&mut traffic, until).timed_out() {}
        true
    }

    /// Counts a batch that is on its way.
    pub fn fly<T>(&self, batch: impl FnOnce() -> T) -> T {
        self.traffic.lock().under_way += 1;
        let began = Instant::now();
        let done = batch();
        self.landed(began.elapsed());
        done
    }

    fn landed(&self, took: Duration) {
        let mut traffic = self.traffic.lock();
        traffic.under_way -= 1;
        let faded = traffic.quickest + traffic.quickest / FORGET;
        traffic.quickest = if traffic.quickest.is_zero() { took } else { faded.min(took) };
        traffic.is_slow = took > traffic.quickest * SLOW;
        self.landed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_while_batches_are_quick_or_large_or_alone() {
        let flights = Flights::default();
        let lands = |ms: u64| {
            flights.traffic.lock().under_way += 1;
            flights.landed(Duration::from_millis(ms));
        };
        lands(4);
        lands(7);
        flights.traffic.lock().under_way = 1;
        assert!(!flights.gather(1, 1), "seven is not much more than four");
        lands(9);
        assert!(flights.gather(1, 1), "nine is slow, and another one is under way");
        assert!(!flights.gather(ENOUGH, 1), "there is enough");
        assert!(flights.gather(ENOUGH, 2), "two nodes ask for more");
        lands(4);
        flights.traffic.lock().under_way = 1;
        assert!(!flights.gather(1, 2), "quick again");
        assert!(flights.gather(1, 3), "three nodes are beside each other already");
        assert!(!flights.gather(3 * ENOUGH, 3), "there is enough");
        flights.traffic.lock().under_way = 0;
        assert!(!flights.gather(1, 3), "nobody to wait for");
    }

    #[test]
    fn a_database_that_has_become_slower_is_not_slow_for_ever() {
        let flights = Flights::default();
        for ms in std::iter::once(4).chain(std::iter::repeat_n(12, 400)) {
            flights.traffic.lock().under_way += 1;
            flights.landed(Duration::from_millis(ms));
        }
        assert!(!flights.traffic.lock().is_slow);
    }

    #[test]
    fn who_waits_goes_when_the_other_has_landed() {
        let flights = &Flights::default();
        flights.traffic.lock().is_slow = true;
        std::thread::scope(|scope| {
            let (begun, has_begun) = std::sync::mpsc::channel();
            let other = scope.spawn(move || {
                flights.fly(|| {
                    begun.send(()).expect("somebody waits");
                    std::thread::sleep(Duration::from_millis(5));
                })
            });
            has_begun.recv().expect("it has begun");
            assert!(flights.gather(1, 1));
            other.join().expect("it lands");
        });
        assert_eq!(flights.traffic.lock().under_way, 0);
    }
}
