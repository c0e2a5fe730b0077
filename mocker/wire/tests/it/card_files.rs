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

#[test]
fn every_id_above_the_bytes_and_specials_decodes_to_visible_text() {
    let files = ModelFiles::open("some/model that is no folder").expect("the built-in model");
    let tokenizer = Tokenizer::from_file(files.file("tokenizer.json")).expect("loads");
    let specials = tokenizer.get_added_tokens_decoder().len() as u32;
    for id in BYTE_TOKENS + specials..VOCABULARY {
        let text = tokenizer.decode(&[id], true).expect("decodes");
        assert!(!text.trim().is_empty() && text.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{id}: {text:?}");
    }
}
