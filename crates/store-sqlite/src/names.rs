//! Texts that rows refer to by a small number: workspaces, key scopes, policies.
//!
//! A cache shared by all connections holds only committed pairs. What a transaction found or
//! made stays with it ([`Cx::mark`], [`Cx::forget_since`]) until it ended well ([`Cx::publish`]).

use crate::classify::damaged;
use crate::codec::json;
use parking_lot::RwLock;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Result, Row};
use semel_core::admission::Policy;
use semel_core::{Hash16, WorkspaceId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Workspace,
    Word,
}

impl Kind {
    fn find_sql(self) -> &'static str {
        match self {
            Kind::Workspace => "SELECT ws FROM workspaces WHERE name = ?1",
            Kind::Word => "SELECT num FROM words WHERE word = ?1",
        }
    }
    fn make_sql(self) -> &'static str {
        match self {
            Kind::Workspace => "INSERT INTO workspaces (name) VALUES (?1) RETURNING ws",
            Kind::Word => "INSERT INTO words (word) VALUES (?1) RETURNING num",
        }
    }
    fn read_sql(self) -> &'static str {
        match self {
            Kind::Workspace => "SELECT name FROM workspaces WHERE ws = ?1",
            Kind::Word => "SELECT word FROM words WHERE num = ?1",
        }
    }
}

#[derive(Default)]
pub struct Names {
    numbers: RwLock<HashMap<Kind, HashMap<Arc<str>, i64>>>,
    texts: RwLock<HashMap<(Kind, i64), Arc<str>>>,
}

/// A connection inside a transaction, with the names it knows.
pub struct Cx<'a> {
    pub connection: &'a Connection,
    names: &'a Names,
    fresh: RefCell<Vec<(Kind, Arc<str>, i64)>>,
    /// Numbers of the policies met so far: spares writing them out as text.
    policies: RefCell<Vec<(Policy, i64)>>,
    /// Statements met so far, by where their text is: finding one costs no hash of the text.
    statements: RefCell<Vec<(*const u8, CachedStatement<'a>)>>,
    /// Claims that the transaction changes, or the heads of whose runs it does.
    touched: RefCell<Vec<Hash16>>,
}

impl<'a> Cx<'a> {
    pub fn new(connection: &'a Connection, names: &'a Names) -> Cx<'a> {
        Cx {
            connection,
            names,
            fresh: RefCell::default(),
            policies: RefCell::default(),
            statements: RefCell::default(),
            touched: RefCell::default(),
        }
    }

    pub fn touch(&self, claim: Hash16) {
        self.touched.borrow_mut().push(claim);
    }

    pub fn touched(&self) -> Vec<Hash16> {
        self.touched.take()
    }

    pub fn mark(&self) -> usize {
        self.fresh.borrow().len()
    }

    /// After a rollback to where [`Cx::mark`] was taken: those numbers may go to other names.
    pub fn forget_since(&self, mark: usize) {
        self.fresh.borrow_mut().truncate(mark);
        self.policies.borrow_mut().clear();
    }

    /// After a commit, or at the end of a read (which sees only what is committed).
    pub fn publish(&self) {
        for (kind, text, number) in self.fresh.borrow_mut().drain(..) {
            self.names.texts.write().insert((kind, number), text.clone());
            self.names.numbers.write().entry(kind).or_default().insert(text, number);
        }
    }

    /// The number of a workspace; `None` if nothing was ever written in it.
    pub fn ws(&self, workspace: &WorkspaceId) -> Result<Option<i64>> {
        self.find(Kind::Workspace, &workspace.0)
    }

    pub fn ws_or_new(&self, workspace: &WorkspaceId) -> Result<i64> {
        self.find_or_make(Kind::Workspace, &workspace.0)
    }

    pub fn ws_name(&self, number: i64) -> Result<WorkspaceId> {
        Ok(WorkspaceId(self.text(Kind::Workspace, number)?.to_string()))
    }

    pub fn word(&self, text: &str) -> Result<Option<i64>> {
        self.find(Kind::Word, text)
    }

    pub fn word_or_new(&self, text: &str) -> Result<i64> {
        self.find_or_make(Kind::Word, text)
    }

    /// The number of a policy's text.
    pub fn policy(&self, policy: &Policy) -> Result<i64> {
        if let Some((_, number)) = self.policies.borrow().iter().find(|(known, _)| known == policy) {
            return Ok(*number);
        }
        let number = self.word_or_new(&json(policy))?;
        self.policies.borrow_mut().push((*policy, number));
        Ok(number)
    }

    pub fn word_text(&self, number: i64) -> Result<Arc<str>> {
        self.text(Kind::Word, number)
    }

    fn find(&self, kind: Kind, text: &str) -> Result<Option<i64>> {
        if let Some(number) = self.names.numbers.read().get(&kind).and_then(|known| known.get(text)) {
            return Ok(Some(*number));
        }
        if let Some((_, _, number)) = self.fresh.borrow().iter().find(|(k, t, _)| *k == kind && **t == *text) {
            return Ok(Some(*number));
        }
        let number = self.one(kind.find_sql(), [text], |row| row.get(0))?;
        if let Some(number) = number {
            self.fresh.borrow_mut().push((kind, text.into(), number));
        }
        Ok(number)
    }

    fn find_or_make(&self, kind: Kind, text: &str) -> Result<i64> {
        if let Some(number) = self.find(kind, text)? {
            return Ok(number);
        }
        let number = self.with(kind.make_sql(), |statement| statement.query_row([text], |row| row.get(0)))?;
        self.fresh.borrow_mut().push((kind, text.into(), number));
        Ok(number)
    }

    fn text(&self, kind: Kind, number: i64) -> Result<Arc<str>> {
        if let Some(text) = self.names.texts.read().get(&(kind, number)) {
            return Ok(text.clone());
        }
        if let Some((_, text, _)) = self.fresh.borrow().iter().find(|(k, _, n)| *k == kind && *n == number) {
            return Ok(text.clone());
        }
        let text: Option<String> = self.one(kind.read_sql(), [number], |row| row.get(0))?;
        let text: Arc<str> =
            text.ok_or_else(|| damaged(format!("a row refers to name {number}, which is not there")))?.into();
        self.fresh.borrow_mut().push((kind, text.clone(), number));
        Ok(text)
    }

    /// Lends the statement of a text that lives for ever. While it is lent, the same text is prepared once more:
    /// a query may be asked again inside the reading of its rows.
    fn with<T>(&self, sql: &'static str, run: impl FnOnce(&mut CachedStatement<'a>) -> Result<T>) -> Result<T> {
        let found = {
            let mut known = self.statements.borrow_mut();
            known.iter().position(|(text, _)| *text == sql.as_ptr()).map(|at| known.swap_remove(at).1)
        };
        let mut statement = match found {
            Some(statement) => statement,
            None => self.connection.prepare_cached(sql)?,
        };
        let done = run(&mut statement);
        self.statements.borrow_mut().push((sql.as_ptr(), statement));
        done
    }

    pub fn exec(&self, sql: &'static str, params: impl Params) -> Result<usize> {
        self.with(sql, |statement| statement.execute(params))
    }

    /// Like `exec`, for rows that must be there.
    pub fn exec_one(&self, sql: &'static str, params: impl Params) -> Result<()> {
        match self.exec(sql, params)? {
            0 => Err(rusqlite::Error::QueryReturnedNoRows),
            _ => Ok(()),
        }
    }

    pub fn one<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<Option<T>> {
        self.with(sql, |statement| statement.query_row(params, read).optional())
    }

    pub fn all<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.with(sql, |statement| statement.query_map(params, read)?.collect())
    }

    /// As [`Cx::all`], for a text that is made for each question.
    pub fn ask<T>(&self, sql: &str, params: impl Params, read: impl FnMut(&Row) -> Result<T>) -> Result<Vec<T>> {
        self.connection.prepare_cached(sql)?.query_map(params, read)?.collect()
    }

    /// Hands over each row, or why it does not decode; an error means that there are no further rows.
    pub fn each<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row) -> Result<T>,
        mut see: impl FnMut(Result<T>),
    ) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            see(read(row));
        }
        Ok(())
    }

    pub fn ask_one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<Option<T>> {
        self.connection.prepare_cached(sql)?.query_row(params, read).optional()
    }
}
