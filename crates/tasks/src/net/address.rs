//! Which addresses a flow may reach.
//!
//! | class | examples | `Allow` | `Deny` |
//! |---|---|---|---|
//! | never | link-local, cloud metadata, multicast, unspecified, broadcast | refused | refused |
//! | local | loopback, private, CGNAT, unique local, documentation, benchmarking, reserved | reached | refused unless allow-listed |
//! | global | everything else | reached | reached |
//!
//! An IPv6 address that carries an IPv4 one (mapped, compatible, NAT64, 6to4, Teredo) is as bad as
//! what it carries, and at best local: a translator on the way may turn it into the IPv4 address.

use super::PrivatePolicy;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    Global,
    Local,
    Never,
}

/// Instance metadata and host agents of the large clouds, wherever they sit.
const METADATA_V4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Local IPv4 networks: (network, bits).
const LOCAL_V4: [(Ipv4Addr, u32); 13] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
];

/// Parts of 2000::/3 that are not global.
const LOCAL_V6: [(Ipv6Addr, u32); 3] = [
    // Protocol assignments: Teredo, benchmarking, ORCHID.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// May this address be reached under this policy, exceptions apart?
pub fn permitted(address: IpAddr, policy: PrivatePolicy) -> bool {
    match (reach(address), policy) {
        (Reach::Never, _) | (Reach::Local, PrivatePolicy::Deny) => false,
        (Reach::Global, _) | (Reach::Local, PrivatePolicy::Allow) => true,
    }
}

pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let never = METADATA_V4.contains(&address)
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        // All of 0.0.0.0/8 means this host on this network.
        || address.octets()[0] == 0;
    if never {
        return Reach::Never;
    }
    let local = LOCAL_V4.iter().any(|(network, bits)| contains(IpAddr::V4(*network), *bits, IpAddr::V4(address)));
    if local { Reach::Local } else { Reach::Global }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let link_local = contains(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10, IpAddr::V6(address));
    if METADATA_V6.contains(&address) || link_local || address.is_multicast() || address.is_unspecified() {
        return Reach::Never;
    }
    if let Some(carried) = carried_v4(address) {
        return reach_v4(carried).max(Reach::Local);
    }
    let unicast = address.segments()[0] & 0xe000 == 0x2000;
    let local = LOCAL_V6.iter().any(|(network, bits)| contains(IpAddr::V6(*network), *bits, IpAddr::V6(address)));
    if unicast && !local { Reach::Global } else { Reach::Local }
}

/// The IPv4 address that an IPv6 one stands for, if any.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let low = || v4_of(s[6], s[7]);
    match s {
        // ::1 has the shape of a compatible address but is loopback.
        [0, 0, 0, 0, 0, 0, 0, 1] => None,
        // Compatible ::a.b.c.d, mapped ::ffff:a.b.c.d, translated ::ffff:0:a.b.c.d.
        [0, 0, 0, 0, 0, 0, _, _] | [0, 0, 0, 0, 0, 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] => Some(low()),
        // NAT64, well-known and local-use prefix.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, 1, _, _, _, _, _] => Some(low()),
        // 6to4.
        [0x2002, high, lower, _, _, _, _, _] => Some(v4_of(high, lower)),
        // Teredo hides the client's address inverted.
        [0x2001, 0, _, _, _, _, high, lower] => Some(v4_of(!high, !lower)),
        _ => None,
    }
}

fn v4_of(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

/// Is `address` inside `network/bits`? Families never match each other.
pub(super) fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let shift = 32u32.saturating_sub(bits);
            (u32::from(network) ^ u32::from(address)).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let shift = 128u32.saturating_sub(bits);
            (u128::from(network) ^ u128::from(address)).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}
