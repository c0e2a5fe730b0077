//! A frontend's side.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::codec::CodecError;
use crate::protocol::Annotated;

/// A response that broke off.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection ended without the final frame: the worker died.
    #[error("worker at {address} broke off: {reason}")]
    Broken {
        /// Where.
        address: String,
        /// How.
        reason: String,
    },
    /// A frame that cannot be read.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// A response as it comes. Dropped before its end, it tells the worker to stop at once (`kill`).
#[derive(Debug)]
pub struct ResponseStream<T> {
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send> ResponseStream<T> {
    /// The next item; none when the answer is complete.
    pub async fn next(&mut self) -> Result<Option<Annotated<T>>, StreamError> {
        todo!()
    }

    /// The next item if it has come already. Lets the reader write all that is there at once.
    pub fn next_ready(&mut self) -> Result<Option<Annotated<T>>, StreamError> {
        todo!()
    }

    /// Asks the worker to stop; items may still come.
    pub async fn stop(&mut self) {
        todo!()
    }
}
