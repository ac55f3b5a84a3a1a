//! One connection and what goes over it, written and read by hand: the generator shares its processors with what it
//! measures.

use super::broken;
use crate::failure::Failure;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer larger than this is none of ours.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

pub struct Wire {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Result<Wire, Failure> {
        let stream = TcpStream::connect(address).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(Wire { stream, answer: Vec::with_capacity(4096) })
    }

    /// Sends a request and reads the whole answer; what its body is, if it is not a refusal.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        self.stream.write_all(request).await.map_err(broken)?;
        self.answer.clear();
        let mut whole = None;
        loop {
            if let Some((body, length)) = whole.or_else(|| head(&self.answer)) {
                if self.answer.len() >= body + length {
                    return self.check(body);
                }
                whole = Some((body, length));
            }
            let read = self.stream.read_buf(&mut self.answer).await.map_err(broken)?;
            if read == 0 || self.answer.len() > ANSWER_BYTES_MAX {
                return Err(broken("the server closed the connection or answered at length"));
            }
        }
    }

    /// All of the last answer, for people.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.answer).into_owned()
    }

    fn check(&self, body: usize) -> Result<&[u8], Failure> {
        // "HTTP/1.1 2xx"
        if self.answer.get(9) == Some(&b'2') {
            return Ok(&self.answer[body..]);
        }
        Err(broken(format!("the server refused: {}", self.text())))
    }
}

/// Where the body begins and how long it is, once the head is there. An answer without content has no length.
fn head(answer: &[u8]) -> Option<(usize, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&answer[..end]).ok()?;
    let length = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") { value.trim().parse().ok() } else { None }
    });
    let nothing = text.starts_with("HTTP/1.1 204").then_some(0);
    Some((end + 4, length.or(nothing)?))
}

pub fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_by_its_length() {
        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\nx: y\r\n\r\nhello";
        assert_eq!(head(answer), Some((50, 5)));
        assert_eq!(head(&answer[..30]), None);
        assert_eq!(head(b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n"), Some((33, 0)));
        assert!(contains(b"abc", b"bc") && !contains(b"abc", b"cb"));
    }
}
