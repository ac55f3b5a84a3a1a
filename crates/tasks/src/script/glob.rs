//! Patterns of paths: `*` and `?` inside a part, `**` for any number of parts, `{a,b}` for either.

/// Whether the pattern means this relative path.
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern = pattern.trim_start_matches("./");
    alternatives(pattern, 0).iter().any(|plain| {
        // `**.txt` goes over slashes as well.
        if plain.split('/').any(|part| part.contains("**") && part != "**") {
            return crosses(plain.as_bytes(), path.as_bytes());
        }
        let (parts, path): (Vec<&str>, Vec<&str>) = (plain.split('/').collect(), path.split('/').collect());
        matches_parts(&parts, &path)
    })
}

/// Whether the pattern means this file of a namespace. It is about the whole path from the root of the namespace on; one
/// that begins with a letter or digit means any folder.
pub fn in_namespace(pattern: &str, name: &str) -> bool {
    let begins_with_word = pattern.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let pattern = match pattern.strip_prefix("glob:") {
        Some(plain) => plain.to_owned(),
        None if begins_with_word => format!("**/{pattern}"),
        None => pattern.to_owned(),
    };
    let path = format!("/{name}");
    alternatives(&pattern, 0).iter().any(|plain| crosses(plain.as_bytes(), path.as_bytes()))
}

/// `**` goes over slashes, `*` and `?` do not. All places in the pattern that the path so far leads to are kept, so that
/// no pattern takes longer than the product of the lengths.
fn crosses(pattern: &[u8], path: &[u8]) -> bool {
    let is_stars = |at: usize| pattern.get(at) == Some(&b'*') && pattern.get(at + 1) == Some(&b'*');
    let mut places = vec![false; pattern.len() + 1];
    places[0] = true;
    let pass_over = |places: &mut Vec<bool>| {
        for at in 0..pattern.len() {
            if places[at] && pattern[at] == b'*' {
                places[at + if is_stars(at) { 2 } else { 1 }] = true;
            }
        }
    };
    pass_over(&mut places);
    for byte in path {
        let mut next = vec![false; pattern.len() + 1];
        for at in (0..pattern.len()).filter(|at| places[*at]) {
            match pattern[at] {
                b'*' if is_stars(at) || *byte != b'/' => next[at] = true,
                b'*' => {}
                b'?' if *byte != b'/' => next[at + 1] = true,
                plain if plain == *byte => next[at + 1] = true,
                _ => {}
            }
        }
        pass_over(&mut next);
        places = next;
    }
    places[pattern.len()]
}

/// A pattern is written by an author and short; this many choices are more than any needs.
const CHOICES_MAX: usize = 64;

fn alternatives(pattern: &str, depth: usize) -> Vec<String> {
    let whole = || vec![pattern.to_owned()];
    let Some(open) = pattern.find('{').filter(|_| depth < 8) else { return whole() };
    let Some(close) = pattern[open..].find('}').map(|at| open + at) else { return whole() };
    let (head, tail) = (&pattern[..open], &pattern[close + 1..]);
    let choices = pattern[open + 1..close].split(',');
    let expanded = choices.flat_map(|choice| alternatives(&format!("{head}{choice}{tail}"), depth + 1));
    expanded.take(CHOICES_MAX).collect()
}

/// Walks with one step back: linear for one `**`, and never worse than the product of the lengths.
fn matches_parts(pattern: &[&str], path: &[&str]) -> bool {
    let (mut p, mut s) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        match pattern.get(p) {
            Some(&"**") => {
                back = Some((p, s));
                p += 1;
                continue;
            }
            Some(part) if s < path.len() && matches_name(part.as_bytes(), path[s].as_bytes()) => {
                (p, s) = (p + 1, s + 1);
                continue;
            }
            None if s == path.len() => return true,
            _ => {}
        }
        match back {
            Some((at, from)) if from < path.len() => {
                (p, s) = (at + 1, from + 1);
                back = Some((at, from + 1));
            }
            _ => return false,
        }
    }
}

fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut s) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while s < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, s));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[s] => (p, s) = (p + 1, s + 1),
            _ => match back {
                Some((at, from)) => {
                    (p, s) = (at + 1, from + 1);
                    back = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::{in_namespace, matches};

    #[test]
    fn patterns_mean_what_they_look_like() {
        for (pattern, path, is) in [
            ("a.txt", "a.txt", true),
            ("./a.txt", "a.txt", true),
            ("a.txt", "b/a.txt", false),
            ("*.txt", "a.txt", true),
            ("*.txt", "b/a.txt", false),
            ("**.txt", "a.txt", true),
            ("**.txt", "b/c/a.txt", true),
            ("b/**.txt", "c/a.txt", false),
            ("**/*.txt", "a.txt", true),
            ("**/*.txt", "b/c/a.txt", true),
            ("b/**", "b/c/a.txt", true),
            ("b/**", "c/a.txt", false),
            ("b/*/d", "b/c/d", true),
            ("?.{csv,txt}", "a.txt", true),
            ("?.{csv,txt}", "a.json", false),
            ("**/x/**/y", "a/x/b/c/y", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, path), is, "{pattern} {path}");
        }
    }

    #[test]
    fn patterns_of_a_namespace_begin_at_its_root_or_anywhere() {
        for (pattern, name, is) in [
            ("a.txt", "a.txt", true),
            ("a.txt", "b/a.txt", true),
            ("/a.txt", "b/a.txt", false),
            ("b/*.txt", "b/a.txt", true),
            ("/b/*.txt", "b/c/a.txt", false),
            ("**.txt", "b/c/a.txt", true),
            ("**input.txt", "b/my-input.txt", true),
            ("glob:**/dbt/**", "x/dbt/y/z.sql", true),
            ("glob:a.txt", "a.txt", false),
            ("*.txt", "a.txt", false),
            ("/*.{sql,txt}", "a.sql", true),
            ("**", "a", true),
            ("?.txt", "a.txt", false),
        ] {
            assert_eq!(in_namespace(pattern, name), is, "{pattern} {name}");
        }
        let (pattern, path) = ("**a".repeat(200), "a/".repeat(2_000));
        assert!(!in_namespace(&format!("{pattern}b"), &path));
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let (pattern, path) = ("*a".repeat(200), "a".repeat(2_000));
        assert!(!matches(&format!("{pattern}b"), &path));
    }
}
