//! Chat templates: from messages to one text.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value};
use serde::Deserialize;

use super::python;
use crate::openai::chat::ChatRequest;
use crate::openai::message::Message;

/// Name of the template for conversations without tools.
const DEFAULT: &str = "default";
/// Name of the template for conversations with tools, if there is one.
const TOOL_USE: &str = "tool_use";
/// Special tokens that templates know by name.
const TOKEN_NAMES: [&str; 5] = ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token"];

/// `tokenizer_config.json`, as far as templates need it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TokenizerConfig {
    chat_template: Option<Source>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

/// One template, or several by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Source {
    One(String),
    Named(Vec<Named>),
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: String,
    template: String,
}

impl TokenizerConfig {
    /// Reads the file.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|e| e.to_string())
    }

    /// Replaces the template by that of a file of its own.
    pub(crate) fn set_template(&mut self, template: String) {
        self.chat_template = Some(Source::One(template));
    }

    /// A special token's text: written as it is, or as an object with `content`.
    pub(crate) fn token(&self, name: &str) -> Option<&str> {
        let token = self.others.get(name)?;
        token.as_str().or_else(|| token["content"].as_str())
    }
}

/// The template of a model.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// Compiles the template of a configuration; none if it has none.
    pub(crate) fn new(config: &TokenizerConfig) -> Result<Option<Self>, String> {
        let sources = match config.chat_template.clone() {
            None => return Ok(None),
            Some(Source::One(template)) => vec![Named { name: DEFAULT.to_owned(), template }],
            Some(Source::Named(sources)) => sources,
        };
        let mut environment = Environment::new();
        // As the reference implementation renders: a line that has only a tag leaves nothing.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| e.to_string())?);
        python::extend(&mut environment);
        for Named { name, template } in sources {
            let template = without_training_marks(template);
            environment.add_template_owned(name, template).map_err(|e| format!("chat_template: {e:#}"))?;
        }
        if environment.get_template(DEFAULT).is_err() {
            return Err(format!("chat_template: no template is named `{DEFAULT}`"));
        }
        let tokens = TOKEN_NAMES.iter().filter_map(|name| Some((*name, config.token(name)?.to_owned()))).collect();
        Ok(Some(Self { environment, tokens }))
    }

    /// The prompt. The error is the template's own reason, or where it failed.
    pub(crate) fn render(&self, request: &ChatRequest<'_>) -> Result<String, String> {
        let mut names: BTreeMap<&str, Value> = BTreeMap::new();
        for (name, token) in &self.tokens {
            names.insert(name, Value::from(token.as_str()));
        }
        for (name, value) in &request.template_names {
            names.insert(name, value.clone());
        }
        names.insert("messages", request.messages.iter().map(Message::to_value).collect::<Value>());
        names.insert("add_generation_prompt", Value::from(request.add_generation_prompt));
        if let Some(tools) = &request.tools {
            names.insert("tools", tools.clone());
        }
        let with_tools = request.tools.as_ref().and_then(|_| self.environment.get_template(TOOL_USE).ok());
        let template = with_tools.map_or_else(|| self.environment.get_template(DEFAULT), Ok);
        let rendered = template.and_then(|template| template.render(Value::from_pairs(names)));
        rendered.map_err(|error| error.detail().map_or_else(|| error.to_string(), str::to_owned))
    }
}

/// Marks of what an assistant says, which only training reads.
fn without_training_marks(template: String) -> String {
    if !template.contains("generation") {
        return template;
    }
    let mut template = template;
    for mark in ["generation", "endgeneration"] {
        for (open, close) in [("{%", "%}"), ("{%-", "-%}"), ("{%-", "%}"), ("{%", "-%}")] {
            // An empty set block keeps the trimming that the mark asks for.
            let replacement = format!("{open} if true {close}{open} endif {close}");
            template = template.replace(&format!("{open} {mark} {close}"), &replacement);
        }
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::service::Endpoint;
    use crate::openai::request::{Request, open};

    fn render(config: &serde_json::Value, body: &str) -> Result<String, String> {
        let config = TokenizerConfig::parse(config.to_string().as_bytes()).unwrap();
        let template = ChatTemplate::new(&config).unwrap().expect("a template");
        let request = Request::parse(Endpoint::Chat, open(body.as_bytes()).unwrap()).unwrap();
        let Request::Chat(request) = request else { unreachable!() };
        template.render(&request)
    }

    const BODY: &str = r#"{"model": "m", "messages": [{"role": "system", "content": " Be brief. "},
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}]}"#;

    #[test]
    fn headers_and_ends_of_turns_are_written_around_messages() {
        let template = "{{- bos_token }}{% for message in messages %}\n    {%- if loop.first and message['role'] == 'system' %}\n        {{- '[' ~ message.content.strip() ~ ']' }}\n        {%- continue %}\n    {%- endif %}\n{{ '<' + message['role'] + '>' + message['content'] | trim + eos_token }}\n{% endfor %}\n{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}\n";
        let config = serde_json::json!({
            "chat_template": template, "bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>"});
        let expected = "<s>[Be brief.]<user>Hi</s>\n<assistant>Hello</s>\n<user>Bye</s>\n<assistant>";
        assert_eq!(render(&config, BODY).unwrap(), expected);
    }

    #[test]
    fn common_idioms_of_published_templates_work() {
        for (template, expected) in [
            ("{{ messages[0]['role'] }}{{ messages[1:] | length }}{{ messages[-1].content }}", "system3Bye"),
            ("{% for m in messages[::-1] %}{{ m.content[:2] }},{% endfor %}", "By,He,Hi, B,"),
            (
                "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
                "4",
            ),
            ("{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}{{ 'x'.startswith('x') }}", "bTrue"),
            (
                "{% if tools is defined and tools %}T{% else %}-{% endif %}{{ messages[0].get('name', 'none') }}",
                "-none",
            ),
            ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') }}{{ date_string | default('x') }}", "<a>x"),
            (
                "{% for m in messages if m.role != 'system' %}{{ loop.index0 }}{{ m.role | upper }} {% endfor %}",
                "0USER 1ASSISTANT 2USER ",
            ),
            (
                "{{ messages[0].items() | list | length }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
                "22",
            ),
            ("{% generation %}a{% endgeneration %}", "a"),
            ("{%- if messages[0].content is string and messages[0].content is not none %}s{% endif %}", "s"),
            ("{{ 'a' if not thinking is defined else 'b' }}{{ strftime_now('%Y')[:2] }}", "a20"),
        ] {
            let config = serde_json::json!({ "chat_template": template });
            assert_eq!(render(&config, BODY).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn a_template_may_refuse_a_conversation() {
        let config = serde_json::json!({"chat_template": "{{ raise_exception('roles must alternate') }}"});
        assert_eq!(render(&config, BODY).unwrap_err(), "roles must alternate");
    }

    #[test]
    fn tools_choose_their_template_and_keep_the_order_of_their_fields() {
        let config = serde_json::json!({"chat_template": [
            {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools[0] | tojson }}"}]});
        let body = |choice: &str| {
            format!(
                r#"{{"model": "m", "messages": [{{"role": "user", "content": "x"}}], "tool_choice": "{choice}",
                    "tools": [{{"type": "function", "function": {{"name": "f", "description": "<d>"}}}}]}}"#
            )
        };
        let expected = r#"{"type": "function", "function": {"name": "f", "description": "<d>"}}"#;
        assert_eq!(render(&config, &body("auto")).unwrap(), expected);
        assert_eq!(render(&config, &body("none")).unwrap(), "plain", "tools that may not be called are not shown");
    }

    #[test]
    fn names_of_the_request_reach_the_template() {
        let config = serde_json::json!({"chat_template": "{{ enable_thinking }} {{ reasoning_effort }}"});
        let body = r#"{"model": "m", "messages": [{"role": "user", "content": "x"}], "reasoning_effort": "low",
            "chat_template_kwargs": {"enable_thinking": false}}"#;
        assert_eq!(render(&config, body).unwrap(), "False low");
    }
}
