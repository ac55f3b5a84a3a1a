//! The nearest known name to a misspelt one.

/// Candidates and words are names; anything longer is not a typo of one, and the table stays small.
const NAME_BYTES_MAX: usize = 80;
/// A suggestion is a courtesy: a file with thousands of names and thousands of typos must not take minutes.
const CANDIDATES_MAX: usize = 200;

/// The candidate nearest to `word`, if it is near enough to be what was meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > NAME_BYTES_MAX {
        return None;
    }
    let wanted = fold(word);
    let allowed = (wanted.len() / 3).max(1);
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= NAME_BYTES_MAX)
        .map(|candidate| (distance(&wanted, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?" for the nearest candidate.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|name| format!("did you mean `{name}`?"))
}

/// Case and word separators are the commonest slips, so they cost nothing.
fn fold(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let names = ["tasks", "triggers", "namespace", "timeout"];
        assert_eq!(nearest("taks", names), Some("tasks"));
        assert_eq!(nearest("tsaks", names), Some("tasks"));
        assert_eq!(nearest("name_space", names), Some("namespace"));
        assert_eq!(nearest("TIMEOUT", names), Some("timeout"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(1000), names), None);
    }
}
