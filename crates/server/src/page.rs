//! Pages of lists: `limit`, an opaque `cursor`, `{"items": […], "next_cursor": …}`.

use crate::codes::Code;
use crate::problem::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value as Json, json};

/// Rows of a page where the caller names no limit.
pub const LIMIT_DEFAULT: u32 = 50;

/// Makes a cursor of the last row's id. The kind keeps one list's cursor out of another.
pub fn encode_cursor(kind: &str, last: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{kind}:{last}"))
}

/// The id inside a cursor.
pub fn decode_cursor(kind: &str, cursor: &str) -> Result<String, Problem> {
    let refused = || {
        Problem::new(
            Code::CursorInvalid,
            "the cursor is not one this list gave; leave it out to begin at the first page",
        )
    };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
    let text = String::from_utf8(bytes).map_err(|_| refused())?;
    let last = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':')).ok_or_else(refused)?;
    Ok(last.to_owned())
}

/// What the caller wants of a list.
#[derive(Clone, Debug)]
pub struct Page {
    kind: &'static str,
    pub limit: u32,
    cursor: Option<String>,
}

impl Page {
    pub fn new(kind: &'static str, limit: Option<&str>, cursor: Option<&str>, rows_max: u32) -> Result<Page, Problem> {
        let limit = match limit {
            None => LIMIT_DEFAULT,
            Some(text) => match text.parse::<u32>() {
                Ok(limit) if limit > 0 => limit,
                _ => return Err(Problem::query("limit", "must be a whole number from 1 on")),
            },
        };
        let cursor = cursor.map(|cursor| decode_cursor(kind, cursor)).transpose()?;
        Ok(Page { kind, limit: limit.min(rows_max.max(1)), cursor })
    }

    /// One row more than the page: its presence says that there is a next page.
    pub fn fetch(&self) -> u32 {
        self.limit.saturating_add(1)
    }

    /// The last id of the previous page.
    pub fn after(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The last id of the previous page, read as what the list is ordered by.
    pub fn after_as<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(text) = &self.cursor else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| {
            Problem::new(Code::CursorInvalid, "the cursor is damaged; leave it out to begin at the first page")
        })
    }

    /// The answer, from rows fetched with [`Page::fetch`].
    pub fn answer<T>(&self, mut rows: Vec<T>, id: impl Fn(&T) -> String, item: impl Fn(&T) -> Json) -> Json {
        let more = rows.len() > self.limit as usize;
        rows.truncate(self.limit as usize);
        let next = rows.last().filter(|_| more).map(|row| encode_cursor(self.kind, &id(row)));
        json!({"items": rows.iter().map(item).collect::<Vec<_>>(), "next_cursor": next})
    }

    /// The answer, from all rows of a short list. The cursor is a position.
    pub fn answer_slice<T>(&self, rows: &[T], item: impl Fn(&T) -> Json) -> Result<Json, Problem> {
        let start: usize = self.after_as(|text| text.parse().ok())?.unwrap_or(0);
        let start = start.min(rows.len());
        let end = rows.len().min(start + self.limit as usize);
        let next = (end < rows.len()).then(|| encode_cursor(self.kind, &end.to_string()));
        Ok(json!({"items": rows[start..end].iter().map(item).collect::<Vec<_>>(), "next_cursor": next}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_stay_with_their_list() {
        for last in ["", "a", "0190-ü", "x:y"] {
            let cursor = encode_cursor("runs", last);
            assert!(cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            assert_eq!(decode_cursor("runs", &cursor).unwrap(), last);
            assert_eq!(decode_cursor("keys", &cursor).unwrap_err().code, Code::CursorInvalid);
        }
        for bad in ["", "%", "AAAA", "cnVuc3M6YQ"] {
            assert_eq!(decode_cursor("runs", bad).unwrap_err().code, Code::CursorInvalid, "{bad}");
        }
    }

    #[test]
    fn limits_are_clamped_not_refused() {
        assert_eq!(Page::new("x", None, None, 500).unwrap().limit, 50);
        assert_eq!(Page::new("x", Some("500"), None, 500).unwrap().limit, 500);
        assert_eq!(Page::new("x", Some("501"), None, 500).unwrap().limit, 500);
        for bad in ["0", "-1", "many", ""] {
            assert_eq!(Page::new("x", Some(bad), None, 500).unwrap_err().code, Code::QueryInvalid, "{bad}");
        }
    }

    #[test]
    fn a_full_page_has_a_next_one_and_the_last_has_none() {
        let page = Page::new("x", Some("2"), None, 500).unwrap();
        let answer = page.answer(vec![1, 2, 3], |n| n.to_string(), |n| json!(n));
        assert_eq!(answer["items"], json!([1, 2]));
        let next = answer["next_cursor"].as_str().unwrap().to_owned();
        assert_eq!(Page::new("x", None, Some(&next), 500).unwrap().after(), Some("2"));
        assert_eq!(page.answer(vec![1, 2], |n| n.to_string(), |n| json!(n))["next_cursor"], Json::Null);
        let rows = [1, 2, 3];
        let first = page.answer_slice(&rows, |n| json!(n)).unwrap();
        let second = Page::new("x", Some("2"), first["next_cursor"].as_str(), 500).unwrap();
        assert_eq!(second.answer_slice(&rows, |n| json!(n)).unwrap(), json!({"items": [3], "next_cursor": null}));
    }
}
