//! The operator's exceptions to the refusal of private addresses.

use super::{NetError, address};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Network { network: IpAddr, bits: u32 },
    Address { address: IpAddr, port: Option<u16> },
    Host { host: String, port: Option<u16> },
}

#[derive(Clone, Debug, Default)]
pub struct AllowList(Vec<Entry>);

impl AllowList {
    pub fn parse(entries: &[String]) -> Result<AllowList, NetError> {
        let parsed = entries.iter().map(|text| parse(text.trim()).ok_or_else(|| NetError::BadAllowEntry(text.clone())));
        parsed.collect::<Result<Vec<_>, _>>().map(AllowList)
    }

    /// Is the host as the URL writes it excepted, wherever it resolves to?
    pub fn names_host(&self, host: &str, port: u16) -> bool {
        let host = plain_host(host);
        self.0.iter().any(|entry| match entry {
            Entry::Host { host: named, port: only } => *named == host && only.is_none_or(|only| only == port),
            Entry::Address { .. } | Entry::Network { .. } => false,
        })
    }

    /// Is the address excepted? `port: None` when a name was resolved and the port is not known
    /// here: an entry with a port then does not apply.
    pub fn names_address(&self, candidate: IpAddr, port: Option<u16>) -> bool {
        let canonical = candidate.to_canonical();
        self.0.iter().any(|entry| match entry {
            Entry::Network { network, bits } => {
                address::contains(*network, *bits, candidate) || address::contains(*network, *bits, canonical)
            }
            Entry::Address { address, port: only } => *address == canonical && (only.is_none() || *only == port),
            Entry::Host { .. } => false,
        })
    }
}

fn parse(text: &str) -> Option<Entry> {
    if let Some((network, bits)) = text.split_once('/') {
        let network: IpAddr = network.parse().ok()?;
        let bits_max = if network.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= bits_max)?;
        return Some(Entry::Network { network, bits });
    }
    if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Some(Entry::Address { address: address.to_canonical(), port: None });
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(Entry::Address { address: socket.ip().to_canonical(), port: Some(socket.port()) });
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let host = plain_host(host);
    (!host.is_empty() && host.chars().all(letters)).then_some(Entry::Host { host, port })
}

fn plain_host(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowList {
        AllowList::parse(&entries.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>()).expect("valid entries")
    }

    #[test]
    fn each_form_names_what_it_says() {
        let allow = list(&[
            "db.internal",
            "Cache.internal.:6379",
            "10.1.0.0/16",
            "192.168.1.7",
            "127.0.0.1:8080",
            "[::1]:9000",
            "fd12::/32",
        ]);
        assert!(allow.names_host("DB.internal.", 1) && allow.names_host("cache.internal", 6379));
        assert!(!allow.names_host("cache.internal", 80) && !allow.names_host("xdb.internal", 1));
        let at = |text: &str, port| allow.names_address(text.parse().expect("address"), port);
        assert!(
            at("10.1.2.3", None)
                && at("192.168.1.7", None)
                && at("127.0.0.1", Some(8080))
                && at("::1", Some(9000))
                && at("fd12::9", None)
        );
        assert!(at("::ffff:10.1.2.3", None));
        assert!(!at("10.2.0.1", None) && !at("127.0.0.1", Some(80)) && !at("127.0.0.1", None) && !at("fd13::9", None));
    }

    #[test]
    fn nonsense_is_refused_at_the_start() {
        for text in ["", "10.0.0.0/33", "::/129", "a b", "host:port", "host:70000", "http://x", "/8", "x/8"] {
            assert!(AllowList::parse(&[text.to_owned()]).is_err(), "{text}");
        }
        assert!(list(&["0.0.0.0/0"]).names_address("8.8.8.8".parse().expect("address"), None));
    }
}
