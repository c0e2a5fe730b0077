//! The model that is there when no folder is: a byte-level tokenizer and a configuration.
//!
//! A prompt has one token per byte. The other ids are made-up words, so that whatever a simulated engine draws becomes
//! visible text, and the text becomes the same ids again: clients that count tokens count what was made, and the next turn
//! of a conversation finds the answer before it in the cache. The configuration has the shape of a usual model of 8
//! billion parameters, which is what KV transfers are timed by.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Ids of the vocabulary that stand for bytes.
pub const BYTE_TOKENS: u32 = 256;
/// Size of the vocabulary.
pub const VOCABULARY: u32 = 2048;

const BOS: &str = "<|begin|>";
const EOS: &str = "<|end|>";
const PAD: &str = "<|pad|>";
/// The specials, from [`BYTE_TOKENS`] on.
const SPECIALS: [&str; 3] = [BOS, EOS, PAD];
const EOS_ID: u32 = BYTE_TOKENS + 1;
const MAX_POSITIONS: u32 = 131_072;
/// Consonants that are rare enough that people's prompts hardly have the words.
const CONSONANTS: &str = "bjkpqvwxz";
const VOWELS: &str = "aeiou";

/// Any role in its own words; contents may be text, parts with text, or nothing.
const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ message['role'] }}: \
{% if message['content'] is string %}{{ message['content'] }}\
{% elif message['content'] %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}\n\
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";

/// Names and contents of the built-in model's files.
pub fn builtin_files() -> Vec<(&'static str, Vec<u8>)> {
    let text = |content: Value| content.to_string().into_bytes();
    vec![
        ("config.json", text(config())),
        ("generation_config.json", text(json!({"bos_token_id": BYTE_TOKENS, "eos_token_id": EOS_ID}))),
        ("tokenizer.json", tokenizer()),
        ("tokenizer_config.json", text(tokenizer_config())),
    ]
}

fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": MAX_POSITIONS,
        "torch_dtype": "bfloat16",
        "bos_token_id": BYTE_TOKENS,
        "eos_token_id": EOS_ID,
    })
}

fn tokenizer_config() -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "model_max_length": MAX_POSITIONS,
        "chat_template": CHAT_TEMPLATE,
    })
}

/// `tokenizer.json`, written as it is made: a tree of its values would take three megabytes.
#[derive(Serialize)]
struct TokenizerFile {
    added_tokens: AddedTokens,
    decoder: Value,
    model: Value,
    normalizer: (),
    padding: (),
    post_processor: (),
    pre_tokenizer: Value,
    truncation: (),
    version: &'static str,
}

#[derive(Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "as the file has them")]
struct AddedToken {
    content: String,
    id: u32,
    lstrip: bool,
    normalized: bool,
    rstrip: bool,
    single_word: bool,
    special: bool,
}

struct AddedTokens;

impl Serialize for AddedTokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pieces().zip(BYTE_TOKENS..VOCABULARY).map(|(content, id)| AddedToken {
            content,
            id,
            lstrip: false,
            normalized: false,
            rstrip: false,
            single_word: false,
            special: id < BYTE_TOKENS + SPECIALS.len() as u32,
        }))
    }
}

fn tokenizer() -> Vec<u8> {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let symbols: Map<String, Value> =
        byte_symbols().into_iter().zip(0u32..).map(|(symbol, id)| (symbol.into(), id.into())).collect();
    let tokenizer = TokenizerFile {
        added_tokens: AddedTokens,
        decoder: byte_level.clone(),
        model: json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": symbols, "merges": [],
        }),
        normalizer: (),
        padding: (),
        post_processor: (),
        pre_tokenizer: byte_level,
        truncation: (),
        version: "1.0",
    };
    // Writing to memory cannot fail.
    serde_json::to_vec(&tokenizer).unwrap_or_default()
}

/// The vocabulary after the bytes.
fn pieces() -> impl Iterator<Item = String> {
    SPECIALS.into_iter().map(str::to_owned).chain(words())
}

/// The characters that stand for bytes: printable ones for themselves, others from U+0100 on.
fn byte_symbols() -> Vec<char> {
    let mut stand_ins = '\u{100}'..;
    let mut symbol = |byte: u8| match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        // There are 68 others, so the range never ends.
        _ => stand_ins.next().unwrap_or_default(),
    };
    (0..=u8::MAX).map(&mut symbol).collect()
}

/// Distinct words of four letters with a space before them: no text can be cut into them in two ways.
fn words() -> impl Iterator<Item = String> {
    let syllables = || CONSONANTS.chars().flat_map(|first| VOWELS.chars().map(move |vowel| [first, vowel]));
    syllables()
        .flat_map(move |first| syllables().map(move |second| [&[' '], &first[..], &second].concat().iter().collect()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn files_are_the_same_each_time() {
        assert_eq!(builtin_files(), builtin_files());
    }

    #[test]
    fn every_id_has_a_piece_of_its_own() {
        let symbols = byte_symbols();
        assert_eq!(symbols.iter().collect::<BTreeSet<_>>().len(), BYTE_TOKENS as usize);
        assert_eq!((symbols[0], symbols[65], symbols[32]), ('Ā', 'A', 'Ġ'));
        let pieces: Vec<_> = pieces().take((VOCABULARY - BYTE_TOKENS) as usize).collect();
        assert_eq!(pieces.iter().collect::<BTreeSet<_>>().len(), (VOCABULARY - BYTE_TOKENS) as usize);
        assert_eq!(pieces[(EOS_ID - BYTE_TOKENS) as usize], EOS);
    }
}
