//! Which endpoints of which instances a server has.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::request::message;
use crate::request::server::Handler;

/// Words that every refusal begins with; the frontend then tries another worker.
pub(crate) const UNAVAILABLE: &str = "Server unavailable: ";

/// Handlers by path. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    handlers: Arc<RwLock<FxHashMap<String, Arc<dyn Handler>>>>,
}

impl Registry {
    pub(crate) fn insert(&self, path: String, handler: Arc<dyn Handler>) {
        self.handlers.write().unwrap_or_else(PoisonError::into_inner).insert(path, handler);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.handlers.write().unwrap_or_else(PoisonError::into_inner).remove(path);
    }

    pub(crate) fn clear(&self) {
        self.handlers.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Gives a request to the handler of `path`; the error is the whole refusal.
    pub(crate) fn accept(&self, path: &str, headers: &[u8], payload: &Bytes) -> Result<(), String> {
        let handler = self.handlers.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        let handler = handler.ok_or_else(|| format!("{UNAVAILABLE}no endpoint `{path}` is served here"))?;
        let call = message::parse(headers, payload).map_err(|error| format!("{UNAVAILABLE}{error}"))?;
        handler.handle(call);
        Ok(())
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(handlers.keys()).finish()
    }
}
