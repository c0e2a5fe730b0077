//! From tokens to text, as they come: no character is split, none is lost.

use super::decoder::{Decoder, Table};
use crate::openai::options::SpecialTokens;

/// Text of one answer in the making.
#[derive(Debug, Default)]
pub(crate) struct Detokenizer {
    /// Begin of a character whose other bytes are still to come; at most 3 bytes.
    incomplete: Vec<u8>,
    special_tokens: SpecialTokens,
    steps: Steps,
}

/// What the general implementation remembers: tokens that text to come may depend on.
#[derive(Debug, Default)]
struct Steps {
    ids: Vec<u32>,
    prefix: String,
    prefix_index: usize,
}

impl Detokenizer {
    /// A new answer.
    pub(crate) fn new(special_tokens: SpecialTokens) -> Self {
        Self { special_tokens, ..Self::default() }
    }

    /// Appends the text that is complete with `token`.
    pub(crate) fn push(&mut self, decoder: &Decoder, token: u32, out: &mut String) {
        match decoder {
            Decoder::Table(table) => self.push_bytes(table, token, out),
            Decoder::Stepwise(full) => {
                let Steps { ids, prefix, prefix_index } = &mut self.steps;
                let skip = self.special_tokens == SpecialTokens::Skipped;
                // A token that cannot be decoded has no text; the next one begins anew.
                match tokenizers::step_decode_stream(full, vec![token], skip, ids, prefix, prefix_index) {
                    Ok(Some(text)) => out.push_str(&text),
                    Ok(None) => {}
                    Err(_) => self.steps = Steps::default(),
                }
            }
        }
    }

    /// Appends what is left when no token follows.
    pub(crate) fn finish(&mut self, decoder: &Decoder, out: &mut String) {
        if !self.incomplete.is_empty() {
            self.incomplete.clear();
            out.push(char::REPLACEMENT_CHARACTER);
        }
        if let Decoder::Stepwise(full) = decoder {
            let steps = std::mem::take(&mut self.steps);
            let all = full.decode(&steps.ids, self.special_tokens == SpecialTokens::Skipped).unwrap_or_default();
            out.push_str(all.get(steps.prefix.len()..).unwrap_or_default());
        }
    }

    fn push_bytes(&mut self, table: &Table, token: u32, out: &mut String) {
        if self.special_tokens == SpecialTokens::Skipped && table.is_special(token) {
            return;
        }
        let bytes = table.bytes(token);
        if self.incomplete.is_empty() {
            match std::str::from_utf8(bytes) {
                Ok(text) => out.push_str(text),
                Err(_) => self.incomplete = append_complete(bytes, out).to_vec(),
            }
        } else {
            self.incomplete.extend_from_slice(bytes);
            let left = append_complete(&self.incomplete, out).len();
            self.incomplete.drain(..self.incomplete.len() - left);
        }
    }
}

/// Appends the characters of `bytes`, with stand-ins for broken ones; gives back the begin of a character at the end.
fn append_complete<'a>(bytes: &'a [u8], out: &mut String) -> &'a [u8] {
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                out.push_str(text);
                return &[];
            }
            Err(error) => {
                let (valid, broken) = rest.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                let Some(length) = error.error_len() else { return broken };
                out.push(char::REPLACEMENT_CHARACTER);
                rest = &broken[length..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokenizer::Tokenizer;
    use crate::text::tokenizer::tests::{TEXTS, byte_level_json};

    fn text_of(decoder: &Decoder, tokens: &[u32], special_tokens: SpecialTokens) -> (String, Vec<String>) {
        let mut detokenizer = Detokenizer::new(special_tokens);
        let mut pieces = Vec::new();
        for token in tokens {
            let mut piece = String::new();
            detokenizer.push(decoder, *token, &mut piece);
            pieces.push(piece);
        }
        let mut rest = String::new();
        detokenizer.finish(decoder, &mut rest);
        (pieces.concat() + &rest, pieces)
    }

    #[test]
    fn text_comes_back_whole_from_one_token_per_byte() {
        let json = byte_level_json();
        let (decoder, tokenizer) = (Decoder::parse(&json).unwrap(), Tokenizer::parse(&json).unwrap());
        for text in TEXTS {
            let tokens = tokenizer.encode(text).unwrap();
            assert_eq!(text_of(&decoder, &tokens, SpecialTokens::Shown).0, text);
        }
    }

    #[test]
    fn the_table_gives_what_the_general_decoder_gives() {
        let json = byte_level_json();
        let (table, full) = (Decoder::parse(&json).unwrap(), tokenizers::Tokenizer::from_bytes(&json).unwrap());
        // Every id, forwards and backwards: words, broken characters, special tokens, ids that do not exist.
        let tokens: Vec<u32> = (0..2100).chain((0..2100).rev()).collect();
        for (special_tokens, skip) in [(SpecialTokens::Skipped, true), (SpecialTokens::Shown, false)] {
            assert_eq!(text_of(&table, &tokens, special_tokens).0, full.decode(&tokens, skip).unwrap());
        }
    }

    #[test]
    fn the_stepwise_decoder_agrees_with_the_table() {
        let json = byte_level_json();
        let table = Decoder::parse(&json).unwrap();
        let stepwise = Decoder::Stepwise(std::sync::Arc::new(tokenizers::Tokenizer::from_bytes(&json).unwrap()));
        let tokenizer = Tokenizer::parse(&json).unwrap();
        for text in TEXTS {
            let tokens = tokenizer.encode(text).unwrap();
            let of = |decoder| text_of(decoder, &tokens, SpecialTokens::Shown).0;
            assert_eq!(of(&table), of(&stepwise), "{text:?}");
        }
    }

    #[test]
    fn no_piece_has_part_of_a_character() {
        let json = byte_level_json();
        let (decoder, tokenizer) = (Decoder::parse(&json).unwrap(), Tokenizer::parse(&json).unwrap());
        let (_, pieces) = text_of(&decoder, &tokenizer.encode("é🦀").unwrap(), SpecialTokens::Skipped);
        assert_eq!(pieces, ["", "é", "", "", "", "🦀"]);
    }

    #[test]
    fn a_broken_end_is_one_stand_in() {
        let json = byte_level_json();
        let (decoder, tokenizer) = (Decoder::parse(&json).unwrap(), Tokenizer::parse(&json).unwrap());
        let tokens = tokenizer.encode("a🦀").unwrap();
        assert_eq!(text_of(&decoder, &tokens[..3], SpecialTokens::Skipped).0, "a\u{fffd}");
    }
}
