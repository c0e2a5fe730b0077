//! A model folder on this machine.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::kv_bytes::{count, field, kv_bytes_per_token};
use super::{
    CheckedFile, GenerationConfig, ModelCard, ModelInfo, PromptFormatter, RuntimeConfig, TemplateFile, TokenizerInfo,
    WorkerType, builtin_files, slug,
};

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const GENERATION_CONFIG: &str = "generation_config.json";
const TEMPLATE_JINJA: &str = "chat_template.jinja";
const TEMPLATE_JSON: &str = "chat_template.json";

/// A model folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("model folder {path}: {reason}")]
pub struct ModelFolderError {
    /// Which file or folder.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// The files of a model with their checksums, and what its configuration says.
#[derive(Clone, Debug)]
pub struct ModelFiles {
    /// The folder.
    pub folder: PathBuf,
    /// The built-in model stands in for a name that is no local folder.
    pub built_in: bool,
    /// `max_position_embeddings`, tokens.
    pub max_position_embeddings: Option<u32>,
    /// `eos_token_id` of `generation_config.json` or `config.json`.
    pub eos_token_ids: Vec<u32>,
    /// `vocab_size` of `config.json`.
    pub vocab_size: Option<u32>,
    config: Value,
    /// The files that a card may name.
    found: Vec<Found>,
}

/// A file of the folder.
#[derive(Clone, Debug)]
struct Found {
    name: &'static str,
    checksum: String,
    size: u64,
}

impl ModelFiles {
    /// Reads the folder `path`, or, if there is none, writes the built-in model to a folder of its own (below the
    /// system's folder for temporary files, named by the content's checksum, written atomically; equal for all processes).
    pub fn open(path: &str) -> Result<Self, ModelFolderError> {
        let given = Path::new(path);
        if given.is_dir() {
            // Others read the card in folders of their own.
            let folder = std::path::absolute(given).map_err(|error| fault(given, &error))?;
            return Self::read(folder, false);
        }
        if given.exists() {
            return Err(fault(given, &"is a file, but a folder or the name of a model is wanted"));
        }
        Self::read(built_in_folder(&std::env::temp_dir())?, true)
    }

    fn read(folder: PathBuf, built_in: bool) -> Result<Self, ModelFolderError> {
        let mut found = Vec::new();
        for name in [CONFIG, TOKENIZER, TOKENIZER_CONFIG, GENERATION_CONFIG, TEMPLATE_JINJA, TEMPLATE_JSON] {
            let file = folder.join(name);
            match Found::open(&file, name) {
                Ok(file) => found.push(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound && ![CONFIG, TOKENIZER].contains(&name) => {}
                Err(error) => return Err(fault(&file, &error)),
            }
        }
        let config = read_json(&folder.join(CONFIG))?;
        let small = |name| {
            let value = count(&config, name).map_err(|reason| fault(&folder.join(CONFIG), &reason))?;
            Ok(value.map(|value| value as u32))
        };
        let (max_position_embeddings, vocab_size) = (small("max_position_embeddings")?, small("vocab_size")?);
        let eos_token_ids = eos_token_ids(&folder, &config, &found)?;
        Ok(Self { folder, built_in, max_position_embeddings, eos_token_ids, vocab_size, config, found })
    }

    /// A card with the files of this folder; everything else is at its default. `base_url` is where the worker's system
    /// port serves the files, if it does; without it paths are local.
    pub fn card(&self, display_name: &str, source_path: &str, base_url: Option<&str>) -> ModelCard {
        let file = |name| self.checked(name, base_url);
        let template = |name| file(name).map(|file| TemplateFile { is_custom: false, file });
        let template_file = template(TEMPLATE_JINJA)
            .map(PromptFormatter::HfChatTemplateJinja)
            .or_else(|| template(TEMPLATE_JSON).map(PromptFormatter::HfChatTemplateJson));
        ModelCard {
            display_name: display_name.to_owned(),
            slug: slug(display_name),
            source_path: Some(source_path.to_owned()),
            model_info: file(CONFIG).map(ModelInfo::HfConfigJson),
            tokenizer: file(TOKENIZER).map(TokenizerInfo::HfTokenizerJson),
            prompt_formatter: file(TOKENIZER_CONFIG).map(PromptFormatter::HfTokenizerConfigJson),
            chat_template_file: template_file,
            gen_config: file(GENERATION_CONFIG).map(GenerationConfig::HfGenerationConfigJson),
            architectural_max_context_length: self.max_position_embeddings,
            context_length: 0,
            kv_cache_block_size: 0,
            migration_limit: 0,
            model_type: "Chat | Completions".to_owned(),
            model_input: "Tokens".to_owned(),
            worker_type: Some(WorkerType::Aggregated),
            needs: Vec::new(),
            runtime_config: RuntimeConfig::default(),
            media_decoder: Value::Null,
            media_fetcher: Value::Null,
        }
    }

    fn checked(&self, name: &str, base_url: Option<&str>) -> Option<CheckedFile> {
        let found = self.found.iter().find(|found| found.name == name)?;
        let path = match base_url {
            Some(url) => format!("{}/{name}", url.trim_end_matches('/')),
            None => self.file(name).display().to_string(),
        };
        Some(CheckedFile { path, checksum: found.checksum.clone(), size: Some(found.size) })
    }

    /// Bytes of KV cache per token and tensor-parallel group: `layers · 2 · kv_heads · head_dim · bytes of dtype`
    /// (`dynamo-mocker` 1.6.1). `dtype` is `--kv-cache-dtype`; `auto` takes `torch_dtype`, 2 bytes if unknown.
    pub fn kv_bytes_per_token(&self, dtype: &str) -> Result<Option<u64>, ModelFolderError> {
        kv_bytes_per_token(&self.config, dtype).map_err(|reason| fault(&self.file(CONFIG), &reason))
    }

    /// Path of one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.folder).join(name)
    }
}

impl Found {
    fn open(path: &Path, name: &'static str) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(Self { name, checksum: format!("blake3:{}", hasher.finalize().to_hex()), size: hasher.count() })
    }
}

fn fault(path: &Path, reason: &dyn std::fmt::Display) -> ModelFolderError {
    ModelFolderError { path: path.to_owned(), reason: reason.to_string() }
}

fn read_json(path: &Path) -> Result<Value, ModelFolderError> {
    let text = fs::read(path).map_err(|error| fault(path, &error))?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| fault(path, &error))?;
    if value.is_object() { Ok(value) } else { Err(fault(path, &"is no JSON object")) }
}

/// Those of `generation_config.json`, or else of `config.json`: one id or several.
fn eos_token_ids(folder: &Path, config: &Value, found: &[Found]) -> Result<Vec<u32>, ModelFolderError> {
    if found.iter().any(|found| found.name == GENERATION_CONFIG) {
        let path = folder.join(GENERATION_CONFIG);
        let ids = token_ids(&read_json(&path)?).map_err(|reason| fault(&path, &reason))?;
        if !ids.is_empty() {
            return Ok(ids);
        }
    }
    token_ids(config).map_err(|reason| fault(&folder.join(CONFIG), &reason))
}

fn token_ids(config: &Value) -> Result<Vec<u32>, String> {
    let Some(value) = field(config, "eos_token_id") else { return Ok(Vec::new()) };
    let ids = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    ids.iter()
        .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("`eos_token_id` is {value} (allowed: an id from 0 to {}, or a list of such)", u32::MAX))
}

/// The folder of the built-in model below `place`; writes it if it isn't there.
fn built_in_folder(place: &Path) -> Result<PathBuf, ModelFolderError> {
    let files = builtin_files();
    let mut hasher = blake3::Hasher::new();
    for (name, content) in &files {
        hasher.update(name.as_bytes()).update(&[0]).update(content);
    }
    let checksum = hasher.finalize().to_hex();
    let folder = place.join(format!("dynosim-model-{}", &checksum[..16]));
    if !holds(&folder, &files) {
        publish(&folder, &files).map_err(|error| fault(&folder, &error))?;
    }
    Ok(folder)
}

fn holds(folder: &Path, files: &[(&str, Vec<u8>)]) -> bool {
    files.iter().all(|(name, content)| fs::read(folder.join(name)).is_ok_and(|there| there == *content))
}

/// Writes all to a folder beside and renames it: whoever finds the folder finds it complete.
fn publish(folder: &Path, files: &[(&str, Vec<u8>)]) -> io::Result<()> {
    let draft = folder.with_extension(uuid::Uuid::new_v4().simple().to_string());
    fs::create_dir(&draft)?;
    let written = files.iter().try_for_each(|(name, content)| fs::write(draft.join(name), content));
    if written.and_then(|()| fs::rename(&draft, folder)).is_ok() {
        return Ok(());
    }
    // Another process was faster, or somebody tidied up part of the folder; then its files are made whole one by one.
    let repaired = files.iter().try_for_each(|(name, content)| {
        fs::write(draft.join(name), content)?;
        fs::rename(draft.join(name), folder.join(name))
    });
    fs::remove_dir_all(&draft)?;
    repaired
}

#[cfg(test)]
mod tests;
