//! Spellings of addresses and what becomes of them under both policies.

use super::address::{Reach, permitted, reach};
use super::guard::{Guard, Refusal};
use super::{NetConfig, PrivatePolicy};
use proptest::prelude::*;
use std::net::IpAddr;

/// Authorities that are literal addresses, in every spelling the URL standard folds.
const LITERALS: &[(&str, Reach)] = &[
    // Loopback, in all its costumes.
    ("127.0.0.1", Reach::Local),
    ("127.1", Reach::Local),
    ("127.0.1", Reach::Local),
    ("127.255.255.254", Reach::Local),
    ("2130706433", Reach::Local),
    ("0x7f000001", Reach::Local),
    ("0X7F000001", Reach::Local),
    ("0x7f.0.0.1", Reach::Local),
    ("0x7f.1", Reach::Local),
    ("0177.0.0.1", Reach::Local),
    ("0177.0.0.01", Reach::Local),
    ("017700000001", Reach::Local),
    ("127.0.0.1.", Reach::Local),
    ("127.0.0.1:8080", Reach::Local),
    ("１２７.0.0.1", Reach::Local),
    ("127。0。0。1", Reach::Local),
    ("①②⑦.0.0.1", Reach::Local),
    ("%31%32%37.0.0.1", Reach::Local),
    ("[::1]", Reach::Local),
    ("[0:0:0:0:0:0:0:1]", Reach::Local),
    ("[0000:0000:0000:0000:0000:0000:0000:0001]", Reach::Local),
    ("[::1]:8080", Reach::Local),
    ("[::ffff:127.0.0.1]", Reach::Local),
    ("[::ffff:7f00:1]", Reach::Local),
    ("[::FFFF:127.0.0.1]", Reach::Local),
    ("[::127.0.0.1]", Reach::Local),
    ("[64:ff9b::127.0.0.1]", Reach::Local),
    ("[64:ff9b::7f00:1]", Reach::Local),
    ("[2002:7f00:1::]", Reach::Local),
    ("[::ffff:0:127.0.0.1]", Reach::Local),
    // Private and shared.
    ("10.0.0.1", Reach::Local),
    ("10.255.255.255", Reach::Local),
    ("012.0.0.1", Reach::Local),
    ("0xa.0.0.1", Reach::Local),
    ("167772161", Reach::Local),
    ("172.16.0.1", Reach::Local),
    ("172.31.255.255", Reach::Local),
    ("192.168.0.1", Reach::Local),
    ("192.168.257", Reach::Local),
    ("0xc0a80001", Reach::Local),
    ("3232235521", Reach::Local),
    ("100.64.0.1", Reach::Local),
    ("100.127.255.255", Reach::Local),
    ("[fc00::1]", Reach::Local),
    ("[fd12:3456:789a::1]", Reach::Local),
    ("[FD12:3456:789A::1]", Reach::Local),
    ("[fec0::1]", Reach::Local),
    ("[::ffff:10.0.0.1]", Reach::Local),
    ("[64:ff9b::10.0.0.1]", Reach::Local),
    ("[64:ff9b:1::10.0.0.1]", Reach::Local),
    ("[2002:a00:1::]", Reach::Local),
    // Documentation, benchmarking, reserved, protocol assignments.
    ("192.0.2.1", Reach::Local),
    ("198.51.100.7", Reach::Local),
    ("203.0.113.9", Reach::Local),
    ("198.18.0.1", Reach::Local),
    ("198.19.255.255", Reach::Local),
    ("192.0.0.8", Reach::Local),
    ("192.88.99.1", Reach::Local),
    ("240.0.0.1", Reach::Local),
    ("255.255.255.254", Reach::Local),
    ("[2001:db8::1]", Reach::Local),
    ("[3fff::1]", Reach::Local),
    ("[2001:2::1]", Reach::Local),
    ("[2001:10::1]", Reach::Local),
    ("[100::1]", Reach::Local),
    // A carrier of a global address is still not a global address.
    ("[::ffff:8.8.8.8]", Reach::Local),
    ("[::8.8.8.8]", Reach::Local),
    ("[64:ff9b::8.8.8.8]", Reach::Local),
    ("[2002:808:808::1]", Reach::Local),
    ("[2001:0:4136:e378:8000:63bf:f7f7:f7f7]", Reach::Local),
    // Never, whatever the policy and the list say.
    ("169.254.169.254", Reach::Never),
    ("169.254.0.1", Reach::Never),
    ("2852039166", Reach::Never),
    ("0xa9fea9fe", Reach::Never),
    ("0xA9.0xFE.0xA9.0xFE", Reach::Never),
    ("0251.0376.0251.0376", Reach::Never),
    ("169.254.43518", Reach::Never),
    ("169.16689662", Reach::Never),
    ("169.254.169.254.", Reach::Never),
    ("１６９.254.169.254", Reach::Never),
    ("[::ffff:169.254.169.254]", Reach::Never),
    ("[::ffff:a9fe:a9fe]", Reach::Never),
    ("[::169.254.169.254]", Reach::Never),
    ("[64:ff9b::169.254.169.254]", Reach::Never),
    ("[64:ff9b:1::169.254.169.254]", Reach::Never),
    ("[2002:a9fe:a9fe::]", Reach::Never),
    ("[2001:0:1:2:3:4:5601:5601]", Reach::Never),
    ("[fe80::1]", Reach::Never),
    ("[febf::1]", Reach::Never),
    ("[fd00:ec2::254]", Reach::Never),
    ("[FD00:0EC2:0:0:0:0:0:0254]", Reach::Never),
    ("[fd20:ce::254]", Reach::Never),
    ("100.100.100.200", Reach::Never),
    ("1684301000", Reach::Never),
    ("[::ffff:100.100.100.200]", Reach::Never),
    ("168.63.129.16", Reach::Never),
    ("192.0.0.192", Reach::Never),
    ("0.0.0.0", Reach::Never),
    ("0", Reach::Never),
    ("0x0", Reach::Never),
    ("0.1.2.3", Reach::Never),
    ("[::]", Reach::Never),
    ("[::ffff:0.0.0.0]", Reach::Never),
    ("255.255.255.255", Reach::Never),
    ("4294967295", Reach::Never),
    ("224.0.0.1", Reach::Never),
    ("239.255.255.250", Reach::Never),
    ("[ff02::1]", Reach::Never),
    ("[ff0e::1]", Reach::Never),
    // Global, with their local neighbours just beside them above.
    ("8.8.8.8", Reach::Global),
    ("134744072", Reach::Global),
    ("1.1.1.1", Reach::Global),
    ("9.255.255.255", Reach::Global),
    ("11.0.0.0", Reach::Global),
    ("100.63.255.255", Reach::Global),
    ("100.128.0.0", Reach::Global),
    ("126.255.255.255", Reach::Global),
    ("128.0.0.1", Reach::Global),
    ("169.253.255.255", Reach::Global),
    ("169.255.0.1", Reach::Global),
    ("172.15.255.255", Reach::Global),
    ("172.32.0.0", Reach::Global),
    ("192.167.255.255", Reach::Global),
    ("198.17.255.255", Reach::Global),
    ("198.20.0.0", Reach::Global),
    ("223.255.255.255", Reach::Global),
    ("[2606:4700::1111]", Reach::Global),
    ("[2a00:1450:4001::1]", Reach::Global),
    ("[2001:200::1]", Reach::Global),
];

fn guard(policy: PrivatePolicy, allow: &[&str]) -> Guard {
    let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
    Guard::new(&NetConfig { private: policy, allow, ..NetConfig::default() }).expect("a valid list")
}

#[test]
fn every_spelling_is_judged_by_what_it_means() {
    assert!(LITERALS.len() >= 80);
    let everything = ["0.0.0.0/0", "::/0"];
    for (authority, expected) in LITERALS {
        for scheme in ["http", "https", "HTTP"] {
            let uri = format!("{scheme}://{authority}/path?q=1");
            let passes = |guard: Guard| guard.check_url(&uri).is_ok();
            assert_eq!(passes(guard(PrivatePolicy::Allow, &[])), *expected != Reach::Never, "{uri} under allow");
            assert_eq!(passes(guard(PrivatePolicy::Deny, &[])), *expected == Reach::Global, "{uri} under deny");
            assert_eq!(
                passes(guard(PrivatePolicy::Deny, &everything)),
                *expected != Reach::Never,
                "{uri} with everything allowed"
            );
        }
    }
}

#[test]
fn urls_that_hide_their_host_are_refused_or_folded() {
    let guard = guard(PrivatePolicy::Deny, &[]);
    for (uri, refusal) in [
        ("", Refusal::NotAUrl),
        ("/relative", Refusal::NotAUrl),
        ("//127.0.0.1/", Refusal::NotAUrl),
        ("http://", Refusal::NotAUrl),
        ("http:///", Refusal::NotAUrl),
        ("http://[::1", Refusal::NotAUrl),
        ("http://[fe80::1%25eth0]/", Refusal::NotAUrl),
        ("http://1.2.3.4.5/", Refusal::NotAUrl),
        ("http://256.1.1.1/", Refusal::NotAUrl),
        ("http://0x100000000/", Refusal::NotAUrl),
        ("http://a b/", Refusal::NotAUrl),
        ("http://x:99999/", Refusal::NotAUrl),
        ("file:///etc/passwd", Refusal::Scheme),
        ("ftp://example.com/", Refusal::Scheme),
        ("gopher://example.com/", Refusal::Scheme),
        ("javascript:alert(1)", Refusal::Scheme),
        ("data:text/plain,x", Refusal::Scheme),
        ("unix:/var/run/docker.sock", Refusal::Scheme),
        ("http://user@example.com/", Refusal::UserInfo),
        ("http://user:pw@example.com/", Refusal::UserInfo),
        ("http://:pw@example.com/", Refusal::UserInfo),
        ("http://example.com@127.0.0.1/", Refusal::UserInfo),
        ("http://8.8.8.8@127.0.0.1:80/", Refusal::UserInfo),
    ] {
        assert_eq!(guard.check_url(uri).err(), Some(refusal), "{uri}");
    }
    for uri in [
        "http:\\\\127.0.0.1\\",
        "http:127.0.0.1",
        "http:/127.0.0.1/",
        " http://127.0.0.1/",
        "ht\ntp://127.0\n.0.1/",
        "http://127.0.0.1#@8.8.8.8/",
        "http://127.0.0.1\\@8.8.8.8/",
    ] {
        assert_eq!(guard.check_url(uri).err(), Some(Refusal::Address("127.0.0.1".to_owned())), "{uri:?}");
    }
}

#[test]
fn names_pass_here_and_are_checked_where_they_resolve() {
    let guard = guard(PrivatePolicy::Deny, &[]);
    for uri in [
        "http://localhost/",
        "http://LOCALHOST./",
        "https://bücher.example/",
        "https://xn--bcher-kva.example/",
        "http://127.0.0.1.nip.io/",
        "http://metadata.google.internal/",
    ] {
        assert!(guard.check_url(uri).is_ok(), "{uri}");
    }
}

#[test]
fn a_port_in_the_list_binds_a_literal_address() {
    let guard = guard(PrivatePolicy::Deny, &["127.0.0.1:8080", "[::1]:443"]);
    assert!(guard.check_url("http://127.0.0.1:8080/").is_ok() && guard.check_url("http://0x7f.1:8080/").is_ok());
    assert!(guard.check_url("https://[::1]/").is_ok());
    assert!(guard.check_url("http://127.0.0.1/").is_err() && guard.check_url("http://127.0.0.1:8081/").is_err());
    assert!(guard.check_url("http://[::1]/").is_err());
}

proptest! {
    #[test]
    fn any_text_is_judged_without_a_panic(text in ".{0,60}", host in "[0-9a-fxA-F.:\\[\\]%@]{0,40}") {
        for uri in [text.clone(), format!("http://{host}/{text}")] {
            for policy in [PrivatePolicy::Allow, PrivatePolicy::Deny] {
                if let Ok(url) = guard(policy, &[]).check_url(&uri) {
                    let literal = url.host_str().unwrap_or_default().trim_matches(['[', ']']).parse::<IpAddr>();
                    prop_assert!(literal.map_or(true, |ip| permitted(ip, policy)), "{uri} passed");
                }
            }
        }
    }

    #[test]
    fn what_carries_an_address_is_never_better_than_it(v4: u32, tail: u64) {
        let inner = std::net::Ipv4Addr::from(v4);
        let low = u128::from(v4);
        let carriers = [
            low, (0xffffu128 << 32) | low, (0x0064_ff9bu128 << 96) | low, (0x2002u128 << 112) | (low << 80) | u128::from(tail),
        ];
        for carrier in carriers.into_iter().filter(|carrier| *carrier != 1) {
            let outer = reach(IpAddr::V6(carrier.into()));
            prop_assert!(outer >= reach(IpAddr::V4(inner)) && outer != Reach::Global, "{:?}", std::net::Ipv6Addr::from(carrier));
        }
    }
}
