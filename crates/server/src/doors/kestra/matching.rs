//! Filters held against things that are in memory: few enough to look at each, such as flows and keys.

use super::filters::{Field, Filter, Op, invalid};
use crate::problem::Problem;
use regex::{Regex, RegexBuilder};

/// Patterns of strangers: small, and compiled once.
const PATTERN_BYTES_MAX: usize = 100_000;

/// A test of one text.
#[derive(Clone, Debug)]
pub struct TextTest {
    op: Op,
    values: Vec<String>,
    pattern: Option<Regex>,
}

impl TextTest {
    pub fn new(filter: &Filter) -> Result<TextTest, Problem> {
        let values = match filter.op {
            Op::In | Op::NotIn => filter.values(),
            _ => vec![filter.value.clone()],
        };
        let pattern = match filter.op {
            Op::Regex => {
                let built = RegexBuilder::new(&filter.value).size_limit(PATTERN_BYTES_MAX).build();
                Some(built.map_err(|_| invalid(format!("`{}` takes a regular expression", filter.field.word())))?)
            }
            _ => None,
        };
        Ok(TextTest { op: filter.op, values, pattern })
    }

    pub fn holds(&self, text: &str) -> bool {
        let first = self.values.first().map_or("", String::as_str);
        match self.op {
            Op::Equals | Op::In => self.values.iter().any(|value| value == text),
            Op::NotEquals | Op::NotIn => !self.values.iter().any(|value| value == text),
            Op::Contains => text.contains(first),
            Op::StartsWith => text.starts_with(first),
            // The name itself and what is below it.
            Op::Prefix => text.strip_prefix(first).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
            Op::EndsWith => text.ends_with(first),
            Op::Regex => self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(text)),
            Op::GreaterThan => text > first,
            Op::GreaterThanOrEqualTo => text >= first,
            Op::LessThan => text < first,
            Op::LessThanOrEqualTo => text <= first,
        }
    }
}

/// Do these labels pass all filters of labels? Those of one word belong together.
pub fn labels_pass<'a>(filters: &[Filter], labels: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> bool {
    let mut asked: Vec<(Op, Vec<(&str, &str)>)> = Vec::new();
    for filter in filters.iter().filter(|filter| filter.field == Field::Labels) {
        let pair = (filter.key.as_deref().unwrap_or_default(), filter.value.as_str());
        match asked.iter_mut().find(|(op, _)| *op == filter.op) {
            Some((_, pairs)) => pairs.push(pair),
            None => asked.push((filter.op, vec![pair])),
        }
    }
    let has = |pair: &(&str, &str)| labels.clone().any(|label| label == *pair);
    asked.iter().all(|(op, pairs)| match op {
        Op::Equals => pairs.iter().all(has),
        Op::In => pairs.iter().any(has),
        Op::NotEquals | Op::NotIn => !pairs.iter().any(has),
        _ => pairs.iter().all(|(_, wanted)| {
            let wanted = wanted.to_lowercase();
            labels
                .clone()
                .any(|(key, value)| key.to_lowercase().contains(&wanted) || value.to_lowercase().contains(&wanted))
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_as_the_word_says() {
        let holds =
            |op, value: &str, text: &str| TextTest::new(&Filter::new(Field::Namespace, op, value)).unwrap().holds(text);
        assert!(holds(Op::Equals, "a.b", "a.b") && !holds(Op::Equals, "a.b", "a.B"));
        assert!(holds(Op::NotEquals, "a", "b") && holds(Op::In, "a,b", "b") && !holds(Op::NotIn, "a,b", "b"));
        assert!(holds(Op::Prefix, "a", "a") && holds(Op::Prefix, "a", "a.b") && !holds(Op::Prefix, "a", "ab"));
        assert!(holds(Op::Contains, ".", "a.b") && holds(Op::EndsWith, "b", "a.b"));
        assert!(holds(Op::Regex, "^a\\.", "a.b") && !holds(Op::Regex, "^b", "a.b"));
        for bad in ["(", "a{1000}{1000}{1000}"] {
            assert!(TextTest::new(&Filter::new(Field::Namespace, Op::Regex, bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_of_one_word_belong_together() {
        let passes = |filters: &[(Op, &str, &str)]| {
            let of = |(op, key, value): &(Op, &str, &str)| Filter {
                key: Some((*key).to_owned()).filter(|_| *op != Op::Contains),
                ..Filter::new(Field::Labels, *op, value)
            };
            let filters: Vec<Filter> = filters.iter().map(of).collect();
            labels_pass(&filters, [("team", "a"), ("Env", "Prod")].into_iter())
        };
        assert!(passes(&[]));
        assert!(passes(&[(Op::Equals, "team", "a"), (Op::Equals, "Env", "Prod")]));
        assert!(!passes(&[(Op::Equals, "team", "a"), (Op::Equals, "Env", "prod")]));
        assert!(passes(&[(Op::In, "team", "a"), (Op::In, "team", "b")]));
        assert!(!passes(&[(Op::NotEquals, "team", "a"), (Op::NotEquals, "team", "b")]));
        assert!(passes(&[(Op::NotIn, "team", "b")]));
        assert!(passes(&[(Op::Contains, "", "pro")]) && !passes(&[(Op::Contains, "", "zzz")]));
    }
}
