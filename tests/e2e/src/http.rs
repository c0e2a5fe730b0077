//! HTTP to what listens in a cluster, through the API server: it needs no route to the cluster's networks.

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// A port of a pod or of a service.
#[derive(Clone)]
pub struct Endpoint {
    client: Client,
    /// Path at the API server that stands for the root.
    root: String,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body, with what is no UTF-8 replaced.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Endpoint {
    pub(crate) fn new(client: &Client, namespace: &str, kind: &str, name: &str, port: u16) -> Self {
        let root = format!("/api/v1/namespaces/{namespace}/{kind}/{name}:{port}/proxy");
        Self { client: client.clone(), root }
    }

    /// A whole answer to `GET`; an error says why there is none.
    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        whole(self.send(Method::GET, path, Body::empty()).await?).await
    }

    /// A whole answer to `POST`; an error says why there is none.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, String> {
        whole(self.send(Method::POST, path, body.to_string().into_bytes().into()).await?).await
    }

    /// The events that answer a `POST`; an error says why there are none.
    pub async fn stream(&self, path: &str, body: &Value) -> Result<Events, String> {
        let response = self.send(Method::POST, path, body.to_string().into_bytes().into()).await?;
        if response.status() == StatusCode::OK {
            return Ok(Events { body: response.into_body(), read: Vec::new() });
        }
        let answer = whole(response).await?;
        Err(format!("{}: {}", answer.status, answer.body))
    }

    async fn send(&self, method: Method, path: &str, body: Body) -> Result<Response<Body>, String> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.root));
        let request = request.header("content-type", "application/json").body(body).expect("a request");
        self.client.send(request).await.map_err(|error| error.to_string())
    }
}

async fn whole(response: Response<Body>) -> Result<Answer, String> {
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

/// Server-sent events as they come.
#[derive(Debug)]
pub struct Events {
    body: Body,
    read: Vec<u8>,
}

impl Events {
    /// Data of the next event; none at the end of the body. An error says how the body broke off.
    pub async fn next(&mut self) -> Result<Option<String>, String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<_> = self.read.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event);
                let data: Vec<_> = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
                if !data.is_empty() {
                    return Ok(Some(data.join("\n")));
                }
            } else {
                match self.body.frame().await {
                    Some(Ok(frame)) => self.read.extend(frame.data_ref().into_iter().flatten()),
                    Some(Err(error)) => return Err(error.to_string()),
                    None if self.read.is_empty() => return Ok(None),
                    None => return Err(format!("half an event: {}", String::from_utf8_lossy(&self.read))),
                }
            }
        }
    }
}
