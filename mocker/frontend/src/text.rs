//! From messages to tokens and from tokens to text.

pub(crate) mod answer;
mod bytes;
mod decoder;
mod detokenizer;
mod file;
mod python;
mod stops;
mod template;
mod tokenizer;

use dynosim_wire::card::{GenerationConfig, ModelCard, ModelInfo, PromptFormatter, TemplateFile, TokenizerInfo};
use serde_json::Value;

use crate::http::service::Endpoint;
use crate::openai::chat::ChatRequest;
use decoder::Decoder;
use template::{ChatTemplate, TokenizerConfig};
use tokenizer::Tokenizer;

/// A model's text side: tokenizer, chat template, end tokens, limits. Made once per card, shared by all requests.
#[derive(Debug)]
pub(crate) struct TextModel {
    name: String,
    tokenizer: Tokenizer,
    decoder: Decoder,
    template: Option<ChatTemplate>,
    eos_token_ids: Vec<u32>,
    context_length: u32,
    vocabulary: u32,
    chat: bool,
    completions: bool,
}

/// Files of a card that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {reason}")]
pub(crate) struct TextError {
    /// Path or URL.
    pub(crate) file: String,
    /// Why.
    pub(crate) reason: String,
}

impl TextError {
    /// A file that cannot be used.
    pub(crate) fn new(file: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), reason: reason.into() }
    }
}

/// Contents of a model's files.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextFiles {
    /// `tokenizer.json`.
    pub(crate) tokenizer: Vec<u8>,
    /// `tokenizer_config.json`.
    pub(crate) tokenizer_config: Option<Vec<u8>>,
    /// A chat template in a file of its own; it wins over the configuration's.
    pub(crate) chat_template: Option<String>,
    /// `generation_config.json`.
    pub(crate) generation_config: Option<Vec<u8>>,
    /// `config.json`.
    pub(crate) config: Option<Vec<u8>>,
}

impl TextModel {
    /// Reads the files that `card` names, from local paths or `http://` URLs, and verifies their checksums.
    pub(crate) async fn load(card: &ModelCard) -> Result<Self, TextError> {
        let Some(TokenizerInfo::HfTokenizerJson(tokenizer)) = &card.tokenizer else {
            return Err(TextError::new(&card.display_name, "the card names no tokenizer"));
        };
        let mut files = TextFiles { tokenizer: file::read(tokenizer).await?.to_vec(), ..TextFiles::default() };
        for formatter in card.prompt_formatter.iter().chain(&card.chat_template_file) {
            read_formatter(formatter, &mut files).await?;
        }
        if let Some(GenerationConfig::HfGenerationConfigJson(file)) = &card.gen_config {
            files.generation_config = Some(file::read(file).await?.to_vec());
        }
        if let Some(ModelInfo::HfConfigJson(file)) = &card.model_info {
            files.config = Some(file::read(file).await?.to_vec());
        }
        Self::build(card, &files)
    }

    /// Makes a model of its files' contents.
    pub(crate) fn build(card: &ModelCard, files: &TextFiles) -> Result<Self, TextError> {
        let failed = |file: &str| {
            let file = format!("{} of {}", file, card.display_name);
            move |reason: String| TextError { file, reason }
        };
        let tokenizer = Tokenizer::parse(&files.tokenizer).map_err(failed("tokenizer.json"))?;
        let decoder = Decoder::parse(&files.tokenizer).map_err(failed("tokenizer.json"))?;
        let mut config = match &files.tokenizer_config {
            Some(json) => TokenizerConfig::parse(json).map_err(failed("tokenizer_config.json"))?,
            None => TokenizerConfig::default(),
        };
        if let Some(template) = &files.chat_template {
            config.set_template(template.clone());
        }
        let configured = eos_of(files.generation_config.as_deref()).or_else(|| eos_of(files.config.as_deref()));
        let eos = configured.or_else(|| Some(vec![decoder.id(config.token("eos_token")?)?]));
        let limits = [card.context_length, card.runtime_config.context_length];
        Ok(Self {
            name: card.display_name.clone(),
            template: ChatTemplate::new(&config).map_err(failed("tokenizer_config.json"))?,
            eos_token_ids: eos.unwrap_or_default(),
            context_length: limits.into_iter().find(|limit| *limit > 0).unwrap_or(0),
            vocabulary: decoder.vocabulary().max(vocabulary_of(files.config.as_deref())),
            chat: serves(card, "Chat"),
            completions: serves(card, "Completions"),
            tokenizer,
            decoder,
        })
    }

    /// Name that clients use.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Most tokens of prompt and answer together; 0: not limited.
    pub(crate) fn context_length(&self) -> u32 {
        self.context_length
    }

    /// Number of token ids.
    pub(crate) fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// Tokens that end an answer.
    pub(crate) fn eos_token_ids(&self) -> &[u32] {
        &self.eos_token_ids
    }

    /// Whether the model answers at that route.
    pub(crate) fn serves(&self, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Chat => self.chat,
            Endpoint::Completions => self.completions,
        }
    }

    /// The prompt of a conversation; the error is the client's to read.
    pub(crate) fn render(&self, request: &ChatRequest<'_>) -> Result<String, String> {
        let template = self.template.as_ref().ok_or("the model has no chat template")?;
        template.render(request)
    }

    /// Tokens of a text.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.tokenizer.encode(text)
    }

    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }
}

async fn read_formatter(formatter: &PromptFormatter, files: &mut TextFiles) -> Result<(), TextError> {
    match formatter {
        PromptFormatter::HfTokenizerConfigJson(file) => {
            files.tokenizer_config = Some(file::read(file).await?.to_vec());
        }
        PromptFormatter::HfChatTemplateJinja(TemplateFile { file, .. }) => {
            let template = String::from_utf8(file::read(file).await?.to_vec());
            files.chat_template = Some(template.map_err(|e| TextError::new(&file.path, e.to_string()))?);
        }
        PromptFormatter::HfChatTemplateJson(TemplateFile { file, .. }) => {
            let json: Value = serde_json::from_slice(&file::read(file).await?)
                .map_err(|e| TextError::new(&file.path, e.to_string()))?;
            let template = json["chat_template"].as_str();
            let template = template.ok_or_else(|| TextError::new(&file.path, "no text `chat_template`"))?;
            files.chat_template = Some(template.to_owned());
        }
    }
    Ok(())
}

/// Model types are written as `Chat | Completions`; older workers left them out for both.
fn serves(card: &ModelCard, kind: &str) -> bool {
    let mut kinds = card.model_type.split('|').map(str::trim).filter(|kind| !kind.is_empty()).peekable();
    kinds.peek().is_none() || kinds.any(|other| other.eq_ignore_ascii_case(kind))
}

/// `eos_token_id` is a number or a list of numbers.
fn eos_of(json: Option<&[u8]>) -> Option<Vec<u32>> {
    let json: Value = serde_json::from_slice(json?).ok()?;
    let ids = match &json["eos_token_id"] {
        Value::Array(list) => list.clone(),
        Value::Null => return None,
        one => vec![one.clone()],
    };
    ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect()
}

/// `vocab_size`: a model may have ids that its tokenizer never gives.
fn vocabulary_of(json: Option<&[u8]>) -> u32 {
    let size = json.and_then(|json| serde_json::from_slice::<Value>(json).ok()?["vocab_size"].as_u64());
    size.and_then(|size| u32::try_from(size).ok()).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Contents of a small model in the layout of the built-in one.
    pub(crate) fn files() -> TextFiles {
        let template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: ";
        let config = serde_json::json!({"eos_token": "<|eos|>", "chat_template": template});
        TextFiles {
            tokenizer: tokenizer::tests::byte_level_json(),
            tokenizer_config: Some(config.to_string().into_bytes()),
            generation_config: Some(br#"{"eos_token_id": 257}"#.to_vec()),
            ..TextFiles::default()
        }
    }

    /// A card whose only facts are its name and the context's length.
    pub(crate) fn card(context_length: u32) -> ModelCard {
        let card = serde_json::json!({"display_name": "tiny", "slug": "tiny", "context_length": context_length,
            "model_type": "Chat | Completions"});
        serde_json::from_value(card).unwrap()
    }

    /// A small model.
    pub(crate) fn model() -> TextModel {
        TextModel::build(&card(0), &files()).unwrap()
    }

    #[test]
    fn end_tokens_come_from_the_generation_config_then_the_config_then_the_tokenizer() {
        let build = |files: &TextFiles| TextModel::build(&card(0), files).unwrap().eos_token_ids;
        let lists = TextFiles { generation_config: Some(br#"{"eos_token_id": [1, 2]}"#.to_vec()), ..files() };
        assert_eq!(build(&lists), [1, 2]);
        let config = TextFiles { generation_config: None, config: Some(br#"{"eos_token_id": 5}"#.to_vec()), ..files() };
        assert_eq!(build(&config), [5]);
        assert_eq!(build(&TextFiles { generation_config: None, ..files() }), [257], "by the token's name");
    }

    #[test]
    fn a_model_serves_what_its_card_says() {
        let mut card = card(0);
        card.model_type = "Completions".to_owned();
        let model = TextModel::build(&card, &files()).unwrap();
        assert!(!model.serves(Endpoint::Chat) && model.serves(Endpoint::Completions));
    }
}
