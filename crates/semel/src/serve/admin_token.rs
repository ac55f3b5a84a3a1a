//! The first token: without it nobody could make the second one.

use super::data_dir::write_private;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Shell, say};
use semel_core::WorkspaceId;
use semel_server::{NewToken, Role, make_token, os_random};
use semel_store::{Store, StoreError, TokenRow, Work};

const FILE: &str = "admin.token";

/// Makes the admin token of `main` if the store has never had a token. With `--dev` nobody asks for one.
pub fn ensure(store: &dyn Store, config: &Config, shell: &Shell) -> Result<(), Failure> {
    if config.dev {
        return Ok(());
    }
    let known = store.tokens(&WorkspaceId::default()).map_err(broken)?;
    if known.is_empty() {
        return make(store, config, shell);
    }
    let now = store.now();
    let is_live = |row: &TokenRow| row.revoked_at.is_none() && row.expires_at.is_none_or(|end| now < end);
    if !config.is_loopback() && !known.iter().any(is_live) {
        let message = format!(
            "every token of this store is revoked or expired, so {} would be open to nobody and to guessing",
            config.listen
        );
        return Err(Failure::refused("no_token", message)
            .hint("start with --dev on 127.0.0.1 and make one: semel token create --role admin"));
    }
    Ok(())
}

fn make(store: &dyn Store, config: &Config, shell: &Shell) -> Result<(), Failure> {
    let new = NewToken {
        workspace: WorkspaceId::default(),
        name: "admin".to_owned(),
        role: Role::Admin,
        now: store.now(),
        expires_at: None,
    };
    let (row, token) = make_token(new, os_random);
    let path = config.data_dir.join(FILE);
    // The file comes first: a token that is stored but written nowhere could never be used, nor made again.
    write_private(&path, &format!("{token}\n"))?;
    store.call(Work::PutToken(Box::new(row))).map_err(broken)?;
    if shell.interactive {
        // The only time it is shown, and only to a person: a log keeps what it is given.
        say(&format!(
            "first start: the admin token is {}\n             it is kept in {}",
            shell.err.bold(&token),
            path.display()
        ));
    } else {
        say(&format!("first start: the admin token is in {}", path.display()));
    }
    Ok(())
}

fn broken(error: StoreError) -> Failure {
    Failure::refused(error.code(), error.to_string())
}
