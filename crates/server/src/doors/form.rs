//! The fields of a form: what `curl -F` sends. No body at all is an empty form.
//!
//! A form is read as it arrives. Its fields are kept, and bounded as other bodies are; the bytes of its files go
//! wherever the [`Intake`] sends them, and are never in memory together.

use crate::call::Call;
use crate::codes::Code;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use semel_core::limits::Limits;
use serde_json::{Map, Value as Json};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Parts that one form may have.
const PARTS_MAX: usize = 1_000;

/// The fields, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub fields: Vec<(String, String)>,
}

impl Form {
    /// Fields by name; of two with one name the last counts.
    pub fn inputs(&self) -> Map<String, Json> {
        self.fields.iter().map(|(name, value)| (name.clone(), Json::String(value.clone()))).collect()
    }
}

/// Where the files of a form go. One begins, its bytes come, it ends; then the next.
pub trait Intake {
    /// False leaves the file aside. `kind` is its content type, if the sender gave one.
    fn begin(&mut self, field: &str, name: &str, kind: Option<&str>) -> bool;
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), Problem>> + Send;
    fn end(&mut self) -> impl Future<Output = Result<(), Problem>> + Send;
}

/// Files are not read, only their names are known: the part's and the file's own.
#[derive(Debug, Default)]
pub struct Names(pub Vec<(String, String)>);

impl Intake for Names {
    fn begin(&mut self, field: &str, name: &str, _: Option<&str>) -> bool {
        self.0.push((field.to_owned(), name.to_owned()));
        false
    }

    async fn write(&mut self, _: Bytes) -> Result<(), Problem> {
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Problem> {
        Ok(())
    }
}

/// Files that are small enough to be looked at as a whole.
#[derive(Debug, Default)]
pub struct Kept {
    pub files: Vec<File>,
    pub bytes_max: usize,
}

/// A part with a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The name of the part.
    pub field: String,
    /// The name of the file.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Intake for Kept {
    fn begin(&mut self, field: &str, name: &str, _: Option<&str>) -> bool {
        self.files.push(File { field: field.to_owned(), name: name.to_owned(), bytes: Vec::new() });
        true
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Problem> {
        let known: usize = self.files.iter().map(|file| file.bytes.len()).sum();
        if known + bytes.len() > self.bytes_max {
            return Err(too_large(self.bytes_max as u64));
        }
        if let Some(file) = self.files.last_mut() {
            file.bytes.extend_from_slice(&bytes);
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Problem> {
        Ok(())
    }
}

fn unreadable() -> Problem {
    Problem::new(Code::BodyUnreadable, "the body is not a form; send multipart/form-data, as curl -F does")
}

fn too_large(max: u64) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the form is larger than {max} bytes; nothing was started"))
}

/// Why no more of a body comes.
#[derive(Debug)]
enum Cut {
    Broken,
    Late,
    TooLarge(u64),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Error for Cut {}

impl From<&Cut> for Problem {
    fn from(cut: &Cut) -> Problem {
        match cut {
            Cut::Broken => Problem::new(Code::BodyUnreadable, "the body broke off; nothing was started"),
            Cut::Late => Problem::new(Code::BodyTimeout, "the body did not arrive in time; nothing was started"),
            Cut::TooLarge(max) => too_large(*max),
        }
    }
}

/// The pieces of a body, each in its time, and not more of them than the limit.
fn pieces(body: Body, limits: &Limits) -> impl Stream<Item = Result<Bytes, Cut>> + Send + use<> {
    let (idle, max) = (Duration::from_millis(limits.body_read_ms_max), limits.upload_bytes_max);
    stream::try_unfold((body.into_data_stream(), 0_u64), move |(mut body, seen)| async move {
        match tokio::time::timeout(idle, body.next()).await {
            Err(_) => Err(Cut::Late),
            Ok(None) => Ok(None),
            Ok(Some(Err(_))) => Err(Cut::Broken),
            Ok(Some(Ok(piece))) => {
                let seen = seen + piece.len() as u64;
                if seen > max { Err(Cut::TooLarge(max)) } else { Ok(Some((piece, (body, seen)))) }
            }
        }
    })
}

/// Reads the body of a request.
pub async fn read(call: &Call, files: &mut (impl Intake + Send)) -> Result<Form, Problem> {
    let limits = call.app.limits();
    let kind = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let reading = of_body(call.incoming.take(), kind, limits, files);
    match tokio::time::timeout(Duration::from_millis(limits.upload_read_ms_max), reading).await {
        Ok(form) => form,
        Err(_) => Err((&Cut::Late).into()),
    }
}

/// Of a body that is there already.
pub async fn of_bytes(
    body: Bytes,
    kind: &str,
    limits: &Limits,
    files: &mut (impl Intake + Send),
) -> Result<Form, Problem> {
    of_body(Body::from(body), kind, limits, files).await
}

async fn of_body(body: Body, kind: &str, limits: &Limits, files: &mut (impl Intake + Send)) -> Result<Form, Problem> {
    let mut pieces = Box::pin(pieces(body, limits).peekable());
    if pieces.as_mut().peek().await.is_none() {
        return Ok(Form::default());
    }
    let plain = kind.split(';').next().unwrap_or_default().trim();
    if plain.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return urlencoded(&gathered(pieces, limits.body_bytes_max).await?);
    }
    let Ok(boundary) = multer::parse_boundary(kind) else {
        return Err(Problem::new(
            Code::UnsupportedMediaType,
            "inputs are sent as multipart/form-data, as curl -F does",
        ));
    };
    multipart(pieces, boundary, limits.body_bytes_max, files).await
}

async fn gathered(
    mut pieces: impl Stream<Item = Result<Bytes, Cut>> + Unpin,
    bytes_max: usize,
) -> Result<Vec<u8>, Problem> {
    let mut all = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|cut| Problem::from(&cut))?;
        if all.len() + piece.len() > bytes_max {
            return Err(too_large(bytes_max as u64));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// What `curl -d` sends unasked.
fn urlencoded(body: &[u8]) -> Result<Form, Problem> {
    let uri = format!("/?{}", std::str::from_utf8(body).map_err(|_| unreadable())?.trim());
    let uri = uri.parse().map_err(|_| unreadable())?;
    let axum::extract::Query(fields) =
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).map_err(|_| unreadable())?;
    Ok(Form { fields })
}

/// The reader of forms hands on why its own source has ended.
fn refused(error: multer::Error) -> Problem {
    match &error {
        multer::Error::StreamReadFailed(cause) => match cause.downcast_ref::<Cut>() {
            Some(cut) => cut.into(),
            None => unreadable(),
        },
        _ => unreadable(),
    }
}

/// `fields_max`: bytes of all fields together.
async fn multipart(
    pieces: impl Stream<Item = Result<Bytes, Cut>> + Send + 'static,
    boundary: String,
    fields_max: usize,
    files: &mut (impl Intake + Send),
) -> Result<Form, Problem> {
    let mut parts = multer::Multipart::new(pieces, boundary);
    let (mut form, mut count, mut fields_bytes) = (Form::default(), 0, 0);
    while let Some(mut part) = parts.next_field().await.map_err(refused)? {
        count += 1;
        if count > PARTS_MAX {
            return Err(Problem::new(Code::BodyTooLarge, format!("a form has at most {PARTS_MAX} parts")));
        }
        let field = part.name().unwrap_or_default().to_owned();
        if let Some(name) = part.file_name().map(str::to_owned) {
            let kind = part.content_type().map(ToString::to_string);
            let wanted = files.begin(&field, &name, kind.as_deref());
            while let Some(piece) = part.chunk().await.map_err(refused)? {
                if wanted {
                    files.write(piece).await?;
                }
            }
            if wanted {
                files.end().await?;
            }
            continue;
        }
        let mut bytes = Vec::new();
        while let Some(piece) = part.chunk().await.map_err(refused)? {
            fields_bytes += piece.len();
            if fields_bytes > fields_max {
                let detail = format!("the fields of a form have at most {fields_max} bytes; send more as files");
                return Err(Problem::new(Code::BodyTooLarge, detail));
            }
            bytes.extend_from_slice(&piece);
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Problem::new(Code::BodyNotUtf8, format!("the field `{field}` is not UTF-8")))?;
        form.fields.push((field, text));
    }
    Ok(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=b";
    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\npayment-1\r\n\
        --b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"doc\"\r\n\
        Content-Type: text/plain\r\n\r\nhello\r\n--b--\r\n";

    /// In pieces of a few bytes, as a slow sender's come.
    fn body(text: &'static str) -> Body {
        Body::from_stream(stream::iter(text.as_bytes().chunks(7).map(|piece| Ok::<_, Cut>(Bytes::from_static(piece)))))
    }

    async fn of(text: &'static str, limits: Limits) -> (Result<Form, Code>, Vec<File>) {
        let mut kept = Kept { files: Vec::new(), bytes_max: 100 };
        let form = of_body(body(text), TYPE, &limits, &mut kept).await;
        (form.map_err(|problem| problem.code), kept.files)
    }

    #[tokio::test]
    async fn fields_and_files_are_told_apart() {
        let (form, files) = of(FORM, Limits::default()).await;
        let form = form.unwrap();
        assert_eq!(form.fields, [("key".to_owned(), "payment-1".to_owned())]);
        assert_eq!(files, [File { field: "files".into(), name: "doc".into(), bytes: b"hello".to_vec() }]);
        assert_eq!(form.inputs()["key"], "payment-1");
        let cut = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\npay";
        assert_eq!(of(cut, Limits::default()).await.0, Err(Code::BodyUnreadable));
        assert_eq!(of("", Limits::default()).await.0, Ok(Form::default()));
        let mut names = Names::default();
        of_body(body(FORM), TYPE, &Limits::default(), &mut names).await.unwrap();
        assert_eq!(names.0, [("files".to_owned(), "doc".to_owned())]);
    }

    #[tokio::test]
    async fn a_form_is_cut_at_its_limits() {
        let whole = FORM.len() as u64;
        let with = |upload_bytes_max, body_bytes_max| Limits { upload_bytes_max, body_bytes_max, ..Limits::default() };
        assert!(of(FORM, with(whole, 9)).await.0.is_ok());
        assert_eq!(of(FORM, with(whole - 1, 9)).await.0, Err(Code::BodyTooLarge));
        assert_eq!(of(FORM, with(whole, 8)).await.0, Err(Code::BodyTooLarge), "the fields count apart");
        let mut small = Kept { files: Vec::new(), bytes_max: 4 };
        let large = of_body(body(FORM), TYPE, &Limits::default(), &mut small).await;
        assert_eq!(large.unwrap_err().code, Code::BodyTooLarge);
    }

    #[test]
    fn what_curl_sends_unasked_is_read() {
        let form = urlencoded(b"a=1&b=x%20y").unwrap();
        assert_eq!(form.fields, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "x y".to_owned())]);
    }
}
