//! A server that does to a connection whatever a test wants.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Head of an event stream in chunks.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of a body.
pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Calls `behave` after each request; a connection whose call gives false is closed. The thread ends with the test's
/// process.
pub(crate) fn serve(behave: impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let behave = Arc::new(behave);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, behave) = (stream.unwrap(), Arc::clone(&behave));
            std::thread::spawn(move || while read_request(&mut stream).is_some() && behave(&mut stream) {});
        }
    });
    address
}

/// A server that answers everything with the same bytes and closes.
pub(crate) fn answer(text: impl Into<String>) -> SocketAddr {
    let text = text.into();
    serve(move |stream| {
        let _ = stream.write_all(text.as_bytes());
        false
    })
}

fn read_request(stream: &mut TcpStream) -> Option<()> {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
        received.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&received);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length:").nth(1)?.split("\r\n").next()?.trim();
        if body.len() >= length.parse().unwrap() {
            return Some(());
        }
    }
}
