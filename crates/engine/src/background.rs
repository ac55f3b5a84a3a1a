//! What happens by itself: schedules and clean-up. Both are safe to run twice at once, since a
//! tick is an occurrence keyed by its nominal instant and a sweep only deletes what is over.

use crate::handle::Engine;
use semel_core::Millis;
use semel_store::SweepRules;
use std::sync::Arc;

impl Engine {
    /// Runs schedules and sweeps until the engine stops.
    pub async fn run_background(self: Arc<Self>, rules: SweepRules) {
        let mut sweep_at = Millis(0);
        while !self.is_stopping() {
            if self.is_ready() {
                if let Err(error) = self.tick_schedules().await {
                    tracing::error!(%error, "schedules cannot be read");
                }
                for poll in std::mem::take(&mut *self.polls().lock()) {
                    let engine = self.clone();
                    // A far side that takes its time delays nobody else.
                    tokio::spawn(async move {
                        if let Err(error) = engine.poll(poll).await {
                            tracing::warn!(%error, "a poll could not be settled");
                        }
                    });
                }
                if let Err(error) = self.hear_changes().await {
                    tracing::error!(%error, "changes of runs cannot be read");
                }
                if let Err(error) = self.hear_events().await {
                    tracing::error!(%error, "events cannot be read");
                }
                if let Err(error) = self.tell_late_errands().await {
                    tracing::error!(%error, "errands cannot be read");
                }
                let now = self.store().now();
                if now >= sweep_at && self.is_first() {
                    match self.sweep(rules).await {
                        // A full batch means there is more.
                        Ok(count) if count >= u64::from(rules.limit) => sweep_at = now.plus(100),
                        Ok(_) => sweep_at = now.plus(60_000),
                        Err(error) => {
                            tracing::warn!(%error, "the sweep failed");
                            sweep_at = now.plus(60_000);
                        }
                    }
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}
