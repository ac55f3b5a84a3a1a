//! `semel.toml`, and what the environment says on top of it.

use crate::fuzz::{Target, behaviour};
use semel::config::{Config, Flags};

pub const CONFIG: Target = Target {
    name: "config_file",
    words: &[
        "listen = ",
        "store = ",
        "sqlite:",
        "data_dir = ",
        "[log]\nlevel = ",
        "[limits]\n",
        "body_bytes_max = ",
        "[outbound]\n",
        "private = \"deny\"",
        "allow = [",
        "[secrets]\n",
        "key_command = ",
        "key_file = ",
        "[retention]\n",
        "history = \"P1D\"",
        "forever",
        "[trigger]\nscope = \"workspace\"",
        "SEMEL_DEV=true",
        "SEMEL_LIMITS_BODY_BYTES_MAX=1",
        "\"\"\"",
        "{",
        "[[",
        "1979-05-27",
    ],
    run: config,
};

/// The file, and variables as `NAME=value`.
fn config(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let [file, variables] = super::parts(&text);
    let variable = |name: &str| {
        let set = variables.lines().filter_map(|line| line.split_once('='));
        set.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).next()
    };
    // A name to listen on would be looked up on the network, so the address is given.
    let flags = || Flags { listen: Some("127.0.0.1:0".to_owned()), ..Flags::default() };
    match Config::from_text(file, "semel.toml", variable, flags()) {
        Ok(config) => {
            assert_eq!(Some(&config), Config::from_text(file, "semel.toml", variable, flags()).ok().as_ref());
            assert!(config.retention_decisions_ms > 0 && config.retention_history_ms.is_none_or(|ms| ms > 0));
            behaviour((
                config.dev,
                config.log_json,
                config.outbound_allow.len().min(4),
                config.limits == Default::default(),
            ))
        }
        Err(failure) => {
            assert_eq!(failure.exit() as u8, 2, "{}", failure.message());
            let words: Vec<&str> =
                failure.message().split(' ').filter(|word| !word.contains(['`', ':'])).take(5).collect();
            behaviour(words)
        }
    }
}
