//! Webhook signatures: what is accepted, and each way to be refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use semel_core::ir::SignatureScheme;
use semel_tasks::signature::verify;
use sha2::Sha256;

const NOW_MS: i64 = 1_700_000_000_000;
const NOW_S: &str = "1700000000";
const TOLERANCE_MS: i64 = 300_000;
const BODY: &[u8] = b"{\"b\":1,\"a\":\"\xc3\xa9\"}";
/// Base64 of `a very secret signing key`.
const WHSEC: &str = "whsec_YSB2ZXJ5IHNlY3JldCBzaWduaW5nIGtleQ==";

type Headers = Vec<(&'static str, String)>;

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any key length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_at(
    scheme: SignatureScheme,
    secrets: &[&str],
    headers: &Headers,
    body: &[u8],
    now_ms: i64,
) -> Result<(), &'static str> {
    let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    let find =
        |name: &str| headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
    verify(scheme, None, &secrets, &find, body, now_ms, TOLERANCE_MS).map_err(|error| error.code)
}

fn check(scheme: SignatureScheme, secrets: &[&str], headers: &Headers, body: &[u8]) -> Result<(), &'static str> {
    check_at(scheme, secrets, headers, body, NOW_MS)
}

/// A rightly signed delivery for each scheme: secret and headers.
fn good() -> Vec<(SignatureScheme, &'static str, Headers)> {
    let stamp = format!("{NOW_S}.");
    let standard_key = b"a very secret signing key";
    vec![
        (SignatureScheme::HmacSha256, "s3cret", vec![("X-Signature", hex(&mac(b"s3cret", &[BODY])))]),
        (
            SignatureScheme::Github,
            "s3cret",
            vec![("X-Hub-Signature-256", format!("sha256={}", hex(&mac(b"s3cret", &[BODY]))))],
        ),
        (
            SignatureScheme::StandardWebhooks,
            WHSEC,
            vec![
                ("webhook-id", "msg_1".to_owned()),
                ("webhook-timestamp", NOW_S.to_owned()),
                (
                    "webhook-signature",
                    format!("v1,{}", STANDARD.encode(mac(standard_key, &[b"msg_1.", stamp.as_bytes(), BODY]))),
                ),
            ],
        ),
        (
            SignatureScheme::Stripe,
            "whsec_test",
            vec![(
                "Stripe-Signature",
                format!("t={NOW_S},v1={},v0=00", hex(&mac(b"whsec_test", &[stamp.as_bytes(), BODY]))),
            )],
        ),
    ]
}

#[test]
fn githubs_published_example_passes() {
    let headers = vec![(
        "X-Hub-Signature-256",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17".to_owned(),
    )];
    assert_eq!(check(SignatureScheme::Github, &["It's a Secret to Everybody"], &headers, b"Hello, World!"), Ok(()));
}

#[test]
fn the_standard_webhooks_example_passes() {
    let headers = vec![
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned()),
        ("webhook-timestamp", "1614265330".to_owned()),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned()),
    ];
    let body = br#"{"test": 2432232314}"#;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert_eq!(check_at(SignatureScheme::StandardWebhooks, &[secret], &headers, body, 1_614_265_330_000), Ok(()));
    assert_eq!(check_at(SignatureScheme::StandardWebhooks, &[&secret[6..]], &headers, body, 1_614_265_330_000), Ok(()));
}

#[test]
fn a_right_signature_passes_in_every_scheme() {
    for (scheme, secret, headers) in good() {
        assert_eq!(check(scheme, &[secret], &headers, BODY), Ok(()), "{scheme:?}");
    }
}

#[test]
fn the_generic_scheme_reads_hex_and_base64_with_and_without_prefix() {
    let code = mac(b"s3cret", &[BODY]);
    let base64 = STANDARD.encode(&code);
    let forms = [
        hex(&code),
        hex(&code).to_uppercase(),
        format!("sha256={}", hex(&code)),
        base64.clone(),
        base64.trim_end_matches('=').to_owned(),
        base64.replace('+', "-").replace('/', "_"),
        format!("sha256={base64}"),
        format!(" {} ", hex(&code)),
    ];
    for form in forms {
        assert_eq!(
            check(SignatureScheme::HmacSha256, &["s3cret"], &vec![("X-Signature", form.clone())], BODY),
            Ok(()),
            "{form}"
        );
    }
    let named = |name: &str| (name == "X-Own").then(|| hex(&code));
    assert_eq!(verify(SignatureScheme::HmacSha256, Some("X-Own"), &["s3cret".to_owned()], &named, BODY, 0, 0), Ok(()));
}

#[test]
fn every_flipped_bit_of_the_body_is_seen() {
    for (scheme, secret, headers) in good() {
        for bit in 0..BODY.len() * 8 {
            let mut body = BODY.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(scheme, &[secret], &headers, &body), Err("signature_mismatch"), "{scheme:?} bit {bit}");
        }
    }
}

#[test]
fn every_flipped_bit_of_the_signature_is_seen() {
    let code = mac(b"s3cret", &[BODY]);
    for bit in 0..code.len() * 8 {
        let mut bad = code.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let stamp = format!("{NOW_S}.");
        let mut stripe = mac(b"s3cret", &[stamp.as_bytes(), BODY]);
        stripe[bit / 8] ^= 1 << (bit % 8);
        let headers = vec![
            ("X-Signature", hex(&bad)),
            ("X-Hub-Signature-256", format!("sha256={}", hex(&bad))),
            ("Stripe-Signature", format!("t={NOW_S},v1={}", hex(&stripe))),
        ];
        for scheme in [SignatureScheme::HmacSha256, SignatureScheme::Github, SignatureScheme::Stripe] {
            assert_eq!(check(scheme, &["s3cret"], &headers, BODY), Err("signature_mismatch"), "{scheme:?} bit {bit}");
        }
    }
}

#[test]
fn the_body_counts_to_the_last_byte() {
    for (scheme, secret, headers) in good() {
        for body in [
            [BODY, b"\n"].concat(),
            [BODY, b"\r\n"].concat(),
            BODY[..BODY.len() - 1].to_vec(),
            Vec::new(),
            b"{\"a\":\"\xc3\xa9\",\"b\":1}".to_vec(),
        ] {
            assert_eq!(check(scheme, &[secret], &headers, &body), Err("signature_mismatch"), "{scheme:?}");
        }
    }
    let body = [BODY, b"\n"].concat();
    let signed = vec![("X-Signature", hex(&mac(b"s3cret", &[&body])))];
    assert_eq!(check(SignatureScheme::HmacSha256, &["s3cret"], &signed, &body), Ok(()));
}

#[test]
fn each_missing_header_is_named() {
    for (scheme, secret, headers) in good() {
        for index in 0..headers.len() {
            let mut fewer = headers.clone();
            fewer.remove(index);
            assert_eq!(check(scheme, &[secret], &fewer, BODY), Err("signature_missing"), "{scheme:?} {index}");
        }
    }
}

#[test]
fn timestamps_hold_both_ways_and_to_the_millisecond() {
    for (scheme, secret, headers) in good() {
        let timed = matches!(scheme, SignatureScheme::StandardWebhooks | SignatureScheme::Stripe);
        let late = if timed { Err("signature_expired") } else { Ok(()) };
        for (now_ms, expected) in [
            (NOW_MS + TOLERANCE_MS, Ok(())),
            (NOW_MS - TOLERANCE_MS, Ok(())),
            (NOW_MS + TOLERANCE_MS + 1, late),
            (NOW_MS - TOLERANCE_MS - 1, late),
            (i64::MAX, late),
            (i64::MIN, late),
        ] {
            assert_eq!(check_at(scheme, &[secret], &headers, BODY, now_ms), expected, "{scheme:?} at {now_ms}");
        }
    }
}

#[test]
fn a_changed_timestamp_or_id_breaks_the_signature() {
    for (scheme, secret, headers) in good().into_iter().skip(2) {
        let changed: Headers =
            headers.iter().map(|(name, value)| (*name, value.replace(NOW_S, "1700000001"))).collect();
        assert_eq!(check(scheme, &[secret], &changed, BODY), Err("signature_mismatch"), "{scheme:?}");
    }
    let (scheme, secret, mut headers) = good().remove(2);
    headers[0].1 = "msg_2".to_owned();
    assert_eq!(check(scheme, &[secret], &headers, BODY), Err("signature_mismatch"));
}

#[test]
fn either_of_two_secrets_matches_during_a_rotation() {
    for (scheme, secret, headers) in good() {
        let other = if scheme == SignatureScheme::StandardWebhooks { "whsec_b3RoZXI=" } else { "other" };
        assert_eq!(check(scheme, &[other, secret], &headers, BODY), Ok(()), "{scheme:?}");
        assert_eq!(check(scheme, &[secret, other], &headers, BODY), Ok(()), "{scheme:?}");
        assert_eq!(check(scheme, &[other], &headers, BODY), Err("signature_mismatch"), "{scheme:?}");
    }
}

#[test]
fn several_signatures_in_one_header() {
    let (scheme, secret, mut headers) = good().remove(2);
    headers[2].1 = format!("v1,AAAA v1a,zzzz {} v2,x", headers[2].1);
    assert_eq!(check(scheme, &[secret], &headers, BODY), Ok(()));
    let (scheme, secret, mut headers) = good().remove(3);
    headers[0].1 = headers[0].1.replace(",v1=", &format!(",v1={},v1=", "00".repeat(32)));
    assert_eq!(check(scheme, &[secret], &headers, BODY), Ok(()));
}

#[test]
fn no_secret_or_an_empty_one_never_passes() {
    for (scheme, _, headers) in good() {
        assert_eq!(check(scheme, &[], &headers, BODY), Err("signature_not_configured"), "{scheme:?}");
        assert_eq!(check(scheme, &[""], &headers, BODY), Err("signature_not_configured"), "{scheme:?}");
    }
    let forged = vec![("X-Signature", hex(&mac(b"", &[BODY])))];
    assert_eq!(check(SignatureScheme::HmacSha256, &["", "s3cret"], &forged, BODY), Err("signature_mismatch"));
    let (_, _, headers) = good().remove(2);
    for secret in ["whsec_", "whsec_!!"] {
        assert_eq!(
            check(SignatureScheme::StandardWebhooks, &[secret], &headers, BODY),
            Err("signature_not_configured")
        );
    }
}

#[test]
fn wrong_lengths_and_nonsense_are_refused() {
    let code = hex(&mac(b"s3cret", &[BODY]));
    for (text, expected) in [
        (code[..62].to_owned(), "signature_mismatch"),
        (format!("{code}00"), "signature_mismatch"),
        (code[..2].to_owned(), "signature_mismatch"),
        (String::new(), "signature_malformed"),
        ("sha256=".to_owned(), "signature_malformed"),
        ("sha256=€".to_owned(), "signature_malformed"),
        ("!!".to_owned(), "signature_malformed"),
    ] {
        let headers = vec![("X-Signature", text.clone()), ("X-Hub-Signature-256", text.clone())];
        assert_eq!(check(SignatureScheme::HmacSha256, &["s3cret"], &headers, BODY), Err(expected), "{text}");
        assert_eq!(check(SignatureScheme::Github, &["s3cret"], &headers, BODY), Err(expected), "{text}");
    }
    for text in [
        "",
        "t=1",
        "v1=00",
        "t=,v1=00",
        "t=x,v1=00",
        "t=-1,v1=00",
        "t=+1,v1=00",
        "t=1,t=2,v1=00",
        "t=99999999999999999999,v1=00",
        "t=1,v1=zz",
        "t=1,v1=0",
    ] {
        let headers = vec![("Stripe-Signature", text.to_owned())];
        assert_eq!(check(SignatureScheme::Stripe, &["s3cret"], &headers, BODY), Err("signature_malformed"), "{text}");
    }
    let (_, secret, headers) = good().remove(2);
    for (index, text) in [(1, "soon"), (1, ""), (1, "1.5"), (2, ""), (2, "v2,AAAA"), (2, "v1,%%")] {
        let mut bad = headers.clone();
        bad[index].1 = text.to_owned();
        assert_eq!(
            check(SignatureScheme::StandardWebhooks, &[secret], &bad, BODY),
            Err("signature_malformed"),
            "{index} {text}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn any_header_is_read_without_a_panic(text in ".{0,80}", body: Vec<u8>, now_ms: i64, tolerance_ms: i64) {
        for scheme in [SignatureScheme::HmacSha256, SignatureScheme::Github, SignatureScheme::StandardWebhooks, SignatureScheme::Stripe] {
            let find = |_: &str| Some(text.clone());
            proptest::prop_assert!(verify(scheme, None, &["s3cret".to_owned()], &find, &body, now_ms, tolerance_ms).is_err());
        }
    }
}
