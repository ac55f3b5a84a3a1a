//! What befalls the nodes while the hammer falls: one of them at a time begins to have trouble, and gets over it.

use crate::kill::company::START_MAX;
use crate::nodes::LEASE;
use crate::nodes::node::{Node, Reached};
use rand::RngExt;
use rand::rngs::StdRng;
use semel_store_postgres::testing::Proxy;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// SIGKILL; it comes back at once or after its lease.
    Kill,
    /// SIGSTOP for a moment.
    Pause,
    /// SIGSTOP for longer than its lease.
    Freeze,
    /// Its connections to the database break, and new ones are refused.
    Cut,
    /// Nothing passes between it and the database, and then everything does.
    Hold,
    /// Nothing passes, and what was under way is lost.
    HoldThenCut,
}

pub const TROUBLES: &[Trouble] =
    &[Trouble::Kill, Trouble::Pause, Trouble::Cut, Trouble::Freeze, Trouble::Hold, Trouble::HoldThenCut];

/// A node and its line to the database.
pub struct Place {
    pub node: Node,
    pub proxy: Proxy,
}

fn span(chance: &mut StdRng, long: bool) -> Duration {
    let some = Duration::from_millis(chance.random_range(300..=2_000));
    if long { LEASE + Duration::from_secs(1) + some } else { some }
}

impl Place {
    pub fn ended_by_itself(&mut self) -> Option<String> {
        let status = self.node.ended()?;
        Some(format!("{} ended by itself ({status}):\n{}", self.node.name, self.node.last_lines()))
    }

    /// Lets it happen, and returns when it is over. `Err`: the node did not get over it.
    pub async fn suffer(&mut self, trouble: Trouble, mut chance: StdRng) -> Result<(), String> {
        let long = chance.random_bool(0.4);
        let while_it_lasts = span(&mut chance, long || trouble == Trouble::Freeze);
        if let Some(about) = self.ended_by_itself() {
            return Err(about);
        }
        match trouble {
            Trouble::Kill => self.node.kill(),
            Trouble::Pause | Trouble::Freeze => self.node.freeze(),
            Trouble::Cut => self.proxy.cut(),
            Trouble::Hold | Trouble::HoldThenCut => self.proxy.hold(),
        }
        tokio::time::sleep(if trouble == Trouble::Pause { span(&mut chance, false) } else { while_it_lasts }).await;
        match trouble {
            Trouble::Kill => {
                self.node.start(None);
                let reached = self.node.ready(START_MAX).await;
                if reached != Reached::Ready {
                    let last = self.node.last_lines();
                    return Err(format!("{} did not start again ({reached:?}):\n{last}", self.node.name));
                }
            }
            Trouble::Pause | Trouble::Freeze => self.node.thaw(),
            Trouble::Cut | Trouble::Hold => self.proxy.heal(),
            Trouble::HoldThenCut => {
                self.proxy.cut();
                self.proxy.heal();
            }
        }
        Ok(())
    }
}
