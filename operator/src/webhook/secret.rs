//! The Secret that certificates are kept in, for all replicas of the operator and over their restarts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::certificates::{Authority, Kept, Pair, blocks};
use super::tls;
use crate::keys::label;

/// When certificates were made and expire: so nobody has to read that out of them.
const DATES: &str = "dynosim/certificates";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// The Secret as it was found.
#[derive(Debug)]
pub(super) struct Found {
    secret: Option<Secret>,
    /// None if it is not there or cannot be used.
    pub(super) kept: Option<Kept>,
}

/// Where it is.
#[derive(Clone, Debug)]
pub(super) struct Store {
    api: Api<Secret>,
    name: String,
}

impl Store {
    pub(super) fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    pub(super) async fn read(&self, now: Timestamp) -> Result<Found, kube::Error> {
        let secret = self.api.get_opt(&self.name).await?;
        let kept = secret.as_ref().and_then(|secret| read(secret, now));
        Ok(Found { secret, kept })
    }

    /// Keeps something else. Fails if somebody else has written meanwhile.
    pub(super) async fn write(&self, found: Found, kept: &Kept) -> Result<(), kube::Error> {
        let params = PostParams::default();
        if let Some(mut secret) = found.secret {
            write(&mut secret, kept);
            self.api.replace(&self.name, &params, &secret).await?;
            return Ok(());
        }
        let labels = BTreeMap::from([(label::MANAGED_BY.to_owned(), label::MANAGER.to_owned())]);
        let metadata = ObjectMeta { name: Some(self.name.clone()), labels: Some(labels), ..ObjectMeta::default() };
        let mut secret = Secret { metadata, type_: Some("kubernetes.io/tls".to_owned()), ..Secret::default() };
        write(&mut secret, kept);
        self.api.create(&params, &secret).await?;
        Ok(())
    }
}

/// What a Secret holds. What somebody else has put there is served until it is renewed, at once.
fn read(secret: &Secret, now: Timestamp) -> Option<Kept> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    let dates = secret.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DATES));
    let dates: Value = dates.and_then(|dates| serde_json::from_str(dates).ok()).unwrap_or_default();
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let pair = |certificate: &str, key: &str, dates: &Value| {
        let (certificate, key) = (text(certificate)?, text(key)?);
        tls::pair(certificate.as_bytes(), key.as_bytes()).ok()?;
        let issued = time(&dates["issued"]).unwrap_or(Timestamp::UNIX_EPOCH);
        Some(Pair { certificate, key, issued, expires: time(&dates["expires"]).unwrap_or(now) })
    };
    let current = pair(CERTIFICATE, KEY, &dates["current"])?;
    let next = pair(NEXT_CERTIFICATE, NEXT_KEY, &dates["next"]);
    let authority = |(index, pem): (usize, String)| Authority {
        pem,
        // A day is long enough to get rid of it.
        expires: time(&dates["authorities"][index]).unwrap_or(now + std::time::Duration::from_hours(24)),
    };
    let authorities: Vec<_> = blocks(&text(AUTHORITIES)?).into_iter().enumerate().map(authority).collect();
    let hosts = dates["hosts"].as_array().into_iter().flatten();
    let hosts = hosts.filter_map(|host| host.as_str().map(str::to_owned)).collect();
    (!authorities.is_empty()).then_some(Kept { current, next, authorities, hosts })
}

fn write(secret: &mut Secret, kept: &Kept) {
    let dates = |pair: &Pair| json!({"issued": pair.issued.to_string(), "expires": pair.expires.to_string()});
    let authorities: Vec<_> = kept.authorities.iter().map(|authority| authority.expires.to_string()).collect();
    let dates = json!({
        "hosts": kept.hosts,
        "current": dates(&kept.current),
        "next": kept.next.as_ref().map(dates),
        "authorities": authorities,
    });
    secret.metadata.annotations.get_or_insert_default().insert(DATES.to_owned(), dates.to_string());
    let data = secret.data.get_or_insert_default();
    let mut put = |key: &str, text: Option<&str>| match text {
        Some(text) => drop(data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()))),
        None => drop(data.remove(key)),
    };
    put(CERTIFICATE, Some(&kept.current.certificate));
    put(KEY, Some(&kept.current.key));
    put(AUTHORITIES, Some(&kept.bundle()));
    put(NEXT_CERTIFICATE, kept.next.as_ref().map(|next| next.certificate.as_str()));
    put(NEXT_KEY, kept.next.as_ref().map(|next| next.key.as_str()));
}

#[cfg(test)]
mod tests {
    use super::super::certificates::{Rotation, Trust, next};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let hosts = ["a".to_owned()];
        let rotation = Rotation::default();
        let first = next(None, Trust::No, &hosts, now, rotation).expect("certificates").expect("the first one");
        let later = now + rotation.renew_after;
        let both = next(Some(&first), Trust::No, &hosts, later, rotation).expect("certificates").expect("the next");
        let mut secret = Secret::default();
        for kept in [first, both] {
            write(&mut secret, &kept);
            assert_eq!(read(&secret, later), Some(kept));
        }
    }

    #[test]
    fn a_pair_of_somebody_else_is_due() {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let kept = next(None, Trust::No, &[], now, Rotation::default()).expect("certificates").expect("the first one");
        let mut secret = Secret::default();
        write(&mut secret, &kept);
        secret.metadata.annotations = None;
        let found = read(&secret, now).expect("usable");
        assert_eq!(found.current.certificate, kept.current.certificate);
        let after = next(Some(&found), Trust::No, &[], now, Rotation::default()).expect("certificates").expect("due");
        assert_eq!((after.current, after.authorities.len()), (found.current, 2));
        secret.data.get_or_insert_default().insert("tls.key".to_owned(), ByteString(b"no key".to_vec()));
        assert_eq!(read(&secret, now), None);
    }
}
