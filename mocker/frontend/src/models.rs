//! Which models are served, and by whom.
//!
//! ```text
//!   discovery ──► registry ──► books: instances, cards ──► groups: one per model and namespace ──► Models
//!                    └──► texts: tokenizer and template, read once per distinct card
//! ```
//!
//! Invariants:
//! - the hot path only reads: a request sees a whole, unchanging set of pools;
//! - workers in one group agree on the card's identity; those that do not are warned of and not asked;
//! - a model is listed only while at least one of its workers can be asked.

mod books;
mod group;
mod identity;
mod registry;
mod texts;
mod worker;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) use group::{Group, Pool, Pools};
pub(crate) use registry::Registry;
pub(crate) use worker::{Lease, Worker};

use crate::http::service::ListedModel;
use crate::text::TextModel;

/// A model that a request is for: cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Model(pub(crate) Arc<Group>);

impl AsRef<TextModel> for Model {
    fn as_ref(&self) -> &TextModel {
        &self.0.text
    }
}

/// A model by name: its groups, one per namespace.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// When it was first seen, seconds since 1970.
    pub(crate) created_s: u64,
    /// Tokens; 0: not limited.
    pub(crate) context_length: u32,
    /// Never empty.
    pub(crate) groups: Vec<Arc<Group>>,
}

impl Entry {
    /// At least one worker can be asked.
    pub(crate) fn is_ready(&self) -> bool {
        self.groups.iter().any(|group| group.pools().missing.is_none())
    }
}

/// All models by name, those included that were served and may be again.
#[derive(Debug, Default)]
pub(crate) struct Models {
    entries: RwLock<Arc<BTreeMap<Arc<str>, Entry>>>,
    turn: AtomicUsize,
}

impl Models {
    /// All of them.
    pub(crate) fn entries(&self) -> Arc<BTreeMap<Arc<str>, Entry>> {
        Arc::clone(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces all of them.
    fn publish(&self, entries: BTreeMap<Arc<str>, Entry>) {
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(entries);
    }

    /// A group of the model for the next request: in turn, as often as it has workers.
    pub(crate) fn choose(&self, name: &str) -> Option<Model> {
        let entries = self.entries();
        let groups = &entries.get(name)?.groups;
        if let [group] = &groups[..] {
            return Some(Model(Arc::clone(group)));
        }
        let sizes = groups.iter().map(|group| group.pools().generating());
        let all: usize = sizes.clone().sum();
        let mut turn = self.turn.fetch_add(1, Relaxed) % all.max(1);
        let mut chosen = groups.first()?;
        for (group, size) in groups.iter().zip(sizes) {
            if turn < size {
                chosen = group;
                break;
            }
            turn -= size;
        }
        Some(Model(Arc::clone(chosen)))
    }

    /// The models that can be asked now.
    pub(crate) fn listed(&self) -> Vec<ListedModel> {
        let entries = self.entries();
        let ready = entries.iter().filter(|(_, entry)| entry.is_ready());
        let listed = ready.map(|(name, entry)| ListedModel {
            id: name.to_string(),
            created_s: entry.created_s,
            context_window: entry.context_length,
        });
        listed.collect()
    }
}
