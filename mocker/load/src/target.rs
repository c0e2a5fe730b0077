//! The server's address.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long one of several addresses may take to answer when the first that does is looked for.
const PICK_TIMEOUT: Duration = Duration::from_secs(2);

/// An address that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not of the form that is understood.
    #[error("`{url}` cannot be used: {why} (allowed: http://HOST[:PORT][/PATH])")]
    Form {
        /// As given.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The name leads nowhere.
    #[error("`{host}` cannot be resolved: {source}")]
    Resolve {
        /// The name with its port.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// A header field that cannot be sent.
    #[error("header `{0}` cannot be used (allowed: NAME: VALUE)")]
    Header(String),
}

/// A server, its address known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As the `host` field of a request names it.
    pub(crate) host: String,
    /// What comes before `/v1`.
    pub(crate) prefix: String,
    pub(crate) address: SocketAddr,
    /// Further header lines, each with its line end.
    pub(crate) headers: String,
}

impl Target {
    /// Takes `http://HOST[:PORT][/PATH]`; the path may end in `/v1`, as base URLs of `OpenAI` clients do.
    pub fn resolve(url: &str) -> Result<Self, TargetError> {
        let (host, prefix) = split(url).map_err(|why| TargetError::Form { url: url.to_owned(), why })?;
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let named = if has_port { host.clone() } else { format!("{host}:80") };
        let failed = |source| TargetError::Resolve { host: named.clone(), source };
        let addresses: Vec<_> = named.to_socket_addrs().map_err(failed)?.collect();
        let address = pick(&addresses).ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        Ok(Self { host, prefix, address, headers: String::new() })
    }

    /// Adds a header field, `NAME: VALUE`, to every request.
    pub fn with_header(mut self, field: &str) -> Result<Self, TargetError> {
        let refuse = || TargetError::Header(field.to_owned());
        let (name, value) = field.split_once(':').ok_or_else(refuse)?;
        let token = |letter: u8| letter.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&letter);
        let ours = ["host", "content-length", "content-type", "transfer-encoding", "connection", "accept"];
        let holds = !name.is_empty()
            && name.bytes().all(token)
            && !ours.contains(&name.to_ascii_lowercase().as_str())
            && value.bytes().all(|letter| letter == b'\t' || (b' '..=b'~').contains(&letter));
        if !holds {
            return Err(refuse());
        }
        self.headers.extend([name, ": ", value.trim(), "\r\n"]);
        Ok(self)
    }
}

/// Host with port as given, and path prefix.
fn split(url: &str) -> Result<(String, String), &'static str> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(if url.starts_with("https://") { "https is not supported" } else { "it has no http://" });
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    if host.is_empty() || host.starts_with(':') {
        return Err("it has no host");
    }
    if host.contains('@') {
        return Err("it has user information");
    }
    if !rest.bytes().all(|letter| letter.is_ascii_graphic()) || rest.contains(['?', '#']) {
        return Err("it has a query, a fragment, or letters that no address has");
    }
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    if let Some((_, port)) = after.split_once(':')
        && !matches!(port.parse(), Ok(1u16..))
    {
        return Err("its port is not 1 to 65535");
    }
    let path = path.trim_end_matches('/');
    Ok((host.to_owned(), path.strip_suffix("/v1").unwrap_or(path).to_owned()))
}

/// Of several addresses, the first that takes a connection; else the first.
fn pick(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, PICK_TIMEOUT).is_ok();
    match addresses {
        [] | [_] => addresses.first().copied(),
        _ => addresses.iter().find(answers).or(addresses.first()).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_path_but_for_v1() {
        let parts = |url| split(url).unwrap();
        assert_eq!(parts("http://a:8000"), ("a:8000".to_owned(), String::new()));
        assert_eq!(parts("http://a/v1/"), ("a".to_owned(), String::new()));
        assert_eq!(parts("http://[::1]:80/x/v1"), ("[::1]:80".to_owned(), "/x".to_owned()));
        assert_eq!(Target::resolve("http://127.0.0.1").unwrap().address.port(), 80);
    }

    #[test]
    fn what_is_no_address_is_named() {
        for (url, why) in [
            ("a:8000", "it has no http://"),
            ("https://a", "https is not supported"),
            ("http://", "it has no host"),
            ("http://:80", "it has no host"),
            ("http://a:0", "its port is not 1 to 65535"),
            ("http://a:x", "its port is not 1 to 65535"),
            ("http://me@a", "it has user information"),
            ("http://a/?q", "it has a query, a fragment, or letters that no address has"),
        ] {
            assert_eq!(split(url).unwrap_err(), why, "{url}");
        }
    }

    #[test]
    fn header_fields_that_would_break_a_request_are_refused() {
        let target = Target::resolve("http://127.0.0.1:9").unwrap();
        let with = target.clone().with_header("Authorization: Bearer x").unwrap();
        assert_eq!(with.headers, "Authorization: Bearer x\r\n");
        for field in ["no colon", ": x", "a b: c", "a: b\r\nc: d", "Content-Length: 5"] {
            assert!(target.clone().with_header(field).is_err(), "{field}");
        }
    }
}
