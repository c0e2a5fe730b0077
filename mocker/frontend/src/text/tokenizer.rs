//! From text to tokens.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::bytes::characters;

/// A tokenizer as `tokenizer.json` describes it.
#[derive(Debug)]
pub(crate) enum Tokenizer {
    /// One token per byte.
    Bytes(Box<ByteTokenizer>),
    /// Any other.
    Full(Box<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// Reads `tokenizer.json`.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        if let Some(bytes) = ByteTokenizer::detect(json) {
            return Ok(Self::Bytes(Box::new(bytes)));
        }
        tokenizers::Tokenizer::from_bytes(json).map(|full| Self::Full(Box::new(full))).map_err(|e| e.to_string())
    }

    /// The tokens of `text`. No token is added: a chat template writes its own, and plain prompts stay as they are
    /// (`dynamo-llm` 1.6.1).
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        match self {
            Self::Bytes(tokenizer) => Ok(tokenizer.encode(text)),
            Self::Full(tokenizer) => tokenizer
                .encode_fast(text, false)
                .map(|encoding| encoding.get_ids().to_vec())
                .map_err(|e| e.to_string()),
        }
    }
}

/// A byte-level tokenizer without merges: its tokens are bytes, and added tokens where their text stands.
#[derive(Debug)]
pub(crate) struct ByteTokenizer {
    ids: [u32; 256],
    /// Added tokens by their text.
    added: FxHashMap<Box<[u8]>, u32>,
    /// Lengths of these texts, longest first.
    lengths: Vec<usize>,
    /// Bytes that one of them begins with.
    begins: [bool; 256],
}

/// What of `tokenizer.json` decides whether its tokens are bytes.
#[derive(Deserialize)]
struct Description {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    truncation: Value,
    #[serde(default)]
    padding: Value,
    model: Model,
}

#[derive(Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "as the file has them")]
struct AddedToken {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    merges: Vec<IgnoredAny>,
    #[serde(default)]
    ignore_merges: bool,
    #[serde(default)]
    dropout: Value,
    #[serde(default)]
    continuing_subword_prefix: Value,
    #[serde(default)]
    end_of_word_suffix: Value,
    vocab: FxHashMap<String, u32>,
}

impl ByteTokenizer {
    /// Recognises such a tokenizer. What it would do is what the general implementation does, only without its cost:
    /// merges are absent, so the words that a pre-tokenizer finds fall into bytes whatever they are.
    fn detect(json: &[u8]) -> Option<Self> {
        let description: Description = serde_json::from_slice(json).ok()?;
        let model = &description.model;
        let plain = |value: &Value| value.is_null() || *value == "";
        let no_merges = model.merges.is_empty() && !model.ignore_merges && model.dropout.is_null();
        let bare = plain(&model.continuing_subword_prefix) && plain(&model.end_of_word_suffix);
        let whole =
            description.normalizer.is_null() && description.truncation.is_null() && description.padding.is_null();
        let split = &description.pre_tokenizer;
        let byte_level = split["type"] == "ByteLevel" && split["add_prefix_space"] == false;
        if model.kind.as_deref() != Some("BPE") || !(no_merges && bare && whole && byte_level) {
            return None;
        }
        let mut ids = [0; 256];
        for (id, character) in ids.iter_mut().zip(characters()) {
            *id = *model.vocab.get(character.encode_utf8(&mut [0; 4]) as &str)?;
        }
        let mut added: FxHashMap<Box<[u8]>, u32> = FxHashMap::default();
        for token in description.added_tokens {
            if token.single_word || token.lstrip || token.rstrip || token.normalized || token.content.is_empty() {
                return None;
            }
            added.insert(token.content.into_bytes().into_boxed_slice(), token.id);
        }
        let lengths: BTreeSet<_> = added.keys().map(|content| content.len()).collect();
        let mut begins = [false; 256];
        for content in added.keys() {
            begins[usize::from(content[0])] = true;
        }
        Some(Self { ids, added, lengths: lengths.into_iter().rev().collect(), begins })
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let bytes = text.as_bytes();
        let mut tokens = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            let added = if self.begins[usize::from(byte)] { self.added_at(rest) } else { None };
            if let Some((length, id)) = added {
                tokens.push(id);
                rest = &rest[length..];
            } else {
                tokens.push(self.ids[usize::from(byte)]);
                rest = after;
            }
        }
        tokens
    }

    /// Length and id of the longest added token at the beginning of `text`.
    fn added_at(&self, text: &[u8]) -> Option<(usize, u32)> {
        self.lengths.iter().find_map(|&length| Some((length, *self.added.get(text.get(..length)?)?)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A byte-level tokenizer of 2,048 ids in the layout of the built-in model.
    pub(crate) fn byte_level_json() -> Vec<u8> {
        let mut vocab = serde_json::Map::new();
        for (id, character) in characters().into_iter().enumerate() {
            vocab.insert(character.to_string(), Value::from(id));
        }
        vocab.insert("<|bos|>".to_owned(), Value::from(256));
        vocab.insert("<|eos|>".to_owned(), Value::from(257));
        let letters = || (b'a'..=b'z').chain(b'A'..=b'Z').map(char::from);
        let words = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}")));
        for (word, id) in words.zip(258..2048) {
            vocab.insert(word, Value::from(id));
        }
        let byte_level = serde_json::json!(
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let special = |id: u32, content: &str| {
            serde_json::json!({"id": id, "content": content, "special": true, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false})
        };
        let json = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
            "added_tokens": [special(256, "<|bos|>"), special(257, "<|eos|>")],
            "pre_tokenizer": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []},
        });
        json.to_string().into_bytes()
    }

    /// Texts that a tokenizer could trip over.
    pub(crate) const TEXTS: [&str; 9] = [
        "",
        "user: hi\nassistant: ",
        "  two  spaces\t\ttabs \r\n",
        "It's 12345 don'ts, naïve café — “quotes” 日本語 🦀👩‍👩‍👧",
        "<|bos|>a<|eos|><|eos|>b<|bo",
        "<|bos<|bos|>",
        "\u{0}\u{7f}\u{80}\u{ad}\u{feff}\u{fffd}",
        "<<|eos|>>|<|",
        " ",
    ];

    #[test]
    fn one_token_per_byte_gives_what_the_general_tokenizer_gives() {
        let built_in = dynosim_wire::card::ModelFiles::open("no folder").unwrap().file("tokenizer.json");
        for json in [byte_level_json(), std::fs::read(built_in).unwrap()] {
            let direct = ByteTokenizer::detect(&json).expect("recognised");
            let general = tokenizers::Tokenizer::from_bytes(&json).unwrap();
            let words = [" baba", "say vaba zuki vab  jabajaba qaqe", "<|begin|> kiki<|end|>"];
            for text in TEXTS.into_iter().chain(words) {
                let expected = general.encode_fast(text, false).unwrap().get_ids().to_vec();
                assert_eq!(direct.encode(text), expected, "{text:?}");
            }
        }
        let direct = ByteTokenizer::detect(&byte_level_json()).expect("recognised");
        assert_eq!(direct.encode("a<|eos|>"), [97, 257]);
    }

    #[test]
    fn a_tokenizer_with_merges_or_a_prefix_space_is_not_taken_for_one_of_bytes() {
        let changes: [fn(&mut Value); 4] = [
            |json| json["model"]["merges"] = serde_json::json!([["a", "b"]]),
            |json| json["model"]["ignore_merges"] = Value::from(true),
            |json| json["pre_tokenizer"]["add_prefix_space"] = Value::from(true),
            |json| json["normalizer"] = serde_json::json!({"type": "NFC"}),
        ];
        for change in changes {
            let mut json: Value = serde_json::from_slice(&byte_level_json()).unwrap();
            change(&mut json);
            assert!(ByteTokenizer::detect(json.to_string().as_bytes()).is_none(), "{}", json["model"]["merges"]);
        }
    }
}
