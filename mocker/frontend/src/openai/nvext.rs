//! Dynamo's own object `nvext` in a request, and the headers that say the same.

use ::http::HeaderMap;
use dynosim_wire::protocol::RoutingHints;

use super::error::ApiError;
use super::fields::{Fields, text, tokens};

/// Headers that set a routing hint; the first that is there counts.
const DECODE_WORKER: [&str; 2] = ["x-dynamo-worker-instance-id", "x-worker-instance-id"];
const PREFILL_WORKER: [&str; 2] = ["x-dynamo-prefill-instance-id", "x-prefill-instance-id"];
const DECODE_RANK: [&str; 3] = ["x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank"];
const PREFILL_RANK: [&str; 2] = ["x-dynamo-prefill-dp-rank", "x-prefill-dp-rank"];
const PRIORITY: [&str; 1] = ["x-dynamo-request-priority"];

/// Names in `nvext.annotations` that are answered, as events at the head of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotations {
    /// The prompt as the chat template made it.
    pub(crate) formatted_prompt: bool,
    /// The prompt's tokens.
    pub(crate) token_ids: bool,
}

impl Annotations {
    /// Some event is wanted.
    pub(crate) fn any(self) -> bool {
        self.formatted_prompt || self.token_ids
    }

    /// As workers are told.
    pub(crate) fn names(self) -> Vec<String> {
        let names = [(self.formatted_prompt, "formatted_prompt"), (self.token_ids, "token_ids")];
        names.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name.to_owned()).collect()
    }
}

/// What the object says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NvExt {
    /// Events at the head of a stream.
    pub(crate) annotations: Annotations,
    /// The prompt as tokens, in place of its text.
    pub(crate) token_data: Option<Vec<u32>>,
    /// Most reasoning tokens.
    pub(crate) max_thinking_tokens: Option<u32>,
    /// Where the request goes.
    pub(crate) routing: RoutingHints,
}

impl NvExt {
    /// Takes the object from the fields of a body.
    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<Self, ApiError> {
        match fields.object("nvext")? {
            Some(nvext) => Self::parse(nvext).map_err(|error| error.within("nvext")),
            None => Ok(Self::default()),
        }
    }

    fn parse(mut fields: Fields<'_>) -> Result<Self, ApiError> {
        // Greedy or not, a simulated engine draws no text.
        fields.boolean("greed_sampling")?;
        let mut nvext = Self {
            annotations: annotations(&mut fields)?,
            token_data: fields.take("token_data").map(|raw| tokens("token_data", raw)).transpose()?,
            max_thinking_tokens: fields.integer("max_thinking_tokens", 0..=u32::MAX)?,
            routing: RoutingHints {
                backend_instance_id: fields.integer("backend_instance_id", 0..=u64::MAX)?,
                prefill_worker_id: fields.integer("prefill_worker_id", 0..=u64::MAX)?,
                decode_worker_id: fields.integer("decode_worker_id", 0..=u64::MAX)?,
                dp_rank: fields.integer("dp_rank", 0..=u32::MAX)?,
                prefill_dp_rank: fields.integer("prefill_dp_rank", 0..=u32::MAX)?,
                ..RoutingHints::default()
            },
        };
        if let Some(mut hints) = fields.object("agent_hints")? {
            let routing = &mut nvext.routing;
            agent_hints(&mut hints, routing).and_then(|()| hints.end()).map_err(|e| e.within("agent_hints"))?;
        }
        if nvext.token_data.as_ref().is_some_and(Vec::is_empty) {
            return Err(ApiError::value("token_data", "[]", "at least one token id"));
        }
        fields.end()?;
        Ok(nvext)
    }
}

fn annotations(fields: &mut Fields<'_>) -> Result<Annotations, ApiError> {
    let mut wanted = Annotations::default();
    for (i, raw) in fields.list("annotations")?.unwrap_or_default().into_iter().enumerate() {
        let name = || format!("annotations[{i}]");
        match text(&name(), raw)?.as_ref() {
            "formatted_prompt" => wanted.formatted_prompt = true,
            "token_ids" => wanted.token_ids = true,
            _ => return Err(ApiError::value(name(), raw.get(), "formatted_prompt, token_ids")),
        }
    }
    Ok(wanted)
}

fn agent_hints(fields: &mut Fields<'_>, routing: &mut RoutingHints) -> Result<(), ApiError> {
    routing.expected_output_tokens = fields.integer("osl", 0..=u32::MAX)?;
    routing.priority = fields.integer("priority", i32::MIN..=i32::MAX)?;
    Ok(())
}

/// Headers win over the body, as a gateway in front of the frontend chooses the worker.
pub(crate) fn apply_headers(routing: &mut RoutingHints, headers: &HeaderMap) -> Result<(), ApiError> {
    if let Some(worker) = header(headers, &DECODE_WORKER)? {
        routing.backend_instance_id = Some(worker);
    }
    routing.prefill_worker_id = header(headers, &PREFILL_WORKER)?.or(routing.prefill_worker_id);
    routing.dp_rank = header(headers, &DECODE_RANK)?.or(routing.dp_rank);
    routing.prefill_dp_rank = header(headers, &PREFILL_RANK)?.or(routing.prefill_dp_rank);
    routing.priority = header(headers, &PRIORITY)?.or(routing.priority);
    Ok(())
}

fn header<T: std::str::FromStr>(headers: &HeaderMap, names: &[&'static str]) -> Result<Option<T>, ApiError> {
    let Some((name, value)) = names.iter().find_map(|name| Some((*name, headers.get(*name)?))) else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        let value = String::from_utf8_lossy(value.as_bytes());
        ApiError::value(format!("header {name}"), &value, "a whole decimal number")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<NvExt, ApiError> {
        NvExt::take(&mut Fields::of_body(body.as_bytes())?)
    }

    #[test]
    fn hints_reach_the_router() {
        let nvext = parse(
            r#"{"nvext": {"backend_instance_id": 13293156816301709028, "dp_rank": 3, "greed_sampling": true,
                "agent_hints": {"osl": 7, "priority": -2}, "annotations": ["token_ids"]}}"#,
        );
        let nvext = nvext.unwrap();
        assert_eq!(nvext.routing.backend_instance_id, Some(13_293_156_816_301_709_028));
        assert_eq!(nvext.routing.dp_rank, Some(3));
        assert_eq!(nvext.routing.expected_output_tokens, Some(7));
        assert_eq!(nvext.routing.priority, Some(-2));
        assert_eq!(nvext.annotations.names(), ["token_ids"]);
    }

    #[test]
    fn what_would_have_no_effect_is_refused_by_its_path() {
        for (body, path) in [
            (r#"{"nvext": {"cache_salt": "x"}}"#, "nvext.cache_salt"),
            (r#"{"nvext": {"agent_hints": {"strict_priority": 1}}}"#, "nvext.agent_hints.strict_priority"),
            (r#"{"nvext": {"annotations": ["bogus"]}}"#, "nvext.annotations[0]"),
            (r#"{"nvext": {"token_data": []}}"#, "nvext.token_data"),
        ] {
            assert_eq!(parse(body).unwrap_err().param.as_deref(), Some(path), "{body}");
        }
    }

    #[test]
    fn headers_win_over_the_body_and_must_be_numbers() {
        let mut headers = HeaderMap::new();
        headers.insert("x-worker-instance-id", "9".parse().unwrap());
        headers.insert("x-dp-rank", "1".parse().unwrap());
        let mut routing = RoutingHints { backend_instance_id: Some(5), dp_rank: Some(0), ..RoutingHints::default() };
        apply_headers(&mut routing, &headers).unwrap();
        assert_eq!((routing.backend_instance_id, routing.dp_rank), (Some(9), Some(1)));
        headers.insert("x-dp-rank", "junk".parse().unwrap());
        let error = apply_headers(&mut routing, &headers).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("header x-dp-rank"));
    }
}
