//! From messages to tokens and from tokens to text.

use dynosim_wire::card::ModelCard;

/// A model's text side: tokenizer, chat template, end tokens, limits. Made once per card, shared by all requests.
#[derive(Debug)]
pub(crate) struct TextModel {}

/// Files of a card that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {reason}")]
pub(crate) struct TextError {
    /// Path or URL.
    pub(crate) file: String,
    /// Why.
    pub(crate) reason: String,
}

impl TextModel {
    /// Reads the files that `card` names, from local paths or `http://` URLs, and verifies their checksums.
    pub(crate) async fn load(_card: &ModelCard) -> Result<Self, TextError> {
        todo!()
    }
}
