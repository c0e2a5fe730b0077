//! Keys and certificates that an API server knows its clients by.

use std::fmt;
use std::fs::write;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// A certificate authority, with all that it has issued in one folder.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Its own certificate goes to `authority.crt`.
    pub(crate) fn new(folder: &Path) -> Self {
        let mut params = named("test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        write(folder.join("authority.crt"), certificate.pem()).expect("a file");
        Self { issuer: Issuer::new(params, key), folder: folder.to_owned() }
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("authority.crt")
    }

    /// Certificate and key of a server with these names and addresses.
    pub(crate) fn server(&self, file: &str, hosts: &[&str]) -> [PathBuf; 2] {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("names of hosts");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(file, params)
    }

    /// Certificate and key of a user, who may be in a group.
    pub(crate) fn client(&self, file: &str, user: &str, group: Option<&str>) -> [PathBuf; 2] {
        let mut params = named(user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, params)
    }

    fn issue(&self, file: &str, mut params: CertificateParams) -> [PathBuf; 2] {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = ["crt", "key"].map(|kind| self.folder.join(format!("{file}.{kind}")));
        write(&files[0], certificate.pem()).expect("a file");
        write(&files[1], key.serialize_pem()).expect("a file");
        files
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
