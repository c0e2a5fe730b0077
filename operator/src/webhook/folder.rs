//! A certificate in files, as a mounted Secret has them.

use std::io;
use std::path::Path;

/// What the files hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    /// The authorities, if clients are to be told of them from here.
    pub(super) authorities: Option<String>,
}

pub(super) async fn read(folder: &Path) -> io::Result<Files> {
    let file = |name: &'static str| async move {
        let path = folder.join(name);
        tokio::fs::read(&path)
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let authorities = match file("ca.crt").await {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(Files { certificate: file("tls.crt").await?, key: file("tls.key").await?, authorities })
}
