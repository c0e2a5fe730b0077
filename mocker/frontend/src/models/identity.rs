//! What makes two cards those of the same model.

use dynosim_wire::card::{GenerationConfig, ModelCard, ModelInfo, PromptFormatter, TokenizerInfo};

/// A checksum over the parts of a card that decide what a request to the model means: its files by content, its limits
/// and its block size. Where files lie, how large a worker is and which part it plays do not matter.
pub(crate) fn identity(card: &ModelCard) -> String {
    let parts = [
        card.display_name.as_str(),
        card.model_info.as_ref().map_or("", |ModelInfo::HfConfigJson(file)| &file.checksum),
        card.tokenizer.as_ref().map_or("", |TokenizerInfo::HfTokenizerJson(file)| &file.checksum),
        card.prompt_formatter.as_ref().map_or("", template),
        card.chat_template_file.as_ref().map_or("", template),
        card.gen_config.as_ref().map_or("", |GenerationConfig::HfGenerationConfigJson(file)| &file.checksum),
        card.model_input.as_str(),
        &card.context_length.to_string(),
        &card.kv_cache_block_size.to_string(),
    ];
    // A separator that no part contains keeps neighbours apart.
    blake3::hash(parts.join("\0").as_bytes()).to_hex().to_string()
}

fn template(formatter: &PromptFormatter) -> &str {
    match formatter {
        PromptFormatter::HfTokenizerConfigJson(file) => &file.checksum,
        PromptFormatter::HfChatTemplateJinja(template) | PromptFormatter::HfChatTemplateJson(template) => {
            &template.file.checksum
        }
    }
}
