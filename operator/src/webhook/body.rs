//! Bodies of requests, within limits for one and for all that are read at a time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A review holds an object as it is and as it was, each of at most 3 MiB, which is all that API servers take in a request.
pub(super) const REVIEW: usize = 7 << 20;
/// Who lists objects of the older version has all of them converted in one go.
pub(super) const CONVERSION: usize = 64 << 20;
/// All bodies that are read at a time.
const ALL: usize = 96 << 20;
/// How long a body may take; API servers wait 30 s at most.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What [`Budget`] counts in.
const UNIT: usize = 1 << 10;

/// Room for bodies; whoever finds none waits.
#[derive(Clone, Debug)]
pub(super) struct Budget(Arc<Semaphore>);

/// A body and the room that it takes.
pub(super) struct Taken {
    pub(super) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ALL / UNIT)))
    }
}

impl Budget {
    /// Reads a body of a length that is told beforehand, as API servers do.
    pub(super) async fn read(&self, request: Request<Incoming>, limit: usize) -> Result<Taken, StatusCode> {
        let body = request.into_body();
        let length = body.size_hint().exact().ok_or(StatusCode::LENGTH_REQUIRED)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limit {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let units = u32::try_from(length / UNIT + 1).unwrap_or(u32::MAX);
        let read = async {
            let room = self.0.clone().acquire_many_owned(units).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
            let body = Limited::new(body, limit).collect().await.map_err(|_| StatusCode::BAD_REQUEST)?;
            Ok(Taken { bytes: body.to_bytes(), _room: room })
        };
        tokio::time::timeout(TIMEOUT, read).await.map_err(|_| StatusCode::REQUEST_TIMEOUT)?
    }
}
