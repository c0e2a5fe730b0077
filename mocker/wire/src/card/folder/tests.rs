use serde_json::json;

use super::*;

const SMALL_CONFIG: &str = r#"{"max_position_embeddings": 32768, "vocab_size": 300, "eos_token_id": 257,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}"#;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary folder");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("file");
    }
    folder
}

fn open(folder: &tempfile::TempDir) -> Result<ModelFiles, ModelFolderError> {
    ModelFiles::open(&folder.path().display().to_string())
}

/// What the published worker (release 1.6.1) writes for such a folder.
#[test]
fn a_card_has_all_fields_of_the_published_worker() {
    let folder = folder(&[
        (CONFIG, SMALL_CONFIG),
        (TOKENIZER, "{}"),
        (TOKENIZER_CONFIG, r#"{"chat_template": ""}"#),
        (GENERATION_CONFIG, r#"{"eos_token_id": [257, 258]}"#),
    ]);
    let files = open(&folder).expect("a good folder");
    assert_eq!((&files.eos_token_ids[..], files.vocab_size, files.built_in), (&[257, 258][..], Some(300), false));
    assert_eq!(files.kv_bytes_per_token("auto").expect("known"), Some(2 * 2 * 2 * 16 * 2));
    let path = folder.path().display().to_string();
    let mut card = files.card("tiny", &path, None);
    // What the worker says about its engine.
    card.kv_cache_block_size = 64;
    card.runtime_config.total_kv_blocks = Some(16384);
    card.runtime_config.max_num_seqs = Some(256);
    card.runtime_config.max_num_batched_tokens = Some(8192);
    card.runtime_config.enable_local_indexer = true;
    card.runtime_config.kv_event_publishing_enabled = true;
    let file = |name: &str| {
        let content = fs::read(folder.path().join(name)).expect("file");
        let checksum = format!("blake3:{}", blake3::hash(&content).to_hex());
        json!({"path": format!("{path}/{name}"), "checksum": checksum, "size": content.len()})
    };
    let runtime_config = json!({"context_length": 0, "total_kv_blocks": 16384, "max_num_seqs": 256,
            "max_num_batched_tokens": 8192, "tool_call_parser": null, "reasoning_parser": null,
            "tool_call_arguments_format": "json_string", "structural_tag_mode": "off",
            "structural_tag_scope": "auto", "structural_tag_schema": "auto",
            "exclude_tools_when_tool_choice_none": true, "data_parallel_start_rank": 0, "data_parallel_size": 1,
            "enable_local_indexer": true, "kv_event_publishing_enabled": true, "runtime_data": {},
            "enable_eagle": false});
    let expected = json!({
        "display_name": "tiny", "slug": "tiny", "source_path": path,
        "model_info": {"hf_config_json": file(CONFIG)},
        "tokenizer": {"hf_tokenizer_json": file(TOKENIZER)},
        "prompt_formatter": {"hf_tokenizer_config_json": file(TOKENIZER_CONFIG)},
        "gen_config": {"hf_generation_config_json": file(GENERATION_CONFIG)},
        "architectural_max_context_length": 32768, "context_length": 0, "kv_cache_block_size": 64,
        "migration_limit": 0, "model_type": "Chat | Completions", "model_input": "Tokens",
        "worker_type": "aggregated", "needs": [],
        "runtime_config": runtime_config,
        "media_decoder": null, "media_fetcher": null,
    });
    assert_eq!(serde_json::to_value(&card).expect("json"), expected);
}

#[test]
fn files_that_are_not_there_are_not_named_and_templates_of_their_own_are() {
    let bare = folder(&[(CONFIG, "{}"), (TOKENIZER, "{}")]);
    let card = serde_json::to_value(open(&bare).expect("bare").card("a", "a", None)).expect("json");
    for absent in ["prompt_formatter", "gen_config", "chat_template_file"] {
        assert!(card.get(absent).is_none(), "{absent}");
    }
    for (files, kind, name) in [
        (&[TEMPLATE_JSON][..], "hf_chat_template_json", TEMPLATE_JSON),
        (&[TEMPLATE_JSON, TEMPLATE_JINJA][..], "hf_chat_template", TEMPLATE_JINJA),
    ] {
        for file in files {
            fs::write(bare.path().join(file), "x").expect("file");
        }
        let card = open(&bare).expect("with a template").card("a", "a", Some("http://host:1/v1/metadata/_base/"));
        let card = serde_json::to_value(card).expect("json");
        let template = &card["chat_template_file"][kind];
        assert_eq!(template["is_custom"], false);
        assert_eq!(template["file"]["path"], format!("http://host:1/v1/metadata/_base/{name}"));
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_that_names_the_file() {
    for (files, named) in [
        (&[(TOKENIZER, "{}")][..], CONFIG),
        (&[(CONFIG, "{}")][..], TOKENIZER),
        (&[(CONFIG, "{"), (TOKENIZER, "{}")][..], CONFIG),
        (&[(CONFIG, "[]"), (TOKENIZER, "{}")][..], CONFIG),
        (&[(CONFIG, r#"{"vocab_size": -1}"#), (TOKENIZER, "{}")][..], "`vocab_size`"),
        (&[(CONFIG, r#"{"eos_token_id": "</s>"}"#), (TOKENIZER, "{}")][..], "`eos_token_id`"),
        (&[(CONFIG, "{}"), (TOKENIZER, "{}"), (GENERATION_CONFIG, "")][..], GENERATION_CONFIG),
    ] {
        let error = open(&folder(files)).expect_err(named).to_string();
        assert!(error.contains(named), "{error}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = ModelFiles::open(&file.path().display().to_string()).expect_err("a file is no folder").to_string();
    assert!(error.contains("is a file"), "{error}");
}

#[test]
fn fields_within_a_text_configuration_count() {
    let config = format!(r#"{{"model_type": "many inputs", "text_config": {SMALL_CONFIG}}}"#);
    let files = open(&folder(&[(CONFIG, &config), (TOKENIZER, "{}")])).expect("nested");
    assert_eq!((files.max_position_embeddings, &files.eos_token_ids[..]), (Some(32768), &[257][..]));
}

#[test]
fn the_built_in_model_is_written_once_whole_and_mended() {
    let place = tempfile::tempdir().expect("temporary folder");
    let files = builtin_files();
    let model = built_in_folder(place.path()).expect("written");
    assert!(holds(&model, &files));
    let name = model.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(name.starts_with("dynosim-model-") && name.len() == "dynosim-model-".len() + 16, "{name}");
    fs::remove_file(model.join(CONFIG)).expect("tidied up");
    fs::write(model.join(TOKENIZER), "half").expect("broken");
    assert_eq!(built_in_folder(place.path()).expect("mended"), model);
    assert!(holds(&model, &files));
    assert_eq!(fs::read_dir(place.path()).expect("place").count(), 1, "nothing is left beside it");
}

#[test]
fn processes_that_write_the_built_in_model_at_once_all_succeed() {
    let place = tempfile::tempdir().expect("temporary folder");
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8).map(|_| scope.spawn(|| built_in_folder(place.path()))).collect();
        for writer in writers {
            let folder = writer.join().expect("no panic").expect("written");
            assert!(holds(&folder, &builtin_files()));
        }
    });
}
