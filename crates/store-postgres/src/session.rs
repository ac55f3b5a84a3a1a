//! Connections, and flights of statements over them.
//!
//! One thread does the reading and writing of all sockets; whoever sends statements waits on its own thread, which may
//! be one of another runtime. Statements of a flight are sent together and answered in order. They are never prepared
//! by name, so that a pooler may give each transaction another connection.

use crate::address::Address;
use crate::classify::{Error, described};
use crate::codec::Statement;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row};

/// Longer than any statement may take by the server's own limit.
const FLIGHT_MAX: Duration = Duration::from_secs(40);
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A pooler may hand on a connection on which a note for its last user is still on the way. The library has no other
/// way to tell that.
pub const NOT_OURS: &str = "unexpected message from server";

/// The thread of the sockets. It ends with the last of its connections' owner.
pub struct Sockets {
    runtime: tokio::runtime::Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sockets {
    pub fn start() -> std::io::Result<Sockets> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let work = move || {
            // Ends when it is told to, or when nobody is left who could tell.
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name("store-sockets".into()).spawn(work)?;
        Ok(Sockets { runtime: handle, stop: Some(stop), thread: Some(thread) })
    }

    pub fn connect(&self, address: &Address) -> Result<Session, Error> {
        let (tx, rx) = sync_channel(1);
        let address = address.clone();
        self.runtime.spawn(async move {
            let answer = match tokio::time::timeout(CONNECT_MAX, address.connect()).await {
                Ok(Ok((client, connection))) => {
                    tokio::spawn(async move {
                        if let Err(error) = connection.await {
                            tracing::debug!("a connection to the database ended: {}", described(&error));
                        }
                    });
                    Ok(Session { client })
                }
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Error::Lost("the database did not answer in time".into())),
            };
            // The one who asked waits on the other side.
            let _ = tx.send(answer);
        });
        rx.recv().unwrap_or_else(|_| Err(Error::Lost("the store is closed".into())))
    }
}

/// How soon a lost connection for notes is made again.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

impl Sockets {
    /// Hands on what is told on a channel, for as long as the thread of the sockets runs.
    pub fn listen(&self, address: &Address, channel: &str, take: Arc<dyn Fn(String) + Send + Sync>) {
        let (address, listen) = (address.clone(), format!("LISTEN \"{channel}\""));
        self.runtime.spawn(async move {
            loop {
                if let Ok(Ok((client, mut connection))) = tokio::time::timeout(CONNECT_MAX, address.connect()).await {
                    let messages = std::future::poll_fn(|context| {
                        while let Poll::Ready(message) = connection.poll_message(context) {
                            match message {
                                Some(Ok(AsyncMessage::Notification(note))) => take(note.payload().to_owned()),
                                Some(Ok(_)) => {}
                                Some(Err(_)) | None => return Poll::Ready(()),
                            }
                        }
                        Poll::Pending
                    });
                    // The connection is driven by the messages; the client must not go before them.
                    let told = async {
                        let listening = client.batch_execute(&listen).await.is_ok();
                        if listening {
                            std::future::pending().await
                        }
                    };
                    tokio::select! {
                        () = messages => {}
                        () = told => {}
                    }
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        });
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.stop.take();
        let Some(thread) = self.thread.take() else { return };
        // The last owner may go away inside a reply, or while a note is taken in: then the thread ends by itself.
        if thread.thread().id() == std::thread::current().id() {
            return;
        }
        if thread.join().is_err() {
            tracing::error!("the thread of the store's connections panicked");
        }
    }
}

/// One message to the server.
pub enum Call {
    /// Several statements without values.
    Text(String),
    Typed(Statement),
}

/// What became of a flight.
pub struct Flown {
    /// In order; shorter than the flight if not all of it was sent.
    pub results: Vec<Result<Vec<Row>, Error>>,
    /// False when the last call certainly did not leave.
    pub all_sent: bool,
}

impl Flown {
    /// All results, or the first error.
    pub fn rows(self) -> Result<Vec<Vec<Row>>, Error> {
        if !self.all_sent && self.results.iter().all(Result::is_ok) {
            return Err(Error::Lost("not all of it was sent".into()));
        }
        self.results.into_iter().collect()
    }
}

pub struct Session {
    client: Client,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

impl Session {
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends all calls, then waits for all answers. If one cannot be sent, those after it are not sent either: a COMMIT
    /// never follows a statement that is missing.
    pub fn fly(&self, calls: Vec<Call>) -> Flown {
        let mut all_sent = true;
        let mut flying: Vec<Flying> = Vec::with_capacity(calls.len());
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let last = calls.len().saturating_sub(1);
        for (at, call) in calls.into_iter().enumerate() {
            let mut answer = self.answer(call);
            match answer.as_mut().poll(&mut context) {
                Poll::Pending => flying.push(Flying::Waiting(answer)),
                Poll::Ready(Ok(rows)) => flying.push(Flying::Landed(Ok(rows))),
                Poll::Ready(Err(error)) => {
                    flying.push(Flying::Landed(Err(error)));
                    // The last one may have been sent, and the connection lost right after.
                    all_sent = at == last;
                    break;
                }
            }
        }
        let until = Instant::now() + FLIGHT_MAX;
        // Each is polled each time: whichever is answered first must not keep the others from being read.
        while flying.iter_mut().filter_map(|one| one.poll(&mut context).then_some(())).count() > 0 {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            std::thread::park_timeout(left);
        }
        Flown { results: flying.into_iter().map(Flying::end).collect(), all_sent }
    }

    fn answer(&self, call: Call) -> Answer<'_> {
        match call {
            Call::Text(sql) => Box::pin(async move {
                self.client.batch_execute(&sql).await?;
                Ok(vec![])
            }),
            Call::Typed(statement) => Box::pin(async move {
                let given: Vec<(&(dyn ToSql + Sync), Type)> = statement
                    .params
                    .iter()
                    .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
                    .collect();
                Ok(self.client.query_typed(&statement.sql, &given).await?)
            }),
        }
    }

    /// One transaction that only reads, on one snapshot, in one flight. The answers of the statements alone.
    pub fn snapshot(&self, begin: &str, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        let mut calls = vec![Call::Text(begin.to_owned())];
        calls.extend(statements.into_iter().map(Call::Typed));
        calls.push(Call::Text("COMMIT".into()));
        let mut rows = self.fly(calls).rows()?;
        rows.pop();
        Ok(rows.split_off(1))
    }
}

enum Flying<'a> {
    Waiting(Answer<'a>),
    Landed(Result<Vec<Row>, Error>),
}

impl Flying<'_> {
    /// True while there is something to wait for.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let Flying::Waiting(answer) = self else { return false };
        match answer.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                *self = Flying::Landed(result);
                false
            }
        }
    }

    fn end(self) -> Result<Vec<Row>, Error> {
        match self {
            Flying::Landed(result) => result,
            Flying::Waiting(_) => Err(Error::Lost("the database did not answer in time".into())),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_last_owner_may_go_away_on_the_thread_of_the_sockets() {
        let sockets = Arc::new(Sockets::start().unwrap());
        let (runtime, (told, heard)) = (sockets.runtime.clone(), std::sync::mpsc::channel());
        runtime.spawn(async move {
            let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(sockets)));
            // The test waits for it.
            let _ = told.send(dropped.is_ok());
        });
        assert_eq!(heard.recv_timeout(std::time::Duration::from_secs(60)), Ok(true));
    }
}
