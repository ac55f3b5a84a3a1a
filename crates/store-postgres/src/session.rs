//! Connections, and flights of statements over them.
//!
//! One thread does the reading and writing of all sockets; whoever sends statements waits on its own thread, which may
//! be one of another runtime. Statements of a flight are sent together and answered in order. Nothing but the plans of
//! statements outlives a transaction ([`crate::plans`]), so that a pooler may give each one another connection.

use crate::address::Address;
use crate::classify::{Error, described};
use crate::codec::Statement;
use crate::plans::{Names, Plan, Plans, is_end};
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
    names: Names,
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
        Ok(Sockets { runtime: handle, stop: Some(stop), thread: Some(thread), names: Names::default() })
    }

    pub fn connect(&self, address: &Address) -> Result<Session, Error> {
        let (tx, rx) = sync_channel(1);
        let (address, plans) = (address.clone(), Plans::new(self.names.clone()));
        self.runtime.spawn(async move {
            let answer = match tokio::time::timeout(CONNECT_MAX, address.connect()).await {
                Ok(Ok((client, connection))) => {
                    tokio::spawn(async move {
                        if let Err(error) = connection.await {
                            tracing::debug!("a connection to the database ended: {}", described(&error));
                        }
                    });
                    marked(client, plans).await
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

/// A connection that cannot be marked is used without names; one that is lost already is none.
async fn marked(client: Client, plans: Plans) -> Result<Session, Error> {
    if let Some(marking) = plans.marking() {
        match tokio::time::timeout(CONNECT_MAX, client.batch_execute(&marking)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => match Error::from(error) {
                lost @ Error::Lost(_) => return Err(lost),
                Error::Server { text, .. } => plans.give_up(&text),
                Error::Damaged(damaged) => plans.give_up(&damaged.0),
            },
            Err(_) => return Err(Error::Lost("the database did not answer in time".into())),
        }
    }
    Ok(Session { client, plans })
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

/// The end of a batch, in words that nothing else is ended with: whoever listens on the wire can tell it from the end
/// of a look, also where all that is before it goes by name.
pub const COMMIT_BATCH: &str = "COMMIT /* batch */";

/// One message to the server.
pub enum Call {
    /// Several statements without values.
    Text(String),
    /// Begins a transaction whose statements are asked for so often that their plans should be kept.
    Begin(String),
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
    plans: Plans,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;
type Making<'a> = Pin<Box<dyn Future<Output = Result<tokio_postgres::Statement, Error>> + Send + 'a>>;

impl Session {
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends all calls, then waits for all answers. If one cannot be sent, those after it are not sent either: a COMMIT
    /// never follows a statement that is missing.
    pub fn fly(&self, calls: Vec<Call>) -> Flown {
        let ends = calls.last().is_some_and(is_end);
        let mut flown = self.send_all(calls);
        self.plans.landed(ends, &mut flown.results);
        flown
    }

    fn send_all(&self, calls: Vec<Call>) -> Flown {
        let mut all_sent = true;
        let mut flying: Vec<Flying> = Vec::with_capacity(calls.len());
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let last = calls.len().saturating_sub(1);
        for (at, call) in calls.into_iter().enumerate() {
            let mut sent = self.sent(call);
            sent.poll(&mut context);
            let has_failed = matches!(&sent.answer, Waiting::Landed(Err(_)));
            flying.push(sent);
            if has_failed {
                // The last one may have been sent, and the connection lost right after.
                all_sent = at == last;
                break;
            }
        }
        let until = Instant::now() + FLIGHT_MAX;
        // Each is polled each time: whichever is answered first must not keep the others from being read.
        while flying.iter_mut().filter_map(|one| one.poll(&mut context).then_some(())).count() > 0 {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            std::thread::park_timeout(left);
        }
        Flown { results: flying.into_iter().map(|one| one.end(&self.plans)).collect(), all_sent }
    }

    fn sent(&self, call: Call) -> Flying<'_> {
        let statement = match call {
            Call::Text(sql) => return Flying::of(self.text(sql)),
            Call::Begin(sql) => return Flying::of(self.text(self.plans.begun(sql))),
            Call::Typed(statement) => statement,
        };
        match self.plans.of(&statement.sql) {
            Plan::Text => Flying::of(self.typed(statement)),
            Plan::Made(made) => Flying::of(self.named(made, statement)),
            Plan::Make => {
                let making = (statement.sql.clone(), Waiting::For(self.prepared(&statement)));
                Flying { making: Some(making), ..Flying::of(self.typed(statement)) }
            }
        }
    }

    fn text(&self, sql: String) -> Answer<'_> {
        Box::pin(async move {
            self.client.batch_execute(&sql).await?;
            Ok(vec![])
        })
    }

    fn typed(&self, statement: Statement) -> Answer<'_> {
        Box::pin(async move {
            let given: Vec<(&(dyn ToSql + Sync), Type)> =
                statement.params.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect();
            Ok(self.client.query_typed(&statement.sql, &given).await?)
        })
    }

    fn named(&self, made: tokio_postgres::Statement, statement: Statement) -> Answer<'_> {
        Box::pin(async move {
            let given: Vec<&(dyn ToSql + Sync)> =
                statement.params.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync)).collect();
            Ok(self.client.query(&made, &given).await?)
        })
    }

    fn prepared(&self, statement: &Statement) -> Making<'_> {
        let sql = statement.sql.clone();
        let kinds: Vec<Type> = statement.params.iter().map(|(_, kind)| kind.clone()).collect();
        Box::pin(async move { Ok(self.client.prepare_typed(&sql, &kinds).await?) })
    }

    /// One transaction that only reads, on one snapshot, in one flight. The answers of the statements alone.
    pub fn snapshot(&self, begin: &str, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        self.read(Call::Text(begin.to_owned()), statements)
    }

    /// As `snapshot`, of statements that are asked for all the time.
    pub fn glance(&self, begin: &str, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        self.read(Call::Begin(begin.to_owned()), statements)
    }

    fn read(&self, begin: Call, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, Error> {
        let mut calls = vec![begin];
        calls.extend(statements.into_iter().map(Call::Typed));
        calls.push(Call::Text("COMMIT".into()));
        let mut rows = self.fly(calls).rows()?;
        rows.pop();
        Ok(rows.split_off(1))
    }
}

enum Waiting<F, T> {
    For(F),
    Landed(Result<T, Error>),
}

impl<T, F: Future<Output = Result<T, Error>> + Unpin> Waiting<F, T> {
    /// True while there is something to wait for.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let Waiting::For(answer) = self else { return false };
        match Pin::new(answer).poll(context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                *self = Waiting::Landed(result);
                false
            }
        }
    }

    fn end(self) -> Result<T, Error> {
        match self {
            Waiting::Landed(result) => result,
            Waiting::For(_) => Err(Error::Lost("the database did not answer in time".into())),
        }
    }
}

struct Flying<'a> {
    /// Sent before it, for the next time.
    making: Option<(Arc<str>, Waiting<Making<'a>, tokio_postgres::Statement>)>,
    answer: Waiting<Answer<'a>, Vec<Row>>,
}

impl<'a> Flying<'a> {
    fn of(answer: Answer<'a>) -> Flying<'a> {
        Flying { making: None, answer: Waiting::For(answer) }
    }

    /// True while there is something to wait for. The first time sends it.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let is_making = self.making.as_mut().is_some_and(|(_, making)| making.poll(context));
        self.answer.poll(context) || is_making
    }

    /// What could not be prepared has ended the transaction, and says why. If it did not get there, nothing has.
    fn end(self, plans: &Plans) -> Result<Vec<Row>, Error> {
        let answer = self.answer.end();
        let Some((sql, making)) = self.making else { return answer };
        match making.end() {
            Ok(made) => plans.keep(sql, made),
            Err(why) if answer.is_err() => return Err(why),
            Err(_) => {}
        }
        answer
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

    #[cfg(feature = "testing")]
    mod on_a_server {
        use super::*;
        use crate::classify::LOST_MARK;
        use crate::codec::{Columns, Val};
        use crate::testing::Server;

        /// What a transaction of one statement that is asked for often gives.
        fn often(session: &Session, sql: &str, given: i64) -> Result<i64, Error> {
            let rows = session.glance("BEGIN", vec![Statement::new(sql, vec![Val::int(given)])])?;
            rows[0][0].int(0)
        }

        fn names(session: &Session) -> i64 {
            let sql = "SELECT count(*) FROM pg_prepared_statements";
            session.snapshot("BEGIN", vec![Statement::new(sql, vec![])]).unwrap()[0][0].int(0).unwrap()
        }

        const HALF: &str = "SELECT $1 / 2";

        #[test]
        fn what_is_asked_for_often_is_prepared_once() {
            let server = Server::start();
            let (sockets, address) = (Sockets::start().unwrap(), Address::parse(&server.address()).unwrap());
            let session = sockets.connect(&address).unwrap();
            assert_eq!(names(&session), 1, "the mark");
            for number in 0..20 {
                assert_eq!(often(&session, HALF, 2 * number).unwrap(), number);
                assert_eq!(names(&session), if number == 0 { 1 } else { 2 });
            }
            // What the statement itself does wrong is told as that, and the name stays.
            let wrong = often(&session, "SELECT 1 / $1", 0).unwrap_err();
            assert!(wrong.has_code("22012"), "{wrong:?}");
            session.fly(vec![Call::Text("ROLLBACK".into())]).rows().unwrap();
            assert_eq!(often(&session, HALF, 8).unwrap(), 4);
        }

        #[test]
        fn on_a_connection_that_is_not_the_one_nothing_is_done_and_the_next_try_goes_well() {
            let server = Server::start();
            let (sockets, address) = (Sockets::start().unwrap(), Address::parse(&server.address()).unwrap());
            let (session, other) = (sockets.connect(&address).unwrap(), sockets.connect(&address).unwrap());
            assert!((0..4).all(|number| often(&session, HALF, 2 * number).is_ok()));
            // As if a pooler had given the transaction a connection on which another process has used the same name.
            let sql = "SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT $1 / 2'";
            let name = session.snapshot("BEGIN", vec![Statement::new(sql, vec![])]).unwrap()[0][0].text(0).unwrap();
            let theirs = format!("DEALLOCATE ALL; PREPARE {name} (bigint) AS SELECT $1 * 100");
            session.fly(vec![Call::Text(theirs)]).rows().unwrap();
            let lost = often(&session, HALF, 2).unwrap_err();
            assert!(lost.has_code(LOST_MARK) && lost.is_race(), "{lost:?}");
            session.fly(vec![Call::Text("ROLLBACK".into())]).rows().unwrap();
            for session in [&session, &other] {
                let before = names(session);
                assert!((0..4).all(|number| often(session, HALF, 2 * number).is_ok()));
                assert_eq!(names(session), before, "no names any more, for nobody");
            }
        }
    }
}
