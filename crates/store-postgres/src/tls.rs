//! The protection of a connection to the database, by the words of PostgreSQL's own programs.
//!
//! | `sslmode` | encrypted | the certificate |
//! |---|---|---|
//! | `disable` | no | |
//! | `prefer`, the default | if the server can | is not looked at |
//! | `require` | yes | is not looked at; with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | yes | must be signed by a known authority |
//! | `verify-full` | yes | and name the host of the address |
//!
//! Authorities are those in the file `sslrootcert`, or else those that the machine knows (`sslrootcert=system`).

use crate::address::Address;
use crate::classify::{Error, described};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::config::{Host, SslNegotiation};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Names the authorities of the machine where a file is expected.
const SYSTEM: &str = "system";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    pub fn parse(word: Option<&str>, has_roots: bool) -> Result<Mode, String> {
        match word {
            None | Some("prefer") => Ok(Mode::Prefer),
            Some("disable") => Ok(Mode::Disable),
            // Who names an authority wants it to be asked.
            Some("require") if has_roots => Ok(Mode::VerifyCa),
            Some("require") => Ok(Mode::Require),
            Some("verify-ca") => Ok(Mode::VerifyCa),
            Some("verify-full") => Ok(Mode::VerifyFull),
            Some(other) => {
                Err(format!("sslmode is `{other}`; it can be disable, prefer, require, verify-ca or verify-full"))
            }
        }
    }
}

#[derive(Clone)]
pub struct Tls {
    connector: MakeRustlsConnect,
    /// Somebody on the way could read a password.
    is_exposed: bool,
    has_warned: Arc<AtomicBool>,
}

impl Tls {
    pub fn new(mode: Mode, roots: Option<&str>, config: &Config) -> Result<Tls, String> {
        let mut client = client_config(mode, roots)?;
        if config.get_ssl_negotiation() == SslNegotiation::Direct {
            client.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        let is_exposed = config.get_password().is_some() && config.get_hosts().iter().any(is_elsewhere);
        Ok(Tls { connector: MakeRustlsConnect::new(client), is_exposed, has_warned: Arc::default() })
    }
}

fn is_elsewhere(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name != "localhost" && !name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
        Host::Unix(_) => false,
    }
}

fn client_config(mode: Mode, roots: Option<&str>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        Mode::Disable | Mode::Prefer | Mode::Require => Arc::new(Chain { roots: None, provider: provider.clone() }),
        Mode::VerifyCa => Arc::new(Chain { roots: Some(authorities(roots)?), provider: provider.clone() }),
        Mode::VerifyFull => {
            let verifier = WebPkiServerVerifier::builder_with_provider(authorities(roots)?, provider.clone());
            verifier.build().map_err(|error| format!("sslrootcert: {error}"))?
        }
    };
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("TLS: {error}"))?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn authorities(path: Option<&str>) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    match path.filter(|path| *path != SYSTEM) {
        Some(path) => {
            let about = |why: String| format!("sslrootcert {path}: {why}");
            let found = CertificateDer::pem_file_iter(path).map_err(|error| about(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| about(error.to_string()))?;
                roots.add(certificate).map_err(|error| about(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(about("there is no certificate in it".into()));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err("this machine knows no authorities: name a file with sslrootcert".into());
            }
        }
    }
    Ok(Arc::new(roots))
}

/// Looks at who signed the certificate, if that is wanted, and never at its name. That the server has the key of its
/// certificate is proven in any case.
#[derive(Debug)]
struct Chain {
    roots: Option<Arc<RootCertStore>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Chain {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let certificate = ParsedCertificate::try_from(certificate)?;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, between, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

pub type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

impl Address {
    /// A connection, and its wire, which must be polled for it to do anything.
    pub async fn connect(&self) -> Result<(Client, Wire), Error> {
        let is_used = Arc::new(AtomicBool::new(false));
        let watched = Watched { inner: self.tls.connector.clone(), is_used: is_used.clone() };
        // Nothing was asked yet, so nothing is unknown; who is told what decides the text.
        let connected = self.config.connect(watched).await.map_err(|error| Error::Lost(told(&error)))?;
        let is_plain = !is_used.load(Ordering::Relaxed);
        if self.tls.is_exposed && is_plain && !self.tls.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the connection to the database is not encrypted: its password and all that is stored can be read on the \
                 way; sslmode=verify-full in the address of the store protects it"
            );
        }
        Ok(connected)
    }
}

/// The library does not tell whether a connection is encrypted.
struct Watched<T> {
    inner: T,
    is_used: Arc<AtomicBool>,
}

impl<S, T: MakeTlsConnect<S>> MakeTlsConnect<S> for Watched<T> {
    type Stream = T::Stream;
    type TlsConnect = Watched<T::TlsConnect>;
    type Error = T::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, Self::Error> {
        Ok(Watched { inner: self.inner.make_tls_connect(domain)?, is_used: self.is_used.clone() })
    }
}

impl<S, T: TlsConnect<S>> TlsConnect<S> for Watched<T> {
    type Stream = T::Stream;
    type Error = T::Error;
    type Future = T::Future;

    fn connect(self, stream: S) -> Self::Future {
        self.is_used.store(true, Ordering::Relaxed);
        self.inner.connect(stream)
    }
}

/// What is wrong with a certificate is said in words that name the setting.
fn told(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    let cause = source.and_then(|source| source.get_ref()).and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(why)) = cause else { return described(error) };
    let why = match why {
        // Somebody of the same name is not the one who is known.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "it is signed by nobody who is known here: name the authority with sslrootcert".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it does not name the host of the address ({why})")
        }
        other => other.to_string(),
    };
    format!("the certificate of the database is not accepted: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(Mode::parse(None, false), Ok(Mode::Prefer));
        assert_eq!(Mode::parse(Some("require"), false), Ok(Mode::Require));
        assert_eq!(Mode::parse(Some("require"), true), Ok(Mode::VerifyCa));
        assert!(Mode::parse(Some("allow"), false).is_err());
    }

    #[test]
    fn passwords_that_others_could_read() {
        let is_exposed = |text: &str| Tls::new(Mode::Prefer, None, &text.parse().unwrap()).unwrap().is_exposed;
        assert!(is_exposed("postgres://ada:pw@db.example/x") && is_exposed("postgres://ada:pw@10.0.0.1/x"));
        assert!(!is_exposed("postgres://ada@db.example/x"));
        for near in ["localhost", "127.0.0.1", "[::1]", "%2Frun"] {
            assert!(!is_exposed(&format!("postgres://ada:pw@{near}/x")), "{near}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let why = authorities(file.path().to_str()).unwrap_err();
        assert!(why.contains("no certificate"), "{why}");
    }
}
