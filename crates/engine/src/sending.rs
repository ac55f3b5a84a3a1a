//! Carrying out an intent on a node with a lease.
//!
//! A lease that ends between the look at it and the first byte is this node's own trouble: nothing has left, and if the
//! node still lives in the life that wrote the intent, it waits for its lease and sends then. Only when that life is over
//! is the intent somebody else's.

use crate::ports::{Aside, Performer};
use semel_store::Cluster;
use semel_tasks::{LEASE_LAPSED, Outcome, Request};
use std::time::Duration;

/// How often a node without a lease looks whether it has one again.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Sends when the node may; `None` once the life is over in which the intent was written.
pub(crate) async fn send(
    cluster: Option<&dyn Cluster>,
    aside: &dyn Aside,
    performer: &dyn Performer,
    life: Option<u64>,
    mut request: Request,
) -> Option<Outcome> {
    loop {
        if !may_send(cluster, aside, life, &mut request).await {
            return None;
        }
        match performer.perform(request.clone()).await {
            Outcome::FailedClean { code: LEASE_LAPSED, .. } if cluster.is_some() => {}
            outcome => return Some(outcome),
        }
    }
}

/// Waits until the node may send, and says until when.
async fn may_send(cluster: Option<&dyn Cluster>, aside: &dyn Aside, life: Option<u64>, request: &mut Request) -> bool {
    let Some(cluster) = cluster else { return true };
    loop {
        if life != Some(cluster.epoch()) {
            return false;
        }
        if let Some(until) = cluster.send_before() {
            request.send_before = Some(until);
            return true;
        }
        aside.sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Errand;
    use parking_lot::Mutex;
    use semel_core::{Hash16, RunId, WorkspaceId};
    use semel_store::{Ear, NodeRow, Note, Result};
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::time::Instant;

    /// A node that has its lease at every second look, in one life until `lives` looks are over.
    struct Node {
        looks: Mutex<u64>,
        lives: u64,
    }

    impl Cluster for Node {
        fn epoch(&self) -> u64 {
            if *self.looks.lock() < self.lives { 1 } else { 2 }
        }
        fn send_before(&self) -> Option<Instant> {
            let mut looks = self.looks.lock();
            *looks += 1;
            looks.is_multiple_of(2).then(crate::system::any_instant)
        }
        fn adopt(&self, _: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
            Ok(vec![])
        }
        fn mail(&self, _: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
            Ok(vec![])
        }
        fn answer(&self, _: Hash16) -> Result<Option<std::result::Result<(), String>>> {
            Ok(None)
        }
        fn nodes(&self) -> Result<Vec<NodeRow>> {
            Ok(vec![])
        }
        fn is_first(&self) -> bool {
            true
        }
        fn is_alone(&self) -> bool {
            true
        }
        fn tell(&self, _: Note) {}
        fn listen(&self, _: Ear) {}
    }

    struct AtOnce;

    impl Aside for AtOnce {
        fn run(&self, _: Errand) {}
        fn sleep(&self, _: Duration) -> Errand {
            Box::pin(ready(()))
        }
    }

    /// Finds the lease over this many times, then gets its answer.
    struct Late(Mutex<u32>);

    impl Performer for Late {
        fn perform(&self, request: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
            assert!(request.send_before.is_some(), "each send is bounded by the lease of its moment");
            let mut left = self.0.lock();
            let lapsed = *left > 0;
            *left = left.saturating_sub(1);
            let outcome = match lapsed {
                true => {
                    Outcome::FailedClean { code: LEASE_LAPSED, message: String::new(), output: None, retryable: true }
                }
                false => Outcome::Done { output: serde_json::json!({"code": 200}) },
            };
            Box::pin(ready(outcome))
        }
    }

    fn sent(node: &Node, late: u32) -> Option<Outcome> {
        let request = Request {
            step_id: "00".into(),
            type_name: "http.Request".into(),
            config: serde_json::json!({}),
            timeout_ms: 1,
            idempotency_key: None,
            send_before: None,
            traceparent: None,
            home: Default::default(),
            log: Default::default(),
            stop: Default::default(),
        };
        let performer = Late(Mutex::new(late));
        let mut sending = std::pin::pin!(send(Some(node), &AtOnce, &performer, Some(1), request));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match sending.as_mut().poll(&mut context) {
            std::task::Poll::Ready(outcome) => outcome,
            std::task::Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn a_lease_that_was_late_does_not_fail_the_step() {
        let node = Node { looks: Mutex::new(0), lives: 1_000 };
        assert_eq!(sent(&node, 3), Some(Outcome::Done { output: serde_json::json!({"code": 200}) }));
        assert_eq!(*node.looks.lock(), 8, "the lease was looked at anew before each of four sends");
    }

    #[test]
    fn a_node_in_another_life_sends_nothing() {
        assert_eq!(sent(&Node { looks: Mutex::new(0), lives: 0 }, 0), None);
        assert_eq!(sent(&Node { looks: Mutex::new(0), lives: 4 }, 9), None, "its life ended between two tries");
    }
}
