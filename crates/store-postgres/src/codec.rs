//! Values to columns and back.
//!
//! Rows travel in batches: a [`Table`] says which columns a row has, [`Rows`] turns rows into one array per column, and
//! the statement takes them apart again with `unnest`. PostgreSQL has no text with a zero byte, users do: such text is
//! stored with an escape, and nothing else is changed by it.

use crate::classify::Error;
use bytes::{BufMut, BytesMut};
use parking_lot::Mutex;
use semel_core::fingerprint::Fingerprint;
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use semel_store::codec::{self, Damaged};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Text,
    Bytes,
    Id,
    Bool,
}

/// One value of a row.
pub enum Val<'a> {
    Int(Option<i64>),
    Text(Option<Cow<'a, str>>),
    Bytes(Option<Cow<'a, [u8]>>),
    Id(Option<Uuid>),
    Bool(Option<bool>),
}

pub type Param = (Box<dyn ToSql + Sync + Send>, Type);

/// A statement with what it is given.
pub struct Statement {
    pub sql: Arc<str>,
    pub params: Vec<Param>,
    /// The table, if all it does is to add rows.
    pub inserts: Option<&'static str>,
}

impl Statement {
    pub fn new(sql: impl Into<Arc<str>>, values: Vec<Val<'_>>) -> Statement {
        Statement { sql: sql.into(), params: values.into_iter().map(Val::param).collect(), inserts: None }
    }
}

impl<'a> Val<'a> {
    pub fn text(text: &'a str) -> Val<'a> {
        Val::Text(Some(escaped(text)))
    }
    pub fn text_opt(text: Option<&'a str>) -> Val<'a> {
        Val::Text(text.map(escaped))
    }
    /// Text made here, without a zero byte.
    pub fn own(text: impl Into<Cow<'a, str>>) -> Val<'a> {
        Val::Text(Some(text.into()))
    }
    pub fn own_opt(text: Option<String>) -> Val<'a> {
        Val::Text(text.map(Cow::Owned))
    }
    pub fn ws(workspace: &'a WorkspaceId) -> Val<'a> {
        Val::text(&workspace.0)
    }
    pub fn bytes(bytes: &'a [u8]) -> Val<'a> {
        Val::Bytes(Some(Cow::Borrowed(bytes)))
    }
    pub fn bytes_opt(bytes: Option<&'a [u8]>) -> Val<'a> {
        Val::Bytes(bytes.map(Cow::Borrowed))
    }
    pub fn int(number: impl Into<i64>) -> Val<'a> {
        Val::Int(Some(number.into()))
    }
    pub fn number(number: u64) -> Val<'a> {
        Val::Int(Some(codec::int(number)))
    }
    pub fn at(at: Millis) -> Val<'a> {
        Val::Int(Some(at.0))
    }
    pub fn at_opt(at: Option<Millis>) -> Val<'a> {
        Val::Int(at.map(|at| at.0))
    }
    pub fn run(run: RunId) -> Val<'a> {
        Val::Id(Some(run.0))
    }
    pub fn run_opt(run: Option<RunId>) -> Val<'a> {
        Val::Id(run.map(|run| run.0))
    }
    pub fn hash(hash: Hash16) -> Val<'a> {
        Val::Id(Some(Uuid::from_bytes(hash.0)))
    }
    pub fn hash_opt(hash: Option<Hash16>) -> Val<'a> {
        Val::Id(hash.map(|hash| Uuid::from_bytes(hash.0)))
    }
    pub fn yes(yes: bool) -> Val<'a> {
        Val::Bool(Some(yes))
    }

    pub fn param(self) -> Param {
        match self {
            Val::Int(v) => (Box::new(v), Type::INT8),
            Val::Text(v) => (Box::new(v.map(Cow::into_owned)), Type::TEXT),
            Val::Bytes(v) => (Box::new(v.map(Cow::into_owned)), Type::BYTEA),
            Val::Id(v) => (Box::new(v), Type::UUID),
            Val::Bool(v) => (Box::new(v), Type::BOOL),
        }
    }
}

const ESCAPE: char = '\u{1a}';

/// Text as it is stored.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1a}1").replace('\0', "\u{1a}0"))
}

fn unescaped(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    text.replace("\u{1a}0", "\0").replace("\u{1a}1", "\u{1a}")
}

/// One array: the values as the database reads them, one after the other. Rows are made of borrowed parts, and most of
/// them are written once, so they go straight to where they are sent from.
#[derive(Debug)]
struct Column {
    kind: Kind,
    count: i32,
    has_null: bool,
    values: Vec<u8>,
}

const NULL: i32 = -1;

impl Column {
    fn new(kind: Kind) -> Column {
        Column { kind, count: 0, has_null: false, values: vec![] }
    }

    fn push(&mut self, value: &Val<'_>) {
        match (self.kind, value) {
            (Kind::Int, Val::Int(v)) => self.write(v.map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..])),
            (Kind::Text, Val::Text(v)) => self.write(v.as_ref().map(|text| text.as_bytes())),
            (Kind::Bytes, Val::Bytes(v)) => self.write(v.as_deref()),
            (Kind::Id, Val::Id(v)) => self.write(v.as_ref().map(|id| &id.as_bytes()[..])),
            (Kind::Bool, Val::Bool(v)) => self.write(v.map(|yes| [u8::from(yes)]).as_ref().map(|byte| &byte[..])),
            // A row that does not fit its table is a slip of this crate, which every test of that table would meet.
            (_, _) => panic!("a value does not fit its column"),
        }
    }

    fn write(&mut self, bytes: Option<&[u8]>) {
        self.count += 1;
        // No value is as long as that: a request may not be a hundredth of it.
        let length = bytes.map_or(NULL, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.values.extend_from_slice(&length.to_be_bytes());
        self.has_null |= bytes.is_none();
        self.values.extend_from_slice(bytes.unwrap_or_default());
    }

    fn types(kind: Kind) -> (Type, Type) {
        match kind {
            Kind::Int => (Type::INT8, Type::INT8_ARRAY),
            Kind::Text => (Type::TEXT, Type::TEXT_ARRAY),
            Kind::Bytes => (Type::BYTEA, Type::BYTEA_ARRAY),
            Kind::Id => (Type::UUID, Type::UUID_ARRAY),
            Kind::Bool => (Type::BOOL, Type::BOOL_ARRAY),
        }
    }

    fn param(self) -> Param {
        let kind = Column::types(self.kind).1;
        (Box::new(self), kind)
    }
}

impl ToSql for Column {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let dimensions = i32::from(self.count > 0);
        out.put_i32(dimensions);
        out.put_i32(i32::from(self.has_null));
        out.put_u32(Column::types(self.kind).0.oid());
        if dimensions == 1 {
            out.put_i32(self.count);
            // Where the count of places begins.
            out.put_i32(1);
        }
        out.put_slice(&self.values);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Rows as columns.
pub struct Rows {
    columns: Vec<Column>,
    count: usize,
}

impl Rows {
    pub fn new(kinds: impl Iterator<Item = Kind>) -> Rows {
        Rows { columns: kinds.map(Column::new).collect(), count: 0 }
    }

    /// Rows of ids under a workspace, which most keys are.
    pub fn of_ids<'a>(keys: impl Iterator<Item = (&'a WorkspaceId, Uuid)>) -> Rows {
        let mut rows = Rows::new([Kind::Text, Kind::Id].into_iter());
        keys.for_each(|(ws, id)| rows.push(vec![Val::ws(ws), Val::Id(Some(id))]));
        rows
    }

    pub fn push(&mut self, row: Vec<Val<'_>>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a value for each column");
        self.columns.iter_mut().zip(&row).for_each(|(column, value)| column.push(value));
        self.count += 1;
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn params(self) -> Vec<Param> {
        self.columns.into_iter().map(Column::param).collect()
    }

    pub fn statement(self, sql: impl Into<Arc<str>>) -> Statement {
        Statement { sql: sql.into(), params: self.params(), inserts: None }
    }
}

/// A table that rows are written to by key.
pub struct Table {
    pub name: &'static str,
    /// The key comes first.
    pub columns: &'static [(&'static str, Kind)],
    pub key: usize,
}

impl Table {
    pub fn rows(&self) -> Rows {
        Rows::new(self.columns.iter().map(|(_, kind)| *kind))
    }

    pub fn keys(&self) -> Rows {
        Rows::new(self.columns[..self.key].iter().map(|(_, kind)| *kind))
    }

    /// `a, b, c`, each with a prefix.
    pub fn names(&self, prefix: &str) -> String {
        list(self.columns.iter().map(|(name, _)| format!("{prefix}{name}")))
    }

    fn key_names(&self) -> String {
        list(self.columns[..self.key].iter().map(|(name, _)| (*name).to_owned()))
    }

    fn key_equal(&self, left: &str, right: &str) -> String {
        let terms = self.columns[..self.key].iter().map(|(name, _)| format!("{left}.{name} = {right}.{name}"));
        terms.collect::<Vec<_>>().join(" AND ")
    }

    /// Rows that must not be there.
    pub fn insert(&self, rows: Rows) -> Statement {
        // Made once for each table: it is the statement that is sent most.
        static INSERTS: Mutex<BTreeMap<(&'static str, usize), Arc<str>>> = Mutex::new(BTreeMap::new());
        let make = || {
            format!("INSERT INTO {} ({}) SELECT * FROM {}", self.name, self.names(""), unnest(1, self.columns.len()))
        };
        let sql = INSERTS.lock().entry((self.name, self.columns.len())).or_insert_with(|| make().into()).clone();
        Statement { inserts: Some(self.name), ..rows.statement(sql) }
    }

    /// Rows that may be there, and are then replaced.
    pub fn put(&self, rows: Rows) -> Statement {
        let rest = &self.columns[self.key..];
        let sets = list(rest.iter().map(|(name, _)| format!("{name} = excluded.{name}")));
        let sql = format!(
            "INSERT INTO {} ({}) SELECT * FROM {} ON CONFLICT ({}) DO UPDATE SET {sets}",
            self.name,
            self.names(""),
            unnest(1, self.columns.len()),
            self.key_names()
        );
        rows.statement(sql)
    }

    /// Rows of a table that is all key: those that are there stay.
    pub fn add(&self, rows: Rows) -> Statement {
        let sql = format!(
            "INSERT INTO {} ({}) SELECT * FROM {} ON CONFLICT DO NOTHING",
            self.name,
            self.names(""),
            unnest(1, self.columns.len())
        );
        rows.statement(sql)
    }

    pub fn delete(&self, keys: Rows) -> Statement {
        let sql =
            format!("DELETE FROM {} t USING {} WHERE {}", self.name, self.named_keys(1), self.key_equal("t", "k"));
        keys.statement(sql)
    }

    /// Reads rows by key; with `lock` ("FOR UPDATE OF t") in order of the key.
    pub fn select(&self, keys: Rows, lock: &str) -> Statement {
        let order = list(self.columns[..self.key].iter().map(|(name, _)| format!("t.{name}")));
        let sql = format!(
            "SELECT {} FROM {} JOIN {} t ON {} ORDER BY {order} {lock}",
            self.names("t."),
            self.named_keys(1),
            self.name,
            self.key_equal("t", "k")
        );
        keys.statement(sql)
    }

    /// Fails the transaction if one of these keys has a row.
    pub fn must_be_absent(&self, keys: Rows, code: &str) -> Statement {
        let sql = format!(
            "SELECT must(NOT EXISTS (SELECT 1 FROM {} JOIN {} t ON {}), '{code}')",
            self.named_keys(1),
            self.name,
            self.key_equal("t", "k")
        );
        keys.statement(sql)
    }

    /// The keys given as `k(…)`.
    pub fn named_keys(&self, from: usize) -> String {
        format!("{} AS k ({})", unnest(from, self.key), self.key_names())
    }
}

/// `unnest($1, $2, …)`.
pub fn unnest(from: usize, count: usize) -> String {
    format!("unnest({})", list((from..from + count).map(|n| format!("${n}"))))
}

pub fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Typed columns of a row, by position. What does not decode is damage.
pub trait Columns {
    fn text(&self, at: usize) -> Result<String, Error>;
    fn text_opt(&self, at: usize) -> Result<Option<String>, Error>;
    fn ws(&self, at: usize) -> Result<WorkspaceId, Error>;
    fn bytes(&self, at: usize) -> Result<Vec<u8>, Error>;
    fn bytes_opt(&self, at: usize) -> Result<Option<Vec<u8>>, Error>;
    fn hash(&self, at: usize) -> Result<Hash16, Error>;
    fn hash_opt(&self, at: usize) -> Result<Option<Hash16>, Error>;
    fn run(&self, at: usize) -> Result<RunId, Error>;
    fn run_opt(&self, at: usize) -> Result<Option<RunId>, Error>;
    fn fingerprint(&self, at: usize) -> Result<Fingerprint, Error>;
    fn int(&self, at: usize) -> Result<i64, Error>;
    fn int_opt(&self, at: usize) -> Result<Option<i64>, Error>;
    fn number<T: TryFrom<i64>>(&self, at: usize) -> Result<T, Error>;
    fn millis(&self, at: usize) -> Result<Millis, Error>;
    fn millis_opt(&self, at: usize) -> Result<Option<Millis>, Error>;
    fn yes(&self, at: usize) -> Result<bool, Error>;
    fn word<T: DeserializeOwned>(&self, at: usize) -> Result<T, Error>;
    fn word_opt<T: DeserializeOwned>(&self, at: usize) -> Result<Option<T>, Error>;
    fn json<T: DeserializeOwned>(&self, at: usize) -> Result<T, Error>;
    fn json_opt(&self, at: usize) -> Result<Option<Json>, Error>;
}

fn get<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, Error> {
    row.try_get(at).map_err(|e| Error::Damaged(Damaged(e.to_string())))
}

impl Columns for Row {
    fn text(&self, at: usize) -> Result<String, Error> {
        Ok(unescaped(get(self, at)?))
    }
    fn text_opt(&self, at: usize) -> Result<Option<String>, Error> {
        Ok(get::<Option<String>>(self, at)?.map(unescaped))
    }
    fn ws(&self, at: usize) -> Result<WorkspaceId, Error> {
        Ok(WorkspaceId(self.text(at)?))
    }
    fn bytes(&self, at: usize) -> Result<Vec<u8>, Error> {
        get(self, at)
    }
    fn bytes_opt(&self, at: usize) -> Result<Option<Vec<u8>>, Error> {
        get(self, at)
    }
    fn hash(&self, at: usize) -> Result<Hash16, Error> {
        Ok(Hash16(get::<Uuid>(self, at)?.into_bytes()))
    }
    fn hash_opt(&self, at: usize) -> Result<Option<Hash16>, Error> {
        Ok(get::<Option<Uuid>>(self, at)?.map(|id| Hash16(id.into_bytes())))
    }
    fn run(&self, at: usize) -> Result<RunId, Error> {
        Ok(RunId(get(self, at)?))
    }
    fn run_opt(&self, at: usize) -> Result<Option<RunId>, Error> {
        Ok(get::<Option<Uuid>>(self, at)?.map(RunId))
    }
    fn fingerprint(&self, at: usize) -> Result<Fingerprint, Error> {
        let bytes: &[u8] = get(self, at)?;
        let whole = bytes.try_into().map_err(|_| Damaged("a fingerprint has the wrong length".into()))?;
        Ok(Fingerprint(whole))
    }
    fn int(&self, at: usize) -> Result<i64, Error> {
        get(self, at)
    }
    fn int_opt(&self, at: usize) -> Result<Option<i64>, Error> {
        get(self, at)
    }
    fn number<T: TryFrom<i64>>(&self, at: usize) -> Result<T, Error> {
        let stored = self.int(at)?;
        T::try_from(stored).map_err(|_| Damaged(format!("the number {stored} is out of range")).into())
    }
    fn millis(&self, at: usize) -> Result<Millis, Error> {
        Ok(Millis(self.int(at)?))
    }
    fn millis_opt(&self, at: usize) -> Result<Option<Millis>, Error> {
        Ok(self.int_opt(at)?.map(Millis))
    }
    fn yes(&self, at: usize) -> Result<bool, Error> {
        get(self, at)
    }
    fn word<T: DeserializeOwned>(&self, at: usize) -> Result<T, Error> {
        Ok(codec::parse_word(get(self, at)?)?)
    }
    fn word_opt<T: DeserializeOwned>(&self, at: usize) -> Result<Option<T>, Error> {
        let text: Option<&str> = get(self, at)?;
        Ok(text.map(codec::parse_word).transpose()?)
    }
    fn json<T: DeserializeOwned>(&self, at: usize) -> Result<T, Error> {
        Ok(codec::parse_json(get(self, at)?)?)
    }
    fn json_opt(&self, at: usize) -> Result<Option<Json>, Error> {
        let text: Option<&str> = get(self, at)?;
        Ok(text.map(codec::parse_json).transpose()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives() {
        for text in ["", "plain", "\0", "a\0b\u{1a}c", "\u{1a}0", "\u{1a}1\0", "\u{1a}\u{1a}10"] {
            let stored = escaped(text).into_owned();
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(unescaped(stored), text);
        }
    }
}
