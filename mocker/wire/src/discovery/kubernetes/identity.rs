//! Which pod this process is, and what follows from that.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

/// Longest name of an object.
const NAME_MAX: usize = 253;
/// A container of this name stands for its whole pod.
const MAIN: &str = "main";
/// Bits of an instance id: other languages read it as a float.
const ID_BITS: u32 = 53;

/// What of a pod is one member of the serving graph (`DYN_KUBE_DISCOVERY_MODE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodUnit {
    /// The pod, found through the slices of labelled services.
    Pod,
    /// One of its containers (`CONTAINER_NAME`), found through labelled pods.
    Container(String),
}

/// Which pod this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentity {
    /// `POD_NAME`.
    pub name: String,
    /// `POD_UID`.
    pub uid: String,
    /// `POD_NAMESPACE`.
    pub namespace: String,
    /// What of the pod is one member.
    pub unit: PodUnit,
}

/// A name that the Kubernetes API would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is no name in Kubernetes (allowed: 1 to {NAME_MAX} of a to z, 0 to 9, `-` and `.`, first and last no sign)"
)]
pub struct NameError {
    name: String,
}

/// Refuses what cannot be part of an object's name.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let sign = |byte: u8| byte == b'-' || byte == b'.';
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = name.bytes().all(|byte| plain(byte) || sign(byte));
    let ends = name.bytes().next().is_some_and(plain) && name.bytes().next_back().is_some_and(plain);
    if inner && ends && name.len() <= NAME_MAX { Ok(()) } else { Err(NameError { name: name.to_owned() }) }
}

/// The name of the object that a container of a pod publishes.
pub(super) fn object_of_container(pod: &str, container: &str) -> String {
    if container == MAIN { pod.to_owned() } else { format!("{pod}-{container}") }
}

impl PodIdentity {
    /// The name of the object that this process publishes.
    pub fn object_name(&self) -> String {
        match &self.unit {
            PodUnit::Pod => self.name.clone(),
            PodUnit::Container(container) => object_of_container(&self.name, container),
        }
    }

    /// The id that instances of this process have: it follows from the object's name.
    pub fn instance_id(&self) -> u64 {
        instance_id(&self.object_name())
    }
}

/// `namespace/name`.
impl fmt::Display for PodIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.object_name())
    }
}

/// SipHash-1-3 with a zero key over the name and a byte that ends it, as published.
fn instance_id(name: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    hasher.write_u8(0xff);
    hasher.finish() & ((1 << ID_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, unit: PodUnit) -> PodIdentity {
        PodIdentity { name: name.to_owned(), uid: "1".to_owned(), namespace: "default".to_owned(), unit }
    }

    #[test]
    fn the_instance_id_is_the_published_hash_of_the_objects_name() {
        assert_eq!(pod("worker-a", PodUnit::Pod).instance_id(), 0x0001_0101_78b5_8853);
        let container = pod("worker", PodUnit::Container("a".to_owned()));
        assert_eq!(container.instance_id(), 0x0001_0101_78b5_8853, "it is called worker-a too");
    }

    #[test]
    fn a_container_is_named_beside_its_pod_unless_it_is_the_main_one() {
        for (unit, name) in [
            (PodUnit::Pod, "w"),
            (PodUnit::Container("main".to_owned()), "w"),
            (PodUnit::Container("side".to_owned()), "w-side"),
        ] {
            assert_eq!(pod("w", unit).object_name(), name);
        }
        assert_eq!(pod("w", PodUnit::Pod).to_string(), "default/w");
    }

    #[test]
    fn names_are_those_that_the_api_takes() {
        for good in ["a", "a-b.c-0", "0", &"a".repeat(253)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", ".a", "a.", "a/b", "a b", "é", &"a".repeat(254)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(
            check_name("A b").unwrap_err().to_string().starts_with("`A b` is no name in Kubernetes (allowed: 1 to 253")
        );
    }
}
