//! A server that answers every request with the same event stream, for measuring the load generator against.
//!
//! `cargo run --release -p dynosim-load --example fixed_server -- [PORT [TOKENS [FIRST_MS [GAP_MS]]]]`; without gaps
//! the whole answer goes out in one write, which makes the generator's own cost the most visible.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const MODELS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\n{\"data\":[{\"id\":\"fixed\"}]}";

struct Script {
    tokens: u32,
    first: Duration,
    gap: Duration,
    event: Vec<u8>,
    tail: Vec<u8>,
    /// All of it, where nothing waits.
    whole: Vec<u8>,
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

impl Script {
    fn new(tokens: u32, first: Duration, gap: Duration) -> Self {
        let event = |choice: &str, rest: &str| {
            format!(
                "data: {{\"id\":\"cmpl-4f8a2c31-9f60-4c0e-8a10-3d1f66c7a002\",\"choices\":[{choice}],\
                 \"created\":1790000000,\"model\":\"fixed\",\"object\":\"text_completion\"{rest}}}\n\n"
            )
        };
        let token = chunk(&event(r#"{"text":"x","index":0,"finish_reason":null,"logprobs":null}"#, ""));
        let finish = chunk(&event(r#"{"text":"","index":0,"finish_reason":"length","logprobs":null}"#, ""));
        let usage = format!(
            ",\"usage\":{{\"prompt_tokens\":100,\"completion_tokens\":{tokens},\"total_tokens\":200,\
             \"prompt_tokens_details\":{{\"cached_tokens\":0}}}}"
        );
        let tail = [finish, chunk(&event("", &usage)), chunk("data: [DONE]\n\n"), b"0\r\n\r\n".to_vec()].concat();
        let whole = [HEAD.as_bytes(), &token.repeat(tokens as usize), &tail].concat();
        Self { tokens, first, gap, event: token, tail, whole }
    }

    async fn answer(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        if self.gap.is_zero() {
            if !self.first.is_zero() {
                tokio::time::sleep(self.first).await;
            }
            return stream.write_all(&self.whole).await;
        }
        stream.write_all(HEAD.as_bytes()).await?;
        let begin = tokio::time::Instant::now() + self.first;
        for token in 0..self.tokens {
            tokio::time::sleep_until(begin + self.gap * token).await;
            stream.write_all(&self.event).await?;
        }
        stream.write_all(&self.tail).await
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut received, mut buffer) = (Vec::new(), vec![0; 8192]);
        loop {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            received.extend_from_slice(&buffer[..count]);
            let Some(head) = received.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            if received.starts_with(b"GET") {
                stream.write_all(MODELS.as_bytes()).await?;
                received.clear();
                continue;
            }
            let text = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
            let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if received.len() >= head + 4 + length {
                received.clear();
                self.answer(&mut stream).await?;
            }
        }
    }
}

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse().unwrap_or(0));
    let port = numbers.next().unwrap_or(8100);
    let tokens = numbers.next().unwrap_or(32);
    let mut span = || Duration::from_millis(numbers.next().unwrap_or(0).into());
    let script: &'static Script = Box::leak(Box::new(Script::new(tokens, span(), span())));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = ("127.0.0.1", u16::try_from(port).unwrap_or(8100));
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(std::net::SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.1))?;
        let listener: TcpListener = socket.listen(16_384)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(script.serve(stream));
        }
    })
}
