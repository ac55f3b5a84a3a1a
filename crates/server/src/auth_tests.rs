use super::*;
use crate::routes::ROUTES;
use axum::http::HeaderValue;

fn counting(bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = i as u8;
    }
}

fn token(role: Role, expires_at: Option<Millis>) -> (TokenRow, String) {
    let workspace = WorkspaceId::default();
    make_token(NewToken { workspace, name: "ci".into(), role, now: Millis(0), expires_at }, counting)
}

#[test]
fn a_token_has_its_shape_and_is_stored_as_a_hash() {
    let (row, text) = token(Role::Admin, None);
    assert_eq!(text.len(), 4 + 16 + 1 + 43);
    let presented = parse_token(&text).unwrap();
    assert_eq!(presented.id, row.id);
    assert_eq!(row.secret_hash.len(), 32);
    let secret = text.rsplit('_').next().unwrap();
    assert!(!String::from_utf8_lossy(&row.secret_hash).contains(secret));
    let (first, second) = (
        make_token(
            NewToken {
                workspace: WorkspaceId::default(),
                name: "".into(),
                role: Role::Viewer,
                now: Millis(0),
                expires_at: None,
            },
            os_random,
        ),
        make_token(
            NewToken {
                workspace: WorkspaceId::default(),
                name: "".into(),
                role: Role::Viewer,
                now: Millis(0),
                expires_at: None,
            },
            os_random,
        ),
    );
    assert_ne!(first.1, second.1);
    assert_ne!(first.0.id, second.0.id);
}

#[test]
fn what_is_not_a_token_is_not_parsed() {
    let (_, text) = token(Role::Admin, None);
    let (short, long) = (&text[..text.len() - 1], format!("{text}a"));
    for bad in ["", "sml_", "sml__", short, &long, &text[4..], &text.to_uppercase(), &text.replace("sml_00", "sml_0é")]
    {
        assert!(parse_token(bad).is_none(), "{bad}");
    }
}

#[test]
fn the_authorization_header_is_read_strictly() {
    let mut headers = HeaderMap::new();
    assert_eq!(bearer(&headers).unwrap_err().code, Code::TokenMissing);
    headers.insert(AUTHORIZATION, HeaderValue::from_static("bearer  abc"));
    assert_eq!(bearer(&headers).unwrap(), "abc");
    for bad in ["Basic abc", "abc", "Bearer"] {
        headers.insert(AUTHORIZATION, HeaderValue::from_static(bad));
        assert_eq!(bearer(&headers).unwrap_err().code, Code::TokenInvalid, "{bad}");
    }
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
    assert_eq!(bearer(&headers).unwrap_err().code, Code::TokenInvalid);
}

#[test]
fn only_the_right_secret_of_a_valid_row_is_accepted() {
    let (row, text) = token(Role::Operator, Some(Millis(1_000)));
    let presented = parse_token(&text).unwrap();
    let principal = verify(presented, Some(&row), Millis(999)).unwrap();
    assert_eq!(
        (principal.role, principal.name.as_str(), principal.token_id.as_str()),
        (Role::Operator, "ci", row.id.as_str())
    );
    let code = |row: Option<&TokenRow>, now| verify(presented, row, Millis(now)).unwrap_err().code;
    assert_eq!(code(Some(&row), 1_000), Code::TokenExpired);
    assert_eq!(code(None, 0), Code::TokenInvalid);
    assert_eq!(code(Some(&TokenRow { revoked_at: Some(Millis(1)), ..row.clone() }), 0), Code::TokenInvalid);
    assert_eq!(code(Some(&TokenRow { role: "root".into(), ..row.clone() }), 0), Code::TokenInvalid);
    for bit in 0..8 {
        let mut other = row.clone();
        other.secret_hash[31] ^= 1 << bit;
        // A wrong secret is told nothing about expiry.
        assert_eq!(code(Some(&other), 5_000), Code::TokenInvalid);
    }
}

#[test]
fn a_revoked_token_is_gone_from_the_cache_at_once() {
    let cache = TokenCache::default();
    let (row, _) = token(Role::Viewer, None);
    assert_eq!(cache.fresh(&row.id), None);
    assert_eq!(cache.read(&row.id, || Ok(Some(row.clone()))), Ok(Some(row.clone())));
    assert_eq!(cache.fresh(&row.id), Some(row.clone()));
    cache.forget_all();
    assert_eq!(cache.fresh(&row.id), None);
    // A read that began before the revocation must not bring the row back.
    let raced = cache.read(&row.id, || {
        cache.forget_all();
        Ok(Some(row.clone()))
    });
    assert_eq!(raced, Ok(Some(row.clone())));
    assert_eq!(cache.fresh(&row.id), None);
    // What does not exist is not kept either.
    assert_eq!(cache.read("0123456789abcdef", || Ok(None)), Ok(None));
    assert_eq!(cache.fresh("0123456789abcdef"), None);
}

#[test]
fn every_route_gives_every_role_exactly_what_the_table_says() {
    let main = WorkspaceId::default();
    for route in ROUTES {
        for role in Role::ALL {
            let principal = |workspace: &str| Principal {
                workspace: WorkspaceId(workspace.into()),
                role,
                ..Principal::dev(main.clone())
            };
            let (here, elsewhere) = (route.access.allows(&principal("main")), route.access.allows(&principal("other")));
            let expected: &[Role] = match route.access {
                Access::Open | Access::Webhook => &Role::ALL,
                Access::Trigger => &[Role::Trigger, Role::Operator, Role::Author, Role::Admin],
                Access::Metrics => &[Role::Metrics, Role::Viewer, Role::Operator, Role::Author, Role::Admin],
                Access::Viewer => &[Role::Viewer, Role::Operator, Role::Author, Role::Admin],
                Access::Operator => &[Role::Operator, Role::Author, Role::Admin],
                Access::Author => &[Role::Author, Role::Admin],
                Access::Admin | Access::MainAdmin => &[Role::Admin],
            };
            assert_eq!(here, expected.contains(&role), "{} {} as {}", route.method, route.path, role.word());
            assert_eq!(elsewhere, here && route.access != Access::MainAdmin, "{} {}", route.method, route.path);
        }
    }
}
