//! The address of a database: what PostgreSQL's own programs take, and `schema`.
//!
//! The library knows no certificates and refuses names that it does not know, so these are taken out first:
//!
//! | in the address | means |
//! |---|---|
//! | `sslmode`, `sslrootcert` | how the connection is protected: see [`crate::tls`] |
//! | `schema` | the schema that holds the tables, instead of `semel` |
//!
//! An address with several hosts is one of a primary and its standbys: only the one that takes writes is used.

use crate::classify::described;
use crate::open::OpenError;
use crate::tls::{Mode, Tls};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

#[derive(Clone)]
pub struct Address {
    pub config: Config,
    pub tls: Tls,
    pub schema: Option<String>,
}

/// What is not for the library.
#[derive(Debug, Default, PartialEq, Eq)]
struct Own {
    mode: Option<String>,
    roots: Option<String>,
    schema: Option<String>,
}

impl Address {
    pub fn parse(text: &str) -> Result<Address, OpenError> {
        let (rest, own) = split(text)?;
        let mut config: Config = rest.parse().map_err(|error| OpenError::Address(described(&error)))?;
        if config.get_application_name().is_none() {
            config.application_name("semel");
        }
        let is_any = config.get_target_session_attrs() == TargetSessionAttrs::Any;
        if config.get_hosts().len() > 1 && is_any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let mode = Mode::parse(own.mode.as_deref(), own.roots.is_some()).map_err(OpenError::Address)?;
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        let tls = Tls::new(mode, own.roots.as_deref(), &config).map_err(OpenError::Address)?;
        Ok(Address { config, tls, schema: own.schema })
    }
}

/// The address without what is ours. A password may hold a `?`, as the library has it: options come after the host.
fn split(text: &str) -> Result<(String, Own), OpenError> {
    let host = text.find('@').map_or(0, |at| at + 1);
    let Some(at) = text[host..].find('?').map(|at| host + at) else { return Ok((text.to_owned(), Own::default())) };
    let mut own = Own::default();
    let mut left = Vec::new();
    for option in text[at + 1..].split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let place = match name {
            "sslmode" => &mut own.mode,
            "sslrootcert" => &mut own.roots,
            "schema" => &mut own.schema,
            _ => {
                left.push(option);
                continue;
            }
        };
        let value = percent_decode_str(value).decode_utf8().map(Cow::into_owned);
        *place = Some(value.map_err(|_| OpenError::Address(format!("{name} is not text")))?);
    }
    let sign = if left.is_empty() { "" } else { "?" };
    Ok((format!("{}{sign}{}", &text[..at], left.join("&")), own))
}

/// The same address with another schema, for programs that make one of their own.
pub fn with_schema(text: &str, schema: &str) -> String {
    let sign = if text[text.find('@').unwrap_or(0)..].contains('?') { '&' } else { '?' };
    format!("{text}{sign}schema={schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Option<&'static str> {
        Address::parse(text).err().map(|error| error.code())
    }

    #[test]
    fn what_is_ours_is_taken_out() {
        let text = "postgres://a:b?c@h/db?sslmode=require&connect_timeout=3&schema=x&sslrootcert=%2Fa%20b";
        let (rest, own) = split(text).unwrap();
        let expected = Own { mode: Some("require".into()), roots: Some("/a b".into()), schema: Some("x".into()) };
        assert_eq!((rest.as_str(), own), ("postgres://a:b?c@h/db?connect_timeout=3", expected));
        let (rest, own) = split("postgres://h/db?sslmode=disable").unwrap();
        assert_eq!((rest.as_str(), own.mode.as_deref()), ("postgres://h/db", Some("disable")));
        assert_eq!(split("postgres://h/db").unwrap(), ("postgres://h/db".to_owned(), Own::default()));
        // The last one counts, as everywhere.
        let address = with_schema("postgres://ada@db.example/orders?sslmode=disable&schema=mine", "bench");
        assert_eq!(Address::parse(&address).unwrap().schema.as_deref(), Some("bench"));
        assert_eq!(with_schema("postgres://a?b@h/db", "x"), "postgres://a?b@h/db?schema=x");
    }

    #[test]
    fn addresses() {
        let address = Address::parse("postgres://ada@db.example/orders").unwrap();
        assert_eq!(address.config.get_application_name(), Some("semel"));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Prefer);
        assert_eq!(code("postgres://ada@db.example/x?nothing=1"), Some("store_address"));
        assert_eq!(code("postgres://ada@db.example/x?sslmode=allow"), Some("store_address"));
        assert_eq!(
            code("postgres://ada@db.example/x?sslmode=verify-full&sslrootcert=/not/there"),
            Some("store_address")
        );
        assert_eq!(code("postgres://ada@db.example/x?sslrootcert=%ff"), Some("store_address"));
    }

    #[test]
    fn of_several_hosts_the_one_that_takes_writes_is_used() {
        let attributes = |text: &str| Address::parse(text).unwrap().config.get_target_session_attrs();
        assert_eq!(attributes("postgres://a,b/db"), TargetSessionAttrs::ReadWrite);
        assert_eq!(attributes("postgres://a/db"), TargetSessionAttrs::Any);
        assert_eq!(attributes("postgres://a,b/db?target_session_attrs=read-only"), TargetSessionAttrs::ReadOnly);
    }
}
