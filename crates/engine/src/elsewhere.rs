//! A request for a run that another node drives: left in the store, and waited for.

use crate::api::ControlError;
use crate::driver::Happened;
use crate::handle::write;
use crate::ports::Aside;
use crate::shell::{Asking, Message};
use semel_core::Hash16;
use semel_store::{Done, Inbox, Store, StoreError, Work};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

const FIRST_LOOK: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(250);
/// Longer than a node that is gone keeps its runs.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn ask(
    store: Arc<dyn Store>,
    sender: Sender<Message>,
    aside: Arc<dyn Aside>,
    ticket: Hash16,
    asking: Asking,
) {
    let Asking { workspace, run, control, by, reply } = asking;
    let answer = match serde_json::to_value(&control) {
        Err(error) => Err(StoreError::Bug(error.to_string()).into()),
        Ok(control) => {
            let message = Inbox::Asked { ticket, control, by };
            match write(&store, Work::Message { workspace: workspace.clone(), run, message }).await {
                Err(error) => Err(error.into()),
                Ok(Done::Missing) => Err(ControlError::Unknown),
                Ok(_) => {
                    // If nobody drives it any more, the run is ours now; else its driver is told to look.
                    let _ = sender.send(Message::Happened(Happened::Wake { workspace, run }));
                    wait(&store, aside.as_ref(), ticket).await
                }
            }
        }
    };
    // The caller may have gone away; what was asked stands.
    let _ = reply.send(answer);
}

async fn wait(store: &Arc<dyn Store>, aside: &dyn Aside, ticket: Hash16) -> Result<(), ControlError> {
    let (mut waited, mut pause) = (Duration::ZERO, FIRST_LOOK);
    while waited < PATIENCE {
        aside.sleep(pause).await;
        let Some(cluster) = store.cluster() else { break };
        match cluster.answer(ticket) {
            Ok(Some(Ok(()))) => return Ok(()),
            Ok(Some(Err(text))) => return Err(ControlError::NotPossible(text)),
            Ok(None) => {}
            Err(StoreError::Busy(_) | StoreError::Full(_)) => {}
            Err(error) => return Err(error.into()),
        }
        (waited, pause) = (waited + pause, (pause * 2).min(LOOK_MAX));
    }
    let text =
        "the node that drives the run does not answer; the request is stored, and is acted on when the run goes on";
    Err(StoreError::Busy(text.to_owned()).into())
}
