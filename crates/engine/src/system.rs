//! The real ports: the machine's clock and random source, and the real performer.

use crate::ports::{Aside, Clock, Entropy, Errand, Performer};
use semel_core::{Millis, RunId};
use semel_tasks::{Outcome, Request};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        Millis(jiff::Timestamp::now().as_millisecond())
    }
}

pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn run_id(&self, now: Millis) -> RunId {
        let bytes: [u8; 10] = rand::random();
        RunId(uuid::Builder::from_unix_timestamp_millis(now.0.max(0) as u64, &bytes).into_uuid())
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

/// Performs with the guarded client.
pub struct RealPerformer(pub semel_tasks::Performer);

impl Performer for RealPerformer {
    fn perform(&self, request: Request) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let performer = self.0.clone();
        Box::pin(async move { performer.perform(request).await })
    }
}

/// Errands are tasks of a tokio runtime.
pub struct TokioAside(pub tokio::runtime::Handle);

impl Aside for TokioAside {
    fn run(&self, errand: Errand) {
        self.0.spawn(errand);
    }

    fn sleep(&self, time: Duration) -> Errand {
        // Made where it is waited for: the driver's thread is outside of the runtime.
        Box::pin(async move { tokio::time::sleep(time).await })
    }
}

/// An instant for tests that need one and do not care which.
#[cfg(test)]
pub fn any_instant() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_outside_of_the_runtime_may_have_an_errand_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let aside = TokioAside(runtime.handle().clone());
        let (done, mut waited) = tokio::sync::oneshot::channel();
        let pause = aside.sleep(Duration::from_millis(1));
        aside.run(Box::pin(async move {
            pause.await;
            let _ = done.send(());
        }));
        runtime.block_on(async { (&mut waited).await.unwrap() });
    }
}
