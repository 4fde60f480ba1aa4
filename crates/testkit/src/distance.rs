//! A server that is farther away: a relay before it holds every byte for a while, in both directions.
//!
//! What it is like is a network with a delay and no other limit: no loss, no bandwidth, no slow start. A connection's first bytes wait one round trip
//! more, which opening it would take. The relay runs in threads of its own and not on tokio's timers, which are a millisecond coarse.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks under way in one direction of a connection.
const CHUNKS_MAX: usize = 1024;

/// A running relay. Dropping it takes no more connections; those that are open end with either side.
#[derive(Debug)]
pub struct Distance {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

/// A chunk, and when it may arrive.
type Held = (Instant, Vec<u8>);

impl Distance {
    /// Listens on loopback before the `host:port` of `upstream`, an `http` URL, so that a byte takes `one_way` to it and as long back.
    ///
    /// # Errors
    /// When the URL is another, or no port is free.
    pub fn before(upstream: &str, one_way: Duration) -> Result<Self> {
        let upstream = upstream.strip_prefix("http://").context("the upstream is no http URL")?.trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&ended);
        thread::Builder::new().name("distance".to_owned()).spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ends.load(Ordering::SeqCst) {
                    break;
                }
                // A connection that cannot be carried is closed, as one to a server that is gone.
                let _ = open(client, &upstream, one_way);
            }
        })?;
        Ok(Self { address, ended })
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // It waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn open(client: TcpStream, upstream: &str, one_way: Duration) -> Result<()> {
    let server = TcpStream::connect(upstream)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let opened = Instant::now() + one_way * 2;
    let (requests, answers) = ((client.try_clone()?, server.try_clone()?), (server, client));
    for ((from, to), opened) in [(requests, opened), (answers, Instant::now())] {
        let (hold, held) = mpsc::channel(CHUNKS_MAX);
        thread::Builder::new().name("distance-take".to_owned()).spawn(move || take(from, &hold, opened, one_way))?;
        thread::Builder::new().name("distance-give".to_owned()).spawn(move || give(held, to))?;
    }
    Ok(())
}

/// Takes what comes, until the end of it or of the other side.
fn take(mut from: TcpStream, hold: &mpsc::Sender<Held>, opened: Instant, one_way: Duration) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = opened.max(Instant::now()) + one_way;
        let chunk = buffer.get(..length).unwrap_or_default().to_vec();
        if hold.blocking_send((due, chunk)).is_err() {
            break;
        }
    }
}

/// Gives every chunk when it is due, and then the end.
fn give(mut held: mpsc::Receiver<Held>, mut to: TcpStream) {
    while let Some((due, chunk)) = held.blocking_recv() {
        #[expect(clippy::disallowed_methods, reason = "to wait is what this thread is for, and it serves nobody else")]
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&chunk).is_err() {
            // Whoever still sends is told.
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_WAY: Duration = Duration::from_millis(20);

    /// Sends back what it is sent, in larger letters, until the end.
    fn shouting() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut buffer = [0; 1000];
                while let Ok(length @ 1..) = client.read(&mut buffer) {
                    client.write_all(&buffer[..length].to_ascii_uppercase()).unwrap();
                }
            }
        });
        format!("http://{address}")
    }

    #[test]
    fn every_byte_comes_back_in_order_and_never_before_its_time() {
        let far = Distance::before(&shouting(), ONE_WAY).unwrap();
        let mut connection = TcpStream::connect(far.endpoint().strip_prefix("http://").unwrap()).unwrap();
        let mut trip = |text: &str| {
            let began = Instant::now();
            connection.write_all(text.as_bytes()).unwrap();
            let mut back = vec![0; text.len()];
            connection.read_exact(&mut back).unwrap();
            assert_eq!(back, text.to_ascii_uppercase().as_bytes());
            began.elapsed()
        };
        assert!(trip("first") >= ONE_WAY * 4, "opening takes a round trip");
        assert!(trip("second") >= ONE_WAY * 2);
        assert!(trip(&"x".repeat(3 * CHUNK_BYTES)) >= ONE_WAY * 2);
        connection.shutdown(Shutdown::Write).unwrap();
        assert_eq!(connection.read(&mut [0; 1]).unwrap(), 0, "the end comes through both ways");
    }

    #[test]
    fn a_relay_that_is_dropped_takes_no_more_connections() {
        let far = Distance::before(&shouting(), ONE_WAY).unwrap();
        let address = far.address;
        drop(far);
        let answered = TcpStream::connect(address).and_then(|mut connection| {
            connection.write_all(b"x")?;
            connection.read(&mut [0; 1])
        });
        assert!(!matches!(answered, Ok(1)));
    }
}
