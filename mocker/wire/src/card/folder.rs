//! A model folder on this machine.

use std::path::{Path, PathBuf};

use super::ModelCard;

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
}

impl ModelFiles {
    /// Reads the folder `path`, or, if there is none, writes the built-in model to a folder of its own (below the
    /// system's folder for temporary files, named by the content's checksum, written atomically; equal for all processes).
    pub fn open(_path: &str) -> Result<Self, ModelFolderError> {
        todo!()
    }

    /// A card with the files of this folder; everything else is at its default. `base_url` is where the worker's system
    /// port serves the files, if it does; without it paths are local.
    pub fn card(&self, _display_name: &str, _source_path: &str, _base_url: Option<&str>) -> ModelCard {
        todo!()
    }

    /// Bytes of KV cache per token and tensor-parallel group: `layers · 2 · kv_heads · head_dim · bytes of dtype`
    /// (`dynamo-mocker` 1.6.1). `dtype` is `--kv-cache-dtype`; `auto` takes `torch_dtype`, 2 bytes if unknown.
    pub fn kv_bytes_per_token(&self, _dtype: &str) -> Result<Option<u64>, ModelFolderError> {
        todo!()
    }

    /// Path of one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.folder).join(name)
    }
}
