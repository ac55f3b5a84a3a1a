//! Subjects of a NATS server that definitions may name.

/// Why tasks cannot publish to a subject, if they cannot: no blanks, no empty parts, no patterns, nothing of the server's own.
pub fn publishable(subject: &str) -> Result<(), String> {
    well_formed(subject)?;
    match subject.split('.').any(|part| part == "*" || part == ">") {
        true => Err(format!("`{subject}` is a pattern; a message goes to one subject")),
        false => Ok(()),
    }
}

/// Why nothing can be heard under a subject, if nothing can: patterns are allowed, but not of everything there is.
pub fn listenable(subject: &str) -> Result<(), String> {
    well_formed(subject)?;
    let parts: Vec<&str> = subject.split('.').collect();
    if parts[..parts.len() - 1].contains(&">") {
        return Err(format!("`{subject}`: `>` is the last part of a subject"));
    }
    // A single `*` is left: what the server and its clients tell each other has more parts.
    if subject != "*" && parts.iter().all(|part| *part == "*" || *part == ">") {
        return Err(format!("`{subject}` has the server's own messages too; begin it with a name"));
    }
    Ok(())
}

fn well_formed(subject: &str) -> Result<(), String> {
    if subject.split('.').any(|part| part.is_empty() || part.contains(char::is_whitespace)) {
        return Err(format!("`{subject}` is no subject: names with a dot between them, without blanks"));
    }
    if subject.starts_with('$') || subject.starts_with("_INBOX") {
        return Err(format!("`{subject}`: subjects of `$` and `_INBOX` are the server's own"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_to_publish_to_are_no_patterns_and_not_the_servers() {
        assert!(publishable("orders.paid").is_ok() && publishable("orders").is_ok());
        for wrong in
            ["", "a..b", "a.*", "orders.>", "a b", ".a", "$JS.API.STREAM.DELETE.ORDERS", "$SYS.x", "_INBOX.a", "_INBOX"]
        {
            assert!(publishable(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_of_everything_are_not_listened_to() {
        for right in ["orders.paid", "orders.*", "orders.>", "*", "*.paid"] {
            assert!(listenable(right).is_ok(), "{right}");
        }
        for wrong in ["", "a..b", "a.>.b", ">", "*.>", "*.*", "$SYS.>", "$JS.API.>", "_INBOX.>", "a b"] {
            assert!(listenable(wrong).is_err(), "{wrong}");
        }
    }
}
