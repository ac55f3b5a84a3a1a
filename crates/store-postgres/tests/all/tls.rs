//! Servers that encrypt, and those who pretend to be them.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use semel_store::{Store, check};
use semel_store_postgres::testing::Server;
use semel_store_postgres::{OpenError, Options, PostgresStore};
use std::path::PathBuf;
use tempfile::TempDir;

use crate::workers::{admit, event, id, put_flow};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("root.crt"), issuer.pem()).unwrap();
        Authority { issuer, directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("root.crt")
    }

    /// A server with a certificate for this name.
    fn server(&self, name: &str) -> Server {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Server::start_with_certificate(&certificate.pem(), &key.serialize_pem())
    }
}

/// Opens a store, and says how many of its connections are encrypted and how many are not.
fn open(server: &Server, host: &str, options: &str) -> Result<(i64, i64), OpenError> {
    let (schema, port) = (server.schema(), server.port());
    let address = format!("postgres://semel@{host}:{port}/postgres?application_name={schema}&{options}");
    let store = PostgresStore::open(&address, Options { schema: schema.clone(), ..Options::default() })?;
    put_flow(&*store);
    assert!(admit(&*store, event("k", id(0, 1), None)).created);
    assert!(check::check(&*store, &check::Options::default()).unwrap().is_clean());
    let count = |ssl: bool| {
        server.number(&format!(
            "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{schema}' AND ssl = {ssl}"
        ))
    };
    let counted = (count(true), count(false));
    store.close();
    Ok(counted)
}

fn refused(server: &Server, host: &str, options: &str) -> String {
    match open(server, host, options) {
        Ok(counted) => panic!("{options} was let in: {counted:?}"),
        Err(error) => {
            assert_eq!(error.code(), "store_away", "{error}");
            error.to_string()
        }
    }
}

fn all_are_encrypted(server: &Server, host: &str, options: &str) {
    let (encrypted, plain) = open(server, host, options).unwrap_or_else(|error| panic!("{options}: {error}"));
    assert!(encrypted >= 2 && plain == 0, "{options}: {encrypted} encrypted, {plain} not");
}

#[test]
fn what_each_mode_asks_for() {
    let authority = Authority::new("ours");
    let root = format!("sslrootcert={}", authority.file().display());
    let server = authority.server("localhost");
    let (encrypted, plain) = open(&server, "localhost", "sslmode=disable").unwrap();
    assert!(encrypted == 0 && plain >= 2);
    for options in ["", "sslmode=prefer", "sslmode=require"] {
        all_are_encrypted(&server, "localhost", options);
    }
    all_are_encrypted(&server, "localhost", &format!("sslmode=verify-full&{root}"));
    // The certificate names the host, not its number.
    all_are_encrypted(&server, "127.0.0.1", &format!("sslmode=verify-ca&{root}"));
    let why = refused(&server, "127.0.0.1", &format!("sslmode=verify-full&{root}"));
    assert!(why.contains("does not name the host of the address"), "{why}");
}

#[test]
fn a_server_of_another_name_or_authority_is_refused() {
    let ours = Authority::new("ours");
    let root = format!("sslrootcert={}", ours.file().display());
    // One who signs under our name, too.
    for name in ["theirs", "ours"] {
        let server = Authority::new(name).server("localhost");
        for mode in ["require", "verify-ca", "verify-full"] {
            let why = refused(&server, "localhost", &format!("sslmode={mode}&{root}"));
            assert!(why.contains("signed by nobody who is known here"), "{name}, {mode}: {why}");
        }
    }
    let server = ours.server("db.example");
    let why = refused(&server, "localhost", &format!("sslmode=verify-full&{root}"));
    assert!(why.contains("does not name the host of the address"), "{why}");
    all_are_encrypted(&server, "localhost", &format!("sslmode=verify-ca&{root}"));
}

#[test]
fn a_server_that_cannot_encrypt_is_only_used_if_that_is_allowed() {
    let server = Server::start();
    let why = refused(&server, "localhost", "sslmode=require");
    assert!(why.contains("does not support TLS"), "{why}");
    let (encrypted, plain) = open(&server, "localhost", "sslmode=prefer").unwrap();
    assert!(encrypted == 0 && plain >= 2);
}
