//! The fields of a form: what `curl -F` sends. No body at all is an empty form.

use crate::call::Call;
use crate::codes::Code;
use crate::problem::Problem;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use serde_json::{Map, Value as Json};
use std::convert::Infallible;

/// Parts that one form may have.
const PARTS_MAX: usize = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub fields: Vec<(String, String)>,
    pub files: Vec<File>,
}

/// A part with a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The name of the part.
    pub field: String,
    /// The name of the file; the documented way to say which input it is for.
    pub name: String,
    pub bytes: Bytes,
}

impl Form {
    /// Fields by name; of two with one name the last counts.
    pub fn inputs(&self) -> Map<String, Json> {
        self.fields.iter().map(|(name, value)| (name.clone(), Json::String(value.clone()))).collect()
    }
}

fn unreadable() -> Problem {
    Problem::new(Code::BodyUnreadable, "the body is not a form; send multipart/form-data, as curl -F does")
}

/// Reads the body of a request.
pub async fn read(call: &Call) -> Result<Form, Problem> {
    let kind = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if call.body.is_empty() {
        return Ok(Form::default());
    }
    let plain = kind.split(';').next().unwrap_or_default().trim();
    if plain.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return urlencoded(&call.body);
    }
    let Ok(boundary) = multer::parse_boundary(kind) else {
        return Err(Problem::new(
            Code::UnsupportedMediaType,
            "inputs are sent as multipart/form-data, as curl -F does",
        ));
    };
    multipart(call.body.clone(), boundary).await
}

/// What `curl -d` sends unasked.
fn urlencoded(body: &[u8]) -> Result<Form, Problem> {
    let uri = format!("/?{}", std::str::from_utf8(body).map_err(|_| unreadable())?.trim());
    let uri = uri.parse().map_err(|_| unreadable())?;
    let axum::extract::Query(fields) =
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).map_err(|_| unreadable())?;
    Ok(Form { fields, files: Vec::new() })
}

async fn multipart(body: Bytes, boundary: String) -> Result<Form, Problem> {
    let stream = futures_util::stream::once(async { Ok::<Bytes, Infallible>(body) });
    let mut parts = multer::Multipart::new(stream, boundary);
    let mut form = Form::default();
    while let Some(part) = parts.next_field().await.map_err(|_| unreadable())? {
        if form.fields.len() + form.files.len() >= PARTS_MAX {
            return Err(Problem::new(Code::BodyTooLarge, format!("a form has at most {PARTS_MAX} parts")));
        }
        let field = part.name().unwrap_or_default().to_owned();
        let name = part.file_name().map(str::to_owned);
        let bytes = part.bytes().await.map_err(|_| unreadable())?;
        match name {
            Some(name) => form.files.push(File { field, name, bytes }),
            None => {
                let text = String::from_utf8(bytes.to_vec())
                    .map_err(|_| Problem::new(Code::BodyNotUtf8, format!("the field `{field}` is not UTF-8")))?;
                form.fields.push((field, text));
            }
        }
    }
    Ok(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fields_and_files_are_told_apart() {
        let body = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\npayment-1\r\n\
                    --b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"doc\"\r\n\
                    Content-Type: text/plain\r\n\r\nhello\r\n--b--\r\n";
        let form = multipart(Bytes::from(body), "b".into()).await.unwrap();
        assert_eq!(form.fields, [("key".to_owned(), "payment-1".to_owned())]);
        assert_eq!(form.files, [File { field: "files".into(), name: "doc".into(), bytes: "hello".into() }]);
        assert_eq!(form.inputs()["key"], "payment-1");
        let cut =
            multipart(Bytes::from("--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\npay"), "b".into()).await;
        assert_eq!(cut.unwrap_err().code, Code::BodyUnreadable);
    }

    #[test]
    fn what_curl_sends_unasked_is_read() {
        let form = urlencoded(b"a=1&b=x%20y").unwrap();
        assert_eq!(form.fields, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "x y".to_owned())]);
    }
}
