//! The built-in model as others load it.

use dynosim_wire::card::{BYTE_TOKENS, ModelFiles, VOCABULARY};
use tokenizers::Tokenizer;

#[test]
fn the_tokenizer_library_loads_the_built_in_tokenizer() {
    let files = ModelFiles::open("some/model that is no folder").expect("the built-in model");
    assert!(files.built_in);
    let tokenizer = Tokenizer::from_file(files.file("tokenizer.json")).expect("loads");
    assert_eq!(tokenizer.get_vocab_size(true), VOCABULARY as usize);
    let text = "Größe: 5 €\n";
    let ids = tokenizer.encode(text, false).expect("encodes").get_ids().to_vec();
    assert!(ids.iter().all(|id| *id < BYTE_TOKENS));
    assert_eq!(ids, text.bytes().map(u32::from).collect::<Vec<_>>(), "one token per byte, with the byte's value");
    assert_eq!(tokenizer.decode(&ids, true).expect("decodes"), text);
}

/// As clients do that count tokens, and as the next turn of a conversation does.
#[test]
fn what_engines_draw_is_visible_and_becomes_the_same_tokens_again() {
    let files = ModelFiles::open("some/model that is no folder").expect("the built-in model");
    let tokenizer = Tokenizer::from_file(files.file("tokenizer.json")).expect("loads");
    let specials = tokenizer.get_added_tokens_decoder().values().filter(|token| token.special).count() as u32;
    assert_eq!(specials, 3);
    let ids: Vec<_> = (BYTE_TOKENS + specials..VOCABULARY).collect();
    let text = tokenizer.decode(&ids, true).expect("decodes");
    assert!(text.chars().all(|c| c == ' ' || c.is_ascii_lowercase()), "{text}");
    assert_eq!(tokenizer.encode(text.as_str(), false).expect("encodes").get_ids(), ids);
    for id in ids {
        let text = tokenizer.decode(&[id], true).expect("decodes");
        assert_eq!(text.trim_start().len(), 4, "{id}: {text:?}");
    }
}
