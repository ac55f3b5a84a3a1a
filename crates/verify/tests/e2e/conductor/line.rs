//! A line between a client and the server that breaks when an answer is on its way: the request has arrived and done its
//! work, and the client cannot know.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

struct Breaks {
    /// How a request begins whose answer is lost.
    request: String,
    left: AtomicU32,
    /// Such requests that passed, answered or not.
    seen: AtomicU32,
}

pub struct Line {
    address: SocketAddr,
    breaks: Arc<Breaks>,
}

impl Line {
    /// To the server at `url`. The answers to the first `lost` requests that begin with `request` are lost.
    pub async fn start(url: &str, request: &str, lost: u32) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let breaks =
            Arc::new(Breaks { request: request.to_owned(), left: AtomicU32::new(lost), seen: AtomicU32::new(0) });
        let (own, target) = (breaks.clone(), url.trim_start_matches("http://").to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Nobody there: the client finds a closed connection, as it would without the line.
                if let Ok(server) = TcpStream::connect(&target).await {
                    carry(client, server, own.clone());
                }
            }
        });
        Line { address, breaks }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn seen(&self) -> u32 {
        self.breaks.seen.load(Ordering::SeqCst)
    }

    pub fn lost_all(&self) -> bool {
        self.breaks.left.load(Ordering::SeqCst) == 0
    }
}

/// Both ways, until one end closes.
fn carry(client: TcpStream, server: TcpStream, breaks: Arc<Breaks>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let armed = Arc::new(AtomicU32::new(0));
    let there = tokio::spawn(requests(from_client, to_server, breaks.clone(), armed.clone()));
    tokio::spawn(async move {
        answers(from_server, to_client, breaks, armed).await;
        there.abort();
    });
}

/// A request begins with the bytes of a packet: clients here do not send two at once.
async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, breaks: Arc<Breaks>, armed: Arc<AtomicU32>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut bytes).await {
        if bytes[..count].starts_with(breaks.request.as_bytes()) {
            breaks.seen.fetch_add(1, Ordering::SeqCst);
            armed.store(1, Ordering::SeqCst);
        }
        if count == 0 || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, breaks: Arc<Breaks>, armed: Arc<AtomicU32>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut bytes).await {
        if count > 0 && armed.swap(0, Ordering::SeqCst) == 1 {
            let less = |left: u32| left.checked_sub(1);
            if breaks.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
                return;
            }
        }
        if count == 0 || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
