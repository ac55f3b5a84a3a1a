//! The limit that a database sets on its machine: the statements of batches of writes, sent straight, and nothing else.
//!
//! For measurements. The rows are made before the clock starts. What is measured is what any program must do that writes
//! them: put them into the arrays of the same statements, send these, and wait for the database and its disk.

use crate::address::{Address, with_schema};
use crate::classify::{Error, classify};
use crate::codec::{Columns, Statement, Val};
use crate::dump::ask;
use crate::flush::flush;
use crate::open::{self, Begin, OpenError};
use crate::session::{COMMIT_BATCH, Call, Session, Sockets};
use crate::set::{Care, Set};
use crate::shared::CLOCK;
use crate::wants::Wants;
use crate::whole::{Own, ending};
use semel_core::Millis;
use semel_store::{Result, StoreError, Work, script};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// A schema for a measurement: not there before, and gone after it.
pub struct Scratch {
    address: String,
    schema: String,
    session: Session,
    sockets: Sockets,
}

impl Scratch {
    pub fn new(address: &str, schema: &str) -> std::result::Result<Scratch, OpenError> {
        open::check_schema_name(schema)?;
        let parsed = Address::parse(address)?;
        let sockets = Sockets::start().map_err(OpenError::Threads)?;
        let session = sockets.connect(&parsed)?;
        session.fly(vec![Call::Text(format!("CREATE SCHEMA \"{schema}\""))]).rows()?;
        Ok(Scratch { address: with_schema(address, schema), schema: schema.to_owned(), session, sockets })
    }

    /// The address of a store in this schema.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What its tables and indexes take.
    pub fn bytes(&self) -> Result<u64> {
        let sql = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
                   JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'";
        self.number(Statement::new(sql, vec![Val::own(self.schema.as_str())]))
    }

    pub fn runs(&self) -> Result<u64> {
        self.number(Statement::new(format!("SELECT count(*) FROM \"{}\".runs", self.schema), vec![]))
    }

    /// The process of the database that serves this connection, if it is one of this machine.
    pub fn process(&self) -> Result<u32> {
        let pid = self.number(Statement::new("SELECT pg_backend_pid()::bigint", vec![]))?;
        Ok(u32::try_from(pid).unwrap_or_default())
    }

    fn number(&self, statement: Statement) -> Result<u64> {
        let number = || ask(&self.session, statement)?.first().map_or(Ok(0), |row| row.number(0));
        number().map_err(|error: Error| classify(&error))
    }

    /// Connections that send batches; the tables must be there.
    pub fn raw(&self, connections: usize) -> std::result::Result<Raw<'_>, OpenError> {
        let address = Address::parse(&self.address)?;
        let begin = Begin::new(&self.schema, open::check_server(&self.session)?);
        let sessions =
            (0..connections).map(|_| self.sockets.connect(&address)).collect::<std::result::Result<_, _>>()?;
        let node = Uuid::now_v7();
        for writer in 0..connections {
            let sql = format!(
                "INSERT INTO \"{}\".batches (node, writer, counter, clock_ms) VALUES ($1, $2, 0, 0)",
                self.schema
            );
            let row = vec![Val::Id(Some(node)), Val::int(writer as i64)];
            ask(&self.session, Statement::new(sql, row)).map_err(OpenError::from)?;
        }
        Ok(Raw { scratch: self, begin, node, sent: vec![0; connections], sessions })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let dropped = self.session.fly(vec![Call::Text(format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.schema))]);
        if let Err(error) = dropped.rows() {
            tracing::warn!(schema = self.schema, "the schema of the measurement stays behind: {}", classify(&error));
        }
    }
}

pub struct Raw<'a> {
    scratch: &'a Scratch,
    begin: Begin,
    node: Uuid,
    /// Transactions on each connection.
    sent: Vec<i64>,
    sessions: Vec<Session>,
}

/// The rows of transactions that are ready to be sent.
pub struct Flight(Vec<Set>);

/// How long each transaction took, and all of them together.
pub struct Landed {
    pub each: Vec<Duration>,
    pub time: Duration,
}

impl Raw<'_> {
    pub fn now(&self) -> Result<Millis> {
        let now = self.scratch.number(Statement::new(CLOCK, vec![]))?;
        Ok(Millis(i64::try_from(now).unwrap_or(i64::MAX)))
    }

    /// Makes the rows of a transaction of each batch. The works must be of new keys: nothing is read.
    pub fn prepare(&self, now: Millis, batches: &[Vec<Work>]) -> Result<Flight> {
        let batch = |works: &Vec<Work>| {
            // Their runs end in the same transaction: no node ever owns them.
            let mut set = Set::new(0, now, Care::Hopeful, None);
            let mut wants = Wants::default();
            works.iter().for_each(|work| wants.of(work));
            wants.claims.into_iter().for_each(|key| set.claims.assume_absent(key));
            for work in works {
                let read = || StoreError::Bug("a work that must read cannot be measured so".into());
                set.apply(|tx| script::apply(tx, work)).ok_or_else(read)??;
            }
            Ok(set)
        };
        batches.iter().map(batch).collect::<Result<_>>().map(Flight)
    }

    /// Sends the transactions, one after the other on each connection.
    pub fn fly(&mut self, flight: Flight) -> Result<Landed> {
        let mut shares: Vec<Vec<Set>> = self.sessions.iter().map(|_| Vec::new()).collect();
        let count = shares.len().max(1);
        for (number, set) in flight.0.into_iter().enumerate() {
            shares[number % count].push(set);
        }
        let began = Instant::now();
        let (node, begin) = (self.node, &self.begin.write);
        let landed: std::result::Result<Vec<Vec<Duration>>, Error> = std::thread::scope(|scope| {
            let writers = self.sessions.iter().zip(&mut self.sent).zip(shares).enumerate();
            let flying: Vec<_> = writers
                .map(|(writer, ((session, sent), share))| {
                    let mut own = Own { node, writer: writer as i64, next: *sent, now: 0 };
                    *sent += share.len() as i64;
                    scope.spawn(move || send(session, begin, &mut own, share))
                })
                .collect();
            let lost = |_| Err(Error::Lost("a thread of the measurement panicked".into()));
            flying.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
        });
        let time = began.elapsed();
        let each = landed.map_err(|error| classify(&error))?.into_iter().flatten().collect();
        Ok(Landed { each, time })
    }
}

fn send(session: &Session, begin: &str, own: &mut Own, sets: Vec<Set>) -> std::result::Result<Vec<Duration>, Error> {
    let mut took = Vec::with_capacity(sets.len());
    for set in sets {
        let began = Instant::now();
        own.next += 1;
        let mut calls = vec![Call::Text(begin.to_owned())];
        calls.extend(ending(own, flush(&set)).into_iter().map(Call::Typed));
        calls.push(Call::Text(COMMIT_BATCH.into()));
        session.fly(calls).rows()?;
        took.push(began.elapsed());
    }
    Ok(took)
}
