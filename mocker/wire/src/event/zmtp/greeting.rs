//! The first 64 bytes of each side.

use super::ZmtpError;

/// Bytes of a greeting.
pub(crate) const LENGTH: usize = 64;

const MECHANISM: std::ops::Range<usize> = 12..32;

/// Ours: version 3.1, no security.
pub(crate) fn ours() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10..12].copy_from_slice(&[3, 1]);
    bytes[MECHANISM][..4].copy_from_slice(b"NULL");
    bytes
}

/// How a peer is told what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 3.0: subscriptions are messages.
    V30,
    /// 3.1 and later: subscriptions are commands.
    V31,
}

/// Reads a peer's greeting.
pub(crate) fn parse(bytes: &[u8; LENGTH]) -> Result<Version, ZmtpError> {
    if bytes[0] != 0xff || bytes[9] & 1 != 1 {
        return Err(ZmtpError::Greeting("no ZMTP signature"));
    }
    if bytes[10] < 3 {
        return Err(ZmtpError::Greeting("a version before 3.0"));
    }
    let mechanism = &bytes[MECHANISM];
    if &mechanism[..4] != b"NULL" || mechanism[4..].iter().any(|&b| b != 0) {
        return Err(ZmtpError::Greeting("a security mechanism other than NULL"));
    }
    Ok(if bytes[10] > 3 || bytes[11] >= 1 { Version::V31 } else { Version::V30 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_greeting_and_older_ones_of_version_3_are_read() {
        assert_eq!(parse(&ours()).unwrap(), Version::V31);
        let mut old = ours();
        old[11] = 0;
        assert_eq!(parse(&old).unwrap(), Version::V30);
        old[10] = 4;
        assert_eq!(parse(&old).unwrap(), Version::V31);
    }

    #[test]
    fn other_protocols_versions_and_mechanisms_are_refused() {
        let cases: [(usize, u8, &str); 5] = [
            (0, b'G', "signature"),
            (9, 0x7e, "signature"),
            (10, 2, "version"),
            (12, b'P', "NULL"),
            (16, b'X', "NULL"),
        ];
        for (place, value, expected) in cases {
            let mut bytes = ours();
            bytes[place] = value;
            let error = parse(&bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "byte {place}: {error}");
        }
    }
}
