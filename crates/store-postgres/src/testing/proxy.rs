//! A wire between a process and its server: it can be cut at the worst moment, cut for a while, hold what is on it, or
//! lead to another server.
//!
//! | state of the line | connections there are | new ones |
//! |---|---|---|
//! | open | pass bytes | are made |
//! | cut | are closed; what was under way is lost | are closed at once |
//! | held | stay, and pass nothing: what is sent arrives when the line is open again, or never | the same |

use crate::session::COMMIT_BATCH;
use parking_lot::{Condvar, Mutex};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Open,
    Cut,
    Held,
}

struct Wires {
    line: Line,
    /// Where new connections lead.
    server: u16,
    /// What is connected, both ends of each, to be closed.
    ends: Vec<(TcpStream, TcpStream)>,
}

struct Shared {
    wires: Mutex<Wires>,
    changed: Condvar,
    armed: Mutex<Option<Cut>>,
}

pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let wires = Mutex::new(Wires { line: Line::Open, server, ends: Vec::new() });
        let shared = Arc::new(Shared { wires, changed: Condvar::new(), armed: Mutex::new(None) });
        let accepting = shared.clone();
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accepting.connect(client);
            }
        });
        Proxy { port, shared }
    }

    pub fn address(&self) -> String {
        format!("postgres://semel@127.0.0.1:{}/postgres", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn arm(&self, cut: Cut) {
        *self.shared.armed.lock() = Some(cut);
    }

    /// Whether the cut was made.
    pub fn is_cut(&self) -> bool {
        self.shared.armed.lock().is_none()
    }

    /// Closes every connection and refuses new ones.
    pub fn cut(&self) {
        self.shared.set(Line::Cut);
    }

    /// Nothing gets through, and nobody is told.
    pub fn hold(&self) {
        self.shared.set(Line::Held);
    }

    /// Opens the line again. What was held goes on its way.
    pub fn heal(&self) {
        self.shared.set(Line::Open);
    }

    /// Closes every connection; new ones lead to this server.
    pub fn switch(&self, server: u16) {
        self.shared.wires.lock().server = server;
        self.cut();
        self.heal();
    }
}

impl Shared {
    fn set(&self, line: Line) {
        let mut wires = self.wires.lock();
        wires.line = line;
        if line == Line::Cut {
            for (client, server) in wires.ends.drain(..) {
                // Either may be closed already.
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            }
        }
        self.changed.notify_all();
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        let mut wires = self.wires.lock();
        if wires.line == Line::Cut {
            return;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", wires.server)) else { return };
        // Flights are small: each is sent as it comes.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let copy = |stream: &TcpStream| stream.try_clone().expect("a handle");
        wires.ends.retain(|(client, _)| client.peer_addr().is_ok());
        wires.ends.push((copy(&client), copy(&server)));
        let (from_server, to_client) = (copy(&server), copy(&client));
        let (down, up) = (self.clone(), self.clone());
        std::thread::spawn(move || down.down(from_server, to_client));
        std::thread::spawn(move || up.up(client, server));
    }

    /// Returns when the line is not held.
    fn wait(&self) {
        let mut wires = self.wires.lock();
        while wires.line == Line::Held {
            self.changed.wait(&mut wires);
        }
    }

    /// From the server to the store.
    fn down(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            self.wait();
            if client.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }

    /// From the store to the server.
    fn up(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            self.wait();
            let bytes = &buffer[..count];
            let commits = has(bytes, COMMIT_BATCH.as_bytes());
            if let Some(cut) = self.armed.lock().take_if(|_| commits) {
                return sever(cut, bytes, &client, &mut server);
            }
            if server.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    }
}

fn has(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets, with its name before it.
    fn echo(name: u8) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut buffer = [0; 64];
                    while let Ok(count @ 1..) = client.read(&mut buffer) {
                        let _ = client.write_all(&[&[name], &buffer[..count]].concat());
                    }
                });
            }
        });
        port
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
        stream
    }

    /// What comes back: bytes, nothing (`None`), or the end (an empty text).
    fn heard(stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut buffer = [0; 64];
        match stream.read(&mut buffer) {
            Ok(count) => Some(buffer[..count].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Some(Vec::new()),
            Err(_) => None,
        }
    }

    #[test]
    fn a_line_passes_is_held_is_cut_and_leads_elsewhere() {
        let proxy = Proxy::to(echo(b'1'));
        let mut wire = connect(&proxy);
        wire.write_all(b"a").expect("open");
        assert_eq!(heard(&mut wire).as_deref(), Some(&b"1a"[..]));
        proxy.hold();
        wire.write_all(b"b").expect("held");
        assert_eq!(heard(&mut wire), None);
        proxy.heal();
        assert_eq!(heard(&mut wire).as_deref(), Some(&b"1b"[..]));
        proxy.cut();
        assert_eq!(heard(&mut wire).as_deref(), Some(&b""[..]));
        assert_eq!(heard(&mut connect(&proxy)).as_deref(), Some(&b""[..]));
        proxy.switch(echo(b'2'));
        let mut other = connect(&proxy);
        other.write_all(b"c").expect("open");
        assert_eq!(heard(&mut other).as_deref(), Some(&b"2c"[..]));
    }

    #[test]
    fn what_was_held_when_the_line_is_cut_is_lost() {
        let proxy = Proxy::to(echo(b'1'));
        let mut wire = connect(&proxy);
        wire.write_all(b"a").expect("open");
        assert_eq!(heard(&mut wire).as_deref(), Some(&b"1a"[..]));
        proxy.hold();
        wire.write_all(b"b").expect("held");
        assert_eq!(heard(&mut wire), None);
        proxy.cut();
        proxy.heal();
        assert_eq!(heard(&mut wire).as_deref(), Some(&b""[..]));
    }
}
