//! Files that a card names: of this machine, or served by a worker.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dynosim_wire::card::CheckedFile;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::TextError;

/// Largest file of a model's text side in bytes; the largest known tokenizers have about 40 MB.
const MAX_FILE_BYTES: usize = 256 * 1024 * 1024;
/// Time for the fetch of one file.
const FETCH_TIME: Duration = Duration::from_mins(1);

/// Reads a file and verifies its checksum.
pub(crate) async fn read(file: &CheckedFile) -> Result<Bytes, TextError> {
    let content = if file.path.starts_with("http://") { fetch(&file.path).await } else { local(&file.path).await };
    let content = content.map_err(|reason| TextError::new(&file.path, reason))?;
    let sum = format!("blake3:{}", blake3::hash(&content).to_hex());
    if sum != file.checksum {
        return Err(TextError::new(&file.path, format!("checksum {sum}, but the card says {}", file.checksum)));
    }
    Ok(content)
}

async fn local(path: &str) -> Result<Bytes, String> {
    let size = tokio::fs::metadata(path).await.map_err(|e| e.to_string())?.len();
    if size > MAX_FILE_BYTES as u64 {
        return Err(format!("{size} bytes (allowed: at most {MAX_FILE_BYTES})"));
    }
    tokio::fs::read(path).await.map(Bytes::from).map_err(|e| e.to_string())
}

async fn fetch(url: &str) -> Result<Bytes, String> {
    let uri = url.parse().map_err(|e| format!("not a URL: {e}"))?;
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let fetched = async {
        let response = client.get(uri).await.map_err(|e| e.to_string())?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status()));
        }
        let mut body = Limited::new(response.into_body(), MAX_FILE_BYTES);
        let mut content = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|e| e.to_string())?.into_data() {
                content.extend_from_slice(&data);
            }
        }
        Ok(content.freeze())
    };
    tokio::time::timeout(FETCH_TIME, fetched).await.unwrap_or_else(|_| Err(format!("not there after {FETCH_TIME:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_with_another_content_than_the_card_says_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, "{}").unwrap();
        let path = path.to_str().unwrap().to_owned();
        let checksum = format!("blake3:{}", blake3::hash(b"{}").to_hex());
        let good = CheckedFile { path: path.clone(), checksum, size: Some(2) };
        assert_eq!(read(&good).await.unwrap(), "{}");
        let bad = CheckedFile { checksum: "blake3:00".to_owned(), ..good };
        let error = read(&bad).await.unwrap_err();
        assert!(error.to_string().contains(&path) && error.to_string().contains("blake3:00"), "{error}");
    }

    #[tokio::test]
    async fn a_file_is_fetched_from_a_worker() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/metadata/a.json", listener.local_addr().unwrap());
        let server = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let length = socket.read(&mut head).await.unwrap();
            assert!(head[..length].starts_with(b"GET /v1/metadata/a.json HTTP/1.1"));
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        };
        let file = CheckedFile { path: url, checksum: format!("blake3:{}", blake3::hash(b"{}").to_hex()), size: None };
        let (content, ()) = tokio::join!(read(&file), server);
        assert_eq!(content.unwrap(), "{}");
    }
}
