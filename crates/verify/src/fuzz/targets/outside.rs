//! Where calls may go, and who sent a webhook.

use crate::fuzz::{Target, behaviour};
use semel_core::ir::SignatureScheme;
use semel_tasks::net::{Guard, Refusal, address};
use semel_tasks::{NetConfig, PrivatePolicy, signature};
use std::net::IpAddr;

pub const URL: Target = Target {
    name: "url_guard",
    words: &[
        "http://",
        "https://",
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "@",
        "169.254.169.254",
        "[::ffff:127.0.0.1]",
        "%2e",
        "\\",
        "。",
        "①",
        "10.0.0.0/8",
        ":80",
        "[fe80::1%25eth0]",
        "file:///",
        "#",
        "?",
    ],
    run: url,
};
pub const SIGNATURE: Target = Target {
    name: "signature",
    words: &["sha256=", "v1,", "v1=", "t=", "whsec_", "1767225600", "msg_1", "deadbeef", "v0=", "v1a,"],
    run: signature_header,
};

fn guard(private: PrivatePolicy, allow: Vec<String>) -> Option<Guard> {
    Guard::new(&NetConfig { private, allow, ..NetConfig::default() }).ok()
}

/// A URL, and an allow-list.
fn url(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let [uri, listed] = super::parts(&text);
    let allow: Vec<String> = listed.lines().map(str::to_owned).collect();
    let listed = guard(PrivatePolicy::Deny, allow);
    let mut seen = behaviour(listed.is_some());
    let strict = guard(PrivatePolicy::Deny, vec![]);
    let open = guard(PrivatePolicy::Allow, vec![]);
    for (deny, guard) in [(true, strict), (false, open), (false, listed)].into_iter().filter_map(|(d, g)| Some((d, g?)))
    {
        match guard.check_url(uri) {
            Ok(url) => {
                assert!(
                    matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
                );
                let host = url.host_str().unwrap_or_default();
                assert!(!host.is_empty(), "a URL without a host is accepted");
                if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
                    let reach = address::reach(ip);
                    assert!(reach != address::Reach::Never, "{ip} is accepted");
                    assert!(!deny || reach == address::Reach::Global, "{ip} is accepted though private is denied");
                    assert!(!deny || !inside(ip), "{ip} is accepted though private is denied");
                }
                // What is connected to is what was checked: the printed URL is judged alike.
                assert_eq!(guard.check_url(url.as_str()).as_ref(), Ok(&url), "judged differently when printed");
                seen = behaviour((seen, url.port().is_some(), host.parse::<IpAddr>().is_ok(), url.path().len().min(3)));
            }
            Err(refusal) => {
                let refusal = match refusal {
                    Refusal::NotAUrl => 0,
                    Refusal::Scheme => 1,
                    Refusal::UserInfo => 2,
                    Refusal::Address(_) => 3,
                };
                seen = behaviour((seen, refusal));
            }
        }
    }
    seen
}

/// The standard library's own idea of what is not the internet, to check ours against.
fn inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.to_ipv4().is_some_and(|v4| inside(IpAddr::V4(v4)))
        }
    }
}

const NOW_MS: i64 = 1_767_225_600_000;

/// Header, id, timestamp, secret, body. Whatever they are, nothing is accepted that was not signed.
fn signature_header(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let [header, id, stamp, secret, body] = super::parts(&text);
    let headers = |name: &str| match name.to_ascii_lowercase().as_str() {
        "webhook-id" => Some(id.to_owned()),
        "webhook-timestamp" => Some(stamp.to_owned()),
        _ => Some(header.to_owned()),
    };
    let schemes = [
        SignatureScheme::HmacSha256,
        SignatureScheme::Github,
        SignatureScheme::StandardWebhooks,
        SignatureScheme::Stripe,
    ];
    let mut seen = 0;
    for scheme in schemes {
        let verify = |secret: &str, body: &str, now_ms: i64| {
            signature::verify(scheme, None, &[secret.to_owned()], &headers, body.as_bytes(), now_ms, 300_000)
        };
        let verdict = verify(secret, body, NOW_MS);
        if verdict.is_ok() {
            assert!(
                verify(secret, &format!("{body} "), NOW_MS).is_err(),
                "another body passes with the same signature"
            );
            assert!(verify("some other secret", body, NOW_MS).is_err(), "another secret passes");
        }
        seen = behaviour((seen, verdict.map_err(|error| error.code)));
    }
    seen
}
