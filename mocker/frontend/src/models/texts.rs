//! Tokenizers and templates, read once per distinct card and not while requests wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dynosim_wire::card::ModelCard;
use tokio::task::JoinSet;

use crate::text::TextModel;

/// A card whose files could not be read is tried again after that long: the worker may still be writing them.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// What is known of a card's text side.
#[derive(Debug)]
enum State {
    Loading,
    Ready(Arc<TextModel>),
}

/// Text sides by the identity of the card.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    states: BTreeMap<String, State>,
    loads: JoinSet<(String, Option<TextModel>)>,
}

impl Texts {
    /// The text side of a card, if it has been read; if not, it is read from now on.
    pub(crate) fn get(&mut self, identity: &str, card: &ModelCard) -> Option<Arc<TextModel>> {
        match self.states.get(identity) {
            Some(State::Ready(text)) => return Some(Arc::clone(text)),
            Some(State::Loading) => return None,
            None => {}
        }
        self.states.insert(identity.to_owned(), State::Loading);
        let (identity, card) = (identity.to_owned(), card.clone());
        self.loads.spawn(async move {
            match TextModel::load(&card).await {
                Ok(text) => (identity, Some(text)),
                Err(error) => {
                    tracing::warn!(model = card.display_name, %error, "model files cannot be used; trying again later");
                    tokio::time::sleep(RETRY_AFTER).await;
                    (identity, None)
                }
            }
        });
        None
    }

    /// Waits until a load has ended, well or badly; never returns while none runs.
    pub(crate) async fn loaded(&mut self) {
        loop {
            match self.loads.join_next().await {
                Some(Ok((identity, Some(text)))) => {
                    self.states.insert(identity, State::Ready(Arc::new(text)));
                    return;
                }
                Some(Ok((identity, None))) => {
                    self.states.remove(&identity);
                    return;
                }
                // A load that panicked leaves its state: it would panic again.
                Some(Err(error)) => tracing::error!(%error, "reading a model's files failed"),
                None => std::future::pending().await,
            }
        }
    }

    /// Nothing is being read.
    pub(crate) fn is_idle(&self) -> bool {
        self.loads.is_empty()
    }

    /// Forgets those whose cards have gone.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.states.retain(|identity, state| matches!(state, State::Loading) || wanted(identity));
    }
}
