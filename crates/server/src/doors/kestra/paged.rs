//! Pages of this door: `page` from 1, `size`, `sort=field:asc`, answered as `{"results": […], "total": n}`.

use crate::call::{Answer, Query, ok};
use crate::problem::Problem;
use serde_json::{Value as Json, json};
use std::cmp::Ordering;

/// Rows of a page where the caller names no size.
const SIZE_DEFAULT: usize = 10;
/// No page is larger; a caller who wants more asks for the next one.
const SIZE_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged {
    pub page: usize,
    pub size: usize,
    /// Field, and whether it ascends.
    pub sort: Vec<(String, bool)>,
}

impl Paged {
    pub fn read(query: &Query) -> Result<Paged, Problem> {
        let whole = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
        let page = query.read("page", "a whole number from 1 on", whole)?.unwrap_or(1);
        let size = query.read("size", "a whole number from 1 on", whole)?.unwrap_or(SIZE_DEFAULT);
        let sort = query.all("sort").map(|text| match text.split_once(':') {
            Some((field, way)) if !field.is_empty() => Ok((field.to_owned(), way.eq_ignore_ascii_case("asc"))),
            _ => Err(Problem::query("sort", "Invalid sort parameter: write it as field:asc or field:desc")),
        });
        Ok(Paged { page, size: size.min(SIZE_MAX), sort: sort.collect::<Result<_, _>>()? })
    }

    /// How many rows come before the page.
    pub fn skip(&self) -> usize {
        (self.page - 1).saturating_mul(self.size)
    }

    /// Sorts by the fields that are asked for, which must be among these; rows that are equal in them stay as they were.
    pub fn sort<T>(&self, rows: &mut [T], fields: &[&str], value: impl Fn(&T, &str) -> String) -> Result<(), Problem> {
        for (field, ascends) in self.sort.iter().rev() {
            if !fields.contains(&field.as_str()) {
                return Err(Problem::query("sort", format!("Invalid sort parameter: nothing is sorted by `{field}`")));
            }
            rows.sort_by(|a, b| {
                let order = value(a, field).cmp(&value(b, field));
                if *ascends { order } else { Ordering::reverse(order) }
            });
        }
        Ok(())
    }

    /// The page of rows that are all there.
    pub fn answer<T>(&self, rows: &[T], item: impl FnMut(&T) -> Json) -> Answer {
        let page: Vec<Json> = rows.iter().skip(self.skip()).take(self.size).map(item).collect();
        results(page, rows.len())
    }
}

pub fn results(page: Vec<Json>, total: usize) -> Answer {
    ok(json!({"results": page, "total": total}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Code;

    fn paged(pairs: &[(&str, &str)]) -> Result<Paged, Code> {
        let query = Query(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        Paged::read(&query).map_err(|problem| problem.code)
    }

    #[test]
    fn pages_begin_at_one() {
        assert_eq!(paged(&[]), Ok(Paged { page: 1, size: 10, sort: vec![] }));
        assert_eq!(paged(&[("page", "3"), ("size", "20")]).unwrap().skip(), 40);
        for bad in [("page", "0"), ("size", "0"), ("size", "-1"), ("page", "x"), ("sort", "id"), ("sort", ":asc")] {
            assert_eq!(paged(&[bad]), Err(Code::QueryInvalid), "{bad:?}");
        }
    }

    #[test]
    fn the_first_sort_counts_most() {
        let paged = paged(&[("sort", "a:desc"), ("sort", "b:asc")]).unwrap();
        let mut rows = vec![("1", "y"), ("2", "y"), ("2", "x")];
        let by = |row: &(&str, &str), field: &str| if field == "a" { row.0.to_owned() } else { row.1.to_owned() };
        paged.sort(&mut rows, &["a", "b"], by).unwrap();
        assert_eq!(rows, [("2", "x"), ("2", "y"), ("1", "y")]);
        let odd = Paged { sort: vec![("colour".to_owned(), true)], ..paged };
        assert!(odd.sort(&mut [("", ""); 0], &["a", "b"], by).is_err());
    }
}
