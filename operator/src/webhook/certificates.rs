//! Certificates of our own, and when they are renewed. Pure but for the keys, which are drawn.
//!
//! ```text
//!   current                       served
//!   current + next                served: current; trusted: both authorities
//!   next ─► current               once all clients have trusted both for a while; the old authority stays until it expires
//! ```
//!
//! Each certificate has an authority of its own, whose key is thrown away once it has signed.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, Error, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

const DAY: Duration = Duration::from_hours(24);
/// How far clocks of clients may be behind.
const SKEW: Duration = Duration::from_hours(1);

/// When certificates are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// How long a certificate is good for.
    pub validity: Duration,
    /// How old it is when the next one is made.
    pub renew_after: Duration,
    /// How long all clients must have been told of a new authority before a certificate of it is served.
    pub settle: Duration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { validity: 365 * DAY, renew_after: 243 * DAY, settle: Duration::from_mins(1) }
    }
}

/// A certificate with its key, and when it was made and expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) issued: Timestamp,
    pub(super) expires: Timestamp,
}

/// The certificate of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) pem: String,
    pub(super) expires: Timestamp,
}

/// All that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Is served.
    pub(super) current: Pair,
    /// Is to be served.
    pub(super) next: Option<Pair>,
    /// Of both and of earlier ones, the newest first.
    pub(super) authorities: Vec<Authority>,
    /// Hosts of the newest certificate.
    pub(super) hosts: Vec<String>,
}

/// Whether clients trust all kept authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Some do not.
    No,
    /// All were told.
    Told,
    /// All were told long enough ago.
    Settled,
}

impl Kept {
    /// All authorities, in PEM.
    pub(super) fn bundle(&self) -> String {
        self.authorities.iter().map(|authority| authority.pem.as_str()).collect()
    }
}

/// What is to be kept instead, if anything else is.
pub(super) fn next(
    kept: Option<&Kept>,
    trust: Trust,
    hosts: &[String],
    now: Timestamp,
    rotation: Rotation,
) -> Result<Option<Kept>, Error> {
    let Some(kept) = kept else {
        let (current, authority) = make(hosts, now, rotation)?;
        return Ok(Some(Kept { current, next: None, authorities: vec![authority], hosts: hosts.to_vec() }));
    };
    let mut after = kept.clone();
    after.next = after.next.filter(|next| next.expires > now);
    if after.next.is_some() {
        if trust == Trust::Settled || (trust == Trust::Told && kept.current.expires <= now) {
            after.current = after.next.take().unwrap_or(after.current);
        }
    } else if now >= kept.current.issued + rotation.renew_after || kept.hosts != hosts {
        let (pair, authority) = make(hosts, now, rotation)?;
        after.next = Some(pair);
        after.authorities.insert(0, authority);
        after.hosts = hosts.to_vec();
    }
    let newest = after.authorities.first().map(|authority| authority.expires);
    after.authorities.retain(|authority| authority.expires > now || Some(authority.expires) == newest);
    Ok((after != *kept).then_some(after))
}

/// A certificate for hosts, and the authority that has signed it.
fn make(hosts: &[String], now: Timestamp, rotation: Rotation) -> Result<(Pair, Authority), Error> {
    let expires = now + rotation.validity;
    let dated = |hosts: &[String]| {
        let mut params = CertificateParams::new(hosts)?;
        params.not_before = SystemTime::from(now - SKEW).into();
        params.not_after = SystemTime::from(expires).into();
        Ok::<_, Error>(params)
    };
    let mut params = dated(&[])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, format!("dynosim-operator {now}"));
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = dated(hosts)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name.push(DnType::CommonName, hosts.first().map_or("webhooks", String::as_str));
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem(), issued: now, expires };
    Ok((pair, Authority { pem: authority.pem(), expires }))
}

/// The certificates of a text in PEM, one by one.
pub(super) fn blocks(pem: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for line in pem.lines().map(str::trim) {
        if line == "-----BEGIN CERTIFICATE-----" {
            block = Some(String::new());
        }
        if let Some(text) = &mut block {
            text.push_str(line);
            text.push('\n');
        }
        if line == "-----END CERTIFICATE-----" {
            found.extend(block.take());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROTATION: Rotation = Rotation {
        validity: Duration::from_mins(5),
        renew_after: Duration::from_secs(200),
        settle: Duration::from_secs(10),
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn hosts() -> Vec<String> {
        vec!["service.namespace.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    /// What is kept then; none if nothing changes.
    fn then(kept: Option<&Kept>, trust: Trust, second: i64) -> Option<Kept> {
        next(kept, trust, &hosts(), at(second), ROTATION).expect("certificates")
    }

    fn fresh() -> Kept {
        then(None, Trust::No, 0).expect("the first one")
    }

    #[test]
    fn a_certificate_is_served_by_its_own_authority_and_fits_its_key() {
        let kept = fresh();
        assert!(super::super::tls::pair(kept.current.certificate.as_bytes(), kept.current.key.as_bytes()).is_ok());
        assert_eq!(blocks(&kept.bundle()), [kept.authorities[0].pem.clone()]);
        let other = fresh();
        assert!(super::super::tls::pair(kept.current.certificate.as_bytes(), other.current.key.as_bytes()).is_err());
    }

    #[test]
    fn nothing_changes_until_it_is_time() {
        let kept = fresh();
        for second in [0, 100, 199] {
            for trust in [Trust::No, Trust::Told, Trust::Settled] {
                assert_eq!(then(Some(&kept), trust, second), None);
            }
        }
    }

    #[test]
    fn the_next_certificate_is_served_only_after_all_trust_it() {
        let old = fresh();
        let both = then(Some(&old), Trust::Settled, 200).expect("it is time");
        assert_eq!(both.current, old.current);
        assert_eq!(both.authorities.len(), 2);
        assert_eq!(both.authorities[1], old.authorities[0]);
        for trust in [Trust::No, Trust::Told] {
            assert_eq!(then(Some(&both), trust, 201), None);
        }
        let new = then(Some(&both), Trust::Settled, 211).expect("all trust it");
        assert_eq!((Some(&new.current), &new.next), (both.next.as_ref(), &None));
        assert_eq!(new.authorities, both.authorities, "the old authority stays");
        assert_eq!(then(Some(&new), Trust::Settled, 299), None);
        let last = then(Some(&new), Trust::Settled, 300).expect("the old authority has expired");
        assert_eq!(last.authorities, both.authorities[..1]);
    }

    #[test]
    fn an_expired_certificate_is_replaced_without_further_wait() {
        let both = then(Some(&fresh()), Trust::No, 250).expect("it is time");
        assert_eq!(then(Some(&both), Trust::Told, 251), None);
        let new = then(Some(&both), Trust::Told, 300).expect("the current one has expired");
        assert_eq!(Some(new.current), both.next);
    }

    #[test]
    fn a_next_certificate_that_has_expired_itself_is_made_again() {
        let both = then(Some(&fresh()), Trust::No, 250).expect("it is time");
        let again = then(Some(&both), Trust::No, 600).expect("both have expired");
        assert_ne!(again.next, both.next);
        assert_eq!(again.authorities.len(), 1);
        assert_eq!(again.next.map(|next| next.issued), Some(at(600)));
    }

    #[test]
    fn other_hosts_get_another_certificate() {
        let kept = fresh();
        let other = ["other.namespace.svc".to_owned()];
        let both = next(Some(&kept), Trust::Settled, &other, at(1), ROTATION).expect("certificates").expect("another");
        assert_eq!((both.hosts.as_slice(), both.next.is_some()), (&other[..], true));
        assert_eq!(next(Some(&both), Trust::No, &other, at(2), ROTATION).expect("certificates"), None);
    }
}
