//! Patterns of paths: `*` and `?` inside a part, `**` for any number of parts, `{a,b}` for either.

/// Whether the pattern means this relative path.
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern = pattern.trim_start_matches("./");
    alternatives(pattern, 0).iter().any(|plain| {
        let (parts, path): (Vec<&str>, Vec<&str>) = (plain.split('/').collect(), path.split('/').collect());
        matches_parts(&parts, &path)
    })
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
    use super::matches;

    #[test]
    fn patterns_mean_what_they_look_like() {
        for (pattern, path, is) in [
            ("a.txt", "a.txt", true),
            ("./a.txt", "a.txt", true),
            ("a.txt", "b/a.txt", false),
            ("*.txt", "a.txt", true),
            ("*.txt", "b/a.txt", false),
            ("**.txt", "a.txt", true),
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
    fn a_hostile_pattern_ends() {
        let (pattern, path) = ("*a".repeat(200), "a".repeat(2_000));
        assert!(!matches(&format!("{pattern}b"), &path));
    }
}
