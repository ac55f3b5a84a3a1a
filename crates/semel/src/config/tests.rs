use super::*;

fn load(text: &str, variables: &[(&str, &str)], flags: Flags) -> Result<Config, Failure> {
    let variable =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Config::from_text(text, "semel.toml", variable, flags)
}

fn refused(text: &str) -> String {
    let failure = load(text, &[], Flags::default()).unwrap_err();
    assert_eq!(failure.exit() as u8, 2);
    failure.message().to_owned()
}

#[test]
fn nothing_given_means_the_documented_defaults() {
    let config = load("", &[], Flags::default()).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.store.to_string(), "sqlite:semel-data/semel.db");
    assert_eq!(config.data_dir, PathBuf::from("semel-data"));
    assert_eq!(config.secret_key, SecretKey::Made(PathBuf::from("semel-data/secret.key")));
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.retention_decisions_ms, 90 * 86_400_000);
    assert!(!config.dev && config.outbound_private_allowed && !config.trigger_scope_workspace);
    assert!(!config.correlation_guard);
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let text = "listen = '127.0.0.1:1'\nstore = 'sqlite:/a/x.db'\n[log]\nlevel = 'warn'\n";
    let variables = [("SEMEL_LISTEN", "127.0.0.1:2"), ("SEMEL_LOG_LEVEL", "debug"), ("SEMEL_STORE", "")];
    let config = load(text, &variables, Flags { listen: Some("127.0.0.1:3".into()), ..Flags::default() }).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.log_level, "debug");
    assert_eq!(config.store.to_string(), "sqlite:/a/x.db");
    assert_eq!(config.data_dir, PathBuf::from("/a"));
}

#[test]
fn every_section_is_read() {
    let text = "dev = true\n[limits]\nbody_bytes_max = 10\n[outbound]\nprivate = 'deny'\nallow = ['10.0.0.0/8']\n\
                [secrets]\nkey_command = 'vault read key'\n[trigger]\nscope = 'workspace'\n\
                [kestra]\ncorrelation_guard = 'atomic'\n\
                [retention]\ndecisions = 'P7D'\nhistory = 'P30D'\n[log]\nformat = 'json'\n";
    let config = load(text, &[("SEMEL_LIMITS_HTTP_CALLS_MAX", "99")], Flags::default()).unwrap();
    assert_eq!((config.limits.body_bytes_max, config.limits.http_calls_max), (10, 99));
    assert!(config.dev && config.log_json && config.trigger_scope_workspace && !config.outbound_private_allowed);
    assert!(config.correlation_guard);
    assert_eq!(config.outbound_allow, ["10.0.0.0/8"]);
    assert_eq!(config.secret_key, SecretKey::Command("vault read key".into()));
    assert_eq!(config.retention_history_ms, Some(30 * 86_400_000));
}

#[test]
fn a_database_has_no_directory_and_its_password_is_not_shown() {
    let flags =
        Flags { store: Some("postgres://ada:geheim@db.example/semel?password=geheim".into()), ..Flags::default() };
    let config = load("", &[], flags).unwrap();
    assert_eq!(config.store.to_string(), "postgres://db.example/semel");
    assert_eq!(config.data_dir, PathBuf::from("semel-data"));
    assert!(config.store.file().is_err());
}

#[test]
fn mistakes_in_the_file_have_a_place() {
    insta::assert_snapshot!(refused("listen = '127.0.0.1:1'\nlistne = 'x'\n"), @"semel.toml:2:1: unknown field `listne`, expected one of `listen`, `store`, `data_dir`, `dev`, `log`, `limits`, `outbound`, `secrets`, `trigger`, `kestra`, `nats`, `retention`, `scripts`");
    insta::assert_snapshot!(refused("[outbound]\nprivate = 'maybe'\n"), @"semel.toml:2:11: unknown variant `maybe`, expected `allow` or `deny`");
    insta::assert_snapshot!(refused("[limits]\n  body_bytes_max = -1\n"), @"semel.toml:2:20: invalid value: integer `-1`, expected usize");
    insta::assert_snapshot!(refused("dev = yes\n"), @"semel.toml:1:7: string values must be quoted, expected literal string");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    insta::assert_snapshot!(refused("listen = 'nowhere'"), @"`nowhere` is not an address to listen on");
    insta::assert_snapshot!(refused("store = 'postgres:x'"), @"`postgres:x` is not a store");
    insta::assert_snapshot!(refused("store = 'x.db'"), @"`x.db` is not a store");
    insta::assert_snapshot!(refused("[retention]\nhistory = 'P1M'"), @"retention.history: `P1M` uses years, months or weeks, whose length is not fixed; use days (P30D) or hours");
    insta::assert_snapshot!(refused("[secrets]\nkey_file = 'a'\nkey_command = 'b'"), @"give secrets.key_file or secrets.key_command, not both");
    insta::assert_snapshot!(refused("dev = true\nlisten = '0.0.0.0:80'"), @"--dev turns tokens off, so it is refused on 0.0.0.0:80, which others can reach");
}

#[test]
fn variables_that_make_no_sense_are_refused_and_strange_ones_ignored() {
    for (name, value) in
        [("SEMEL_DEV", "perhaps"), ("SEMEL_LIMITS_BODY_BYTES_MAX", "1MB"), ("SEMEL_TRIGGER_SCOPE", "x")]
    {
        let failure = load("", &[(name, value)], Flags::default()).unwrap_err();
        assert!(failure.message().contains(name), "{}", failure.message());
    }
    assert!(load("", &[("SEMEL_PORT", "tcp://10.0.0.1:8080")], Flags::default()).is_ok());
}

#[test]
fn paths_in_a_file_start_where_the_file_is() {
    let mut file =
        File::parse("store = 'sqlite:x.db'\n[secrets]\nkey_file = 'k'\ndata_dir = 1", "f").unwrap_or_default();
    assert!(file.store.is_none(), "data_dir belongs to the top, so this file is refused as a whole");
    file = File::parse("store = 'sqlite:x.db'\ndata_dir = '/abs'\n[secrets]\nkey_file = 'k'", "f").unwrap();
    file.anchor(Path::new("/etc/semel"));
    assert_eq!(file.store.as_deref(), Some("sqlite:/etc/semel/x.db"));
    assert_eq!(file.data_dir, Some(PathBuf::from("/abs")));
    assert_eq!(file.secrets.key_file, Some(PathBuf::from("/etc/semel/k")));
}
