//! Checks on where a call goes: the URL before anything happens, and each address a name resolves
//! to right when the client is about to connect. There is no second look-up after the check.

use super::allow::AllowList;
use super::gate::CALL;
use super::{NetConfig, NetError, PrivatePolicy, address};
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use tower::BoxError;

pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where addresses come from; a port, so that tests can answer differently each time.
pub trait Lookup: Send + Sync {
    fn lookup(&self, host: &str) -> Looking;
}

/// The operating system's resolver.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> Looking {
        let target = (host.to_owned(), 0u16);
        Box::pin(async move { Ok(tokio::net::lookup_host(target).await?.map(|socket| socket.ip()).collect()) })
    }
}

/// Where this call may not go. It names the host, never the rest of the URL, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the uri is not an absolute URL")]
    NotAUrl,
    #[error("only http and https are allowed")]
    Scheme,
    #[error("a uri must not carry a user name or password; use options.auth")]
    UserInfo,
    #[error("outbound calls to {0} are refused: the address is not permitted here")]
    Address(String),
}

/// Which URLs and addresses the operator lets flows reach.
pub struct Guard {
    policy: PrivatePolicy,
    allow: AllowList,
}

impl Guard {
    pub fn new(config: &NetConfig) -> Result<Guard, NetError> {
        Ok(Guard { policy: config.private, allow: AllowList::parse(&config.allow)? })
    }

    /// Parses and checks a URL. The parser folds every spelling of a literal address (decimal,
    /// octal, hex, short, full-width) to the one form that is checked and connected to.
    pub fn check_url(&self, text: &str) -> Result<Url, Refusal> {
        let url = Url::parse(text.trim()).map_err(|_| Refusal::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::UserInfo);
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(Refusal::NotAUrl)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal {
            Ok(ip) if !self.admits(ip, url.port_or_known_default(), false) => Err(Refusal::Address(host.to_owned())),
            Ok(_) | Err(_) => Ok(url),
        }
    }

    pub fn names_host(&self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or(0);
        url.host_str().is_some_and(|host| self.allow.names_host(host, port))
    }

    /// Those of the addresses of a host that may be reached: one at least.
    fn admitted(
        &self,
        host: String,
        found: Vec<IpAddr>,
        port: Option<u16>,
        host_allowed: bool,
    ) -> Result<Vec<IpAddr>, BoxError> {
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")).into());
        }
        let checked: Vec<IpAddr> = found.into_iter().filter(|ip| self.admits(*ip, port, host_allowed)).collect();
        if checked.is_empty() { Err(Refusal::Address(host).into()) } else { Ok(checked) }
    }

    /// The addresses of a host and port that is not the one of a URL.
    #[cfg(feature = "kafka")]
    pub async fn addresses(&self, lookup: &dyn Lookup, host: &str, port: u16) -> Result<Vec<SocketAddr>, BoxError> {
        let found = lookup.lookup(host).await?;
        let checked = self.admitted(host.to_owned(), found, Some(port), self.allow.names_host(host, port))?;
        Ok(checked.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }

    fn admits(&self, ip: IpAddr, port: Option<u16>, host_allowed: bool) -> bool {
        let excepted = || host_allowed || self.allow.names_address(ip, port);
        match address::reach(ip) {
            address::Reach::Never => false,
            address::Reach::Global => true,
            address::Reach::Local => self.policy == PrivatePolicy::Allow || excepted(),
        }
    }
}

pub struct GuardedResolver {
    pub guard: Arc<Guard>,
    pub lookup: Arc<dyn Lookup>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.guard);
        // Outside a call's own task nothing is known about it: then no exception applies.
        let (host_allowed, port) = CALL.try_with(|call| (call.host_allowed, call.port)).unwrap_or((false, None));
        let host = name.as_str().to_owned();
        let looking = self.lookup.lookup(&host);
        Box::pin(async move {
            let checked = guard.admitted(host, looking.await?, port, host_allowed)?;
            Ok(Box::new(checked.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}
