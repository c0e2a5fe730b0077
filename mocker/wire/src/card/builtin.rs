//! The model that is there when no folder is: a byte-level tokenizer and a configuration.

/// Ids of the vocabulary that stand for bytes.
pub const BYTE_TOKENS: u32 = 256;
/// Size of the vocabulary.
pub const VOCABULARY: u32 = 2048;

/// Names and contents of the built-in model's files.
pub fn builtin_files() -> Vec<(&'static str, Vec<u8>)> {
    todo!()
}
