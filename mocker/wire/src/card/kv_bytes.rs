//! How much KV cache a token needs.

use serde_json::Value;

/// What `--kv-cache-dtype` may be.
const DTYPES: [(&str, u64); 6] =
    [("bfloat16", 2), ("fp8", 1), ("fp8_ds_mla", 1), ("fp8_e4m3", 1), ("fp8_e5m2", 1), ("fp8_inc", 1)];
/// Bytes of a number if the configuration says nothing that is known.
const UNKNOWN_DTYPE_BYTES: u64 = 2;

/// The field of a configuration: at the top, or within `text_config` as models with several inputs have it.
pub(super) fn field<'a>(config: &'a Value, name: &str) -> Option<&'a Value> {
    let there = |object: &'a Value| object.get(name).filter(|value| !value.is_null());
    there(config).or_else(|| config.get("text_config").and_then(there))
}

/// A field that is a count.
pub(super) fn count(config: &Value, name: &str) -> Result<Option<u64>, String> {
    field(config, name)
        .map(|value| {
            let allowed = value.as_u64().filter(|count| u32::try_from(*count).is_ok());
            allowed.ok_or_else(|| format!("`{name}` is {value} (allowed: 0 to {})", u32::MAX))
        })
        .transpose()
}

/// Bytes per token for a cache of `dtype`; none if the configuration doesn't say enough.
pub(super) fn kv_bytes_per_token(config: &Value, dtype: &str) -> Result<Option<u64>, String> {
    let bytes = dtype_bytes(config, dtype)?;
    let heads = count(config, "num_attention_heads")?;
    let kv_heads = count(config, "num_key_value_heads")?.or(heads);
    let head_dim = match count(config, "head_dim")? {
        Some(dim) => Some(dim),
        None => count(config, "hidden_size")?.zip(heads).and_then(|(hidden, heads)| hidden.checked_div(heads)),
    };
    let (Some(layers), Some(kv_heads), Some(head_dim)) = (count(config, "num_hidden_layers")?, kv_heads, head_dim)
    else {
        return Ok(None);
    };
    [2, kv_heads, head_dim, bytes]
        .into_iter()
        .try_fold(layers, u64::checked_mul)
        .map(Some)
        .ok_or_else(|| "bytes of KV cache per token are beyond 2⁶⁴".to_owned())
}

fn dtype_bytes(config: &Value, dtype: &str) -> Result<u64, String> {
    if dtype == "auto" {
        let named = field(config, "torch_dtype").or_else(|| field(config, "dtype"));
        return Ok(named.and_then(Value::as_str).map_or(UNKNOWN_DTYPE_BYTES, torch_bytes));
    }
    DTYPES.into_iter().find(|(name, _)| *name == dtype).map(|(_, bytes)| bytes).ok_or_else(|| {
        let names = DTYPES.map(|(name, _)| name).join(", ");
        format!("KV cache type `{dtype}` is not known (allowed: auto, {names})")
    })
}

fn torch_bytes(dtype: &str) -> u64 {
    match dtype.strip_prefix("torch.").unwrap_or(dtype) {
        "float64" | "double" => 8,
        "float32" | "float" => 4,
        "int8" | "uint8" => 1,
        name if name.starts_with("float8") || name.starts_with("fp8") => 1,
        _ => UNKNOWN_DTYPE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_follow_from_layers_heads_and_type() {
        let config = json!({"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "hidden_size": 4096, "torch_dtype": "bfloat16"});
        assert_eq!(kv_bytes_per_token(&config, "auto"), Ok(Some(131_072)));
        assert_eq!(kv_bytes_per_token(&config, "bfloat16"), Ok(Some(131_072)));
        for fp8 in ["fp8", "fp8_ds_mla", "fp8_e4m3", "fp8_e5m2", "fp8_inc"] {
            assert_eq!(kv_bytes_per_token(&config, fp8), Ok(Some(65_536)), "{fp8}");
        }
    }

    #[test]
    fn the_size_of_a_head_is_taken_as_given_and_nested_fields_count() {
        let text = json!({"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 24, "hidden_size": 64});
        let nested = json!({"model_type": "many inputs", "torch_dtype": "float32", "text_config": text});
        assert_eq!(kv_bytes_per_token(&text, "auto"), Ok(Some(2 * 2 * 4 * 24 * 2)));
        assert_eq!(kv_bytes_per_token(&nested, "auto"), Ok(Some(2 * 2 * 4 * 24 * 4)));
    }

    #[test]
    fn a_configuration_that_says_too_little_gives_none_and_nonsense_is_an_error() {
        assert_eq!(kv_bytes_per_token(&json!({}), "auto"), Ok(None));
        assert_eq!(kv_bytes_per_token(&json!({"num_hidden_layers": 2, "hidden_size": 64}), "auto"), Ok(None));
        assert_eq!(
            kv_bytes_per_token(&json!({"num_hidden_layers": 2, "num_attention_heads": 0, "hidden_size": 4}), "fp8"),
            Ok(None)
        );
        for (config, dtype, named) in [
            (json!({}), "int4", "`int4`"),
            (json!({"num_hidden_layers": -1}), "auto", "`num_hidden_layers` is -1"),
            (json!({"num_attention_heads": "8"}), "auto", "`num_attention_heads` is \"8\""),
            (json!({"head_dim": 1.5}), "fp8", "`head_dim` is 1.5"),
        ] {
            let error = kv_bytes_per_token(&config, dtype).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        let huge = u32::MAX;
        let config = json!({"num_hidden_layers": huge, "num_attention_heads": huge, "head_dim": huge});
        assert!(kv_bytes_per_token(&config, "auto").unwrap_err().contains("beyond"));
    }
}
