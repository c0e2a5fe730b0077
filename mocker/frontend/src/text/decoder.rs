//! What text each token stands for.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::Tokenizer;

use super::bytes::ByteOf;

/// How tokens become text.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// Each token has its own bytes, whatever stands before it.
    Table(Table),
    /// Text depends on the tokens before: the general implementation decides.
    Stepwise(Arc<Tokenizer>),
}

/// Bytes of each token of a byte-level vocabulary.
#[derive(Debug)]
pub(crate) struct Table {
    bytes: Vec<u8>,
    /// Ends of the tokens' bytes, by id.
    ends: Vec<u32>,
    /// Special tokens, in order.
    special: Vec<u32>,
}

#[derive(Deserialize)]
struct Description {
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    model: Model,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Model {
    vocab: Value,
}

/// Largest id that a table is made for.
const MAX_ID: u32 = 4_000_000;

impl Table {
    /// Bytes of `token`; none if there is no such token.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        let index = token as usize;
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// Whether `token` marks something rather than stand for text.
    pub(crate) fn is_special(&self, token: u32) -> bool {
        self.special.binary_search(&token).is_ok()
    }

    /// Number of ids.
    pub(crate) fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The table of a `tokenizer.json` whose decoder is byte level; none for any other.
    pub(crate) fn detect(json: &[u8]) -> Option<Self> {
        let description: Description = serde_json::from_slice(json).ok()?;
        if description.decoder["type"] != "ByteLevel" {
            return None;
        }
        let vocabulary = description.model.vocab.as_object()?;
        let mut pieces: Vec<(u32, &str)> = Vec::with_capacity(vocabulary.len());
        for (piece, id) in vocabulary {
            pieces.push((u32::try_from(id.as_u64()?).ok()?, piece));
        }
        // An added token's text wins over the vocabulary's, so it must come first of those with its id.
        let added = description.added_tokens.iter().map(|token| (token.id, token.content.as_str()));
        pieces.splice(0..0, added);
        pieces.sort_by_key(|(id, _)| *id);
        pieces.dedup_by_key(|(id, _)| *id);
        let mut special: Vec<_> = description.added_tokens.iter().filter(|t| t.special).map(|t| t.id).collect();
        special.sort_unstable();
        (pieces.last()?.0 <= MAX_ID).then(|| Self::of(&pieces, special))
    }

    fn of(pieces: &[(u32, &str)], special: Vec<u32>) -> Self {
        let back = ByteOf::new();
        let mut table = Self { bytes: Vec::new(), ends: Vec::new(), special };
        for (id, piece) in pieces {
            table.ends.resize(*id as usize, table.bytes.len() as u32);
            back.append(piece, &mut table.bytes);
            table.ends.push(table.bytes.len() as u32);
        }
        table.bytes.shrink_to_fit();
        table
    }
}

impl Decoder {
    /// Reads `tokenizer.json`.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        if let Some(table) = Table::detect(json) {
            return Ok(Self::Table(table));
        }
        Tokenizer::from_bytes(json).map(|full| Self::Stepwise(Arc::new(full))).map_err(|e| e.to_string())
    }

    /// Number of ids, known or not.
    pub(crate) fn vocabulary(&self) -> u32 {
        match self {
            Self::Table(table) => table.len(),
            Self::Stepwise(full) => full.get_vocab(true).values().max().map_or(0, |id| id + 1),
        }
    }

    /// Id of a token by its text.
    pub(crate) fn id(&self, piece: &str) -> Option<u32> {
        match self {
            Self::Table(table) => table.special.iter().copied().find(|id| table.bytes(*id) == piece.as_bytes()),
            Self::Stepwise(full) => full.token_to_id(piece),
        }
    }
}
