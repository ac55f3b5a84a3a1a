//! A wire between a store and its server that can be cut at the worst moment.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of the next flight that would commit a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never sees it.
    Before,
    /// The server carries it out; its answer is lost.
    After,
    /// The store loses its connection at once, and the server gets the flight this much later.
    Late(Duration),
}

pub struct Proxy {
    port: u16,
    armed: Arc<Mutex<Option<Cut>>>,
}

impl Proxy {
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let armed = Arc::new(Mutex::new(None));
        let cuts = armed.clone();
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                wire(client, server, cuts.clone());
            }
        });
        Proxy { port, armed }
    }

    pub fn address(&self) -> String {
        format!("postgres://semel@127.0.0.1:{}/postgres", self.port)
    }

    pub fn arm(&self, cut: Cut) {
        *self.armed.lock().unwrap() = Some(cut);
    }

    /// Whether the cut was made.
    pub fn is_cut(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }
}

fn wire(client: TcpStream, server: TcpStream, armed: Arc<Mutex<Option<Cut>>>) {
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        up(client, server, &armed);
    });
}

fn has(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

/// From the store to the server.
fn up(mut client: TcpStream, mut server: TcpStream, armed: &Mutex<Option<Cut>>) {
    let mut buffer = vec![0; 1 << 16];
    let mut held: Vec<u8> = Vec::new();
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..count];
        // Only the last flight of a writer says this.
        let begins = armed.lock().unwrap().is_some() && has(bytes, b"SET counter");
        if !begins && held.is_empty() {
            if server.write_all(bytes).is_err() {
                break;
            }
            continue;
        }
        held.extend_from_slice(bytes);
        if has(&held, b"COMMIT\0") {
            if let Some(cut) = armed.lock().unwrap().take() {
                sever(cut, &held, &client, &mut server);
                return;
            }
            let _ = server.write_all(&held);
            held.clear();
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn sever(cut: Cut, flight: &[u8], client: &TcpStream, server: &mut TcpStream) {
    let deaf = || client.shutdown(Shutdown::Both);
    match cut {
        Cut::Before => {}
        Cut::After => {
            // Deaf first: no answer gets through.
            let _ = deaf();
            let _ = server.write_all(flight);
            std::thread::sleep(Duration::from_millis(200));
        }
        Cut::Late(delay) => {
            let _ = deaf();
            std::thread::sleep(delay);
            let _ = server.write_all(flight);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let _ = deaf();
    let _ = server.shutdown(Shutdown::Both);
}
