//! Names of endpoints.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An endpoint: a function that the instances of a component serve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EndpointId {
    /// Dynamo namespace, `dynamo` unless said otherwise.
    pub namespace: String,
    /// Component: `backend`, `prefill`.
    pub component: String,
    /// Name, mostly `generate`.
    pub name: String,
}

impl EndpointId {
    /// An endpoint by its three names.
    pub fn new(namespace: impl Into<String>, component: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), component: component.into(), name: name.into() }
    }

    /// `namespace/component/name`, as in discovery keys.
    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.component, self.name)
    }

    /// The scope of its event channels in discovery keys and subjects, with `separator` between the parts.
    pub fn scope(&self, separator: char) -> String {
        let Self { namespace, component, name } = self;
        let s = separator;
        format!("namespace{s}{namespace}{s}component{s}{component}{s}endpoint{s}{name}")
    }
}

/// `namespace.component.name`.
impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.namespace, self.component, self.name)
    }
}

/// A text that names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no endpoint (allowed: [dyn://]NAMESPACE.COMPONENT.ENDPOINT, of letters, digits, `-` and `_`)")]
pub struct EndpointError(String);

/// Reads `dyn://namespace.component.name`, with or without the scheme.
impl FromStr for EndpointId {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let names = text.strip_prefix("dyn://").unwrap_or(text);
        let parts: Vec<_> = names.split('.').collect();
        let [namespace, component, name] = parts[..] else { return Err(EndpointError(text.to_owned())) };
        let good = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if [namespace, component, name].into_iter().all(good) {
            Ok(Self::new(namespace, component, name))
        } else {
            Err(EndpointError(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_the_scheme() {
        let id = EndpointId::new("dynamo", "backend", "generate");
        assert_eq!("dyn://dynamo.backend.generate".parse(), Ok(id.clone()));
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        assert_eq!(id.path(), "dynamo/backend/generate");
        assert_eq!(id.scope('/'), "namespace/dynamo/component/backend/endpoint/generate");
        for bad in ["", "a.b", "a.b.c.d", "a..c", "a.b.c/d", "dyn://a.b.c d"] {
            assert!(bad.parse::<EndpointId>().is_err(), "{bad}");
        }
    }
}
