//! Reasoning spans in the output of a request: `start, thinking…, end, answer…`.

/// What `reasoning` of the engine arguments says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reasoning {
    /// Token that opens the span.
    pub start_thinking_token_id: u32,
    /// Token that closes it.
    pub end_thinking_token_id: u32,
    /// Share of the output that is the span, with both marks: 0 to 1.
    pub thinking_ratio: f64,
}

/// What stands at one position of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// The opening mark.
    Start,
    /// A token inside the span.
    Thinking,
    /// The closing mark.
    End,
    /// A token after the span, or of an output without one.
    Answer,
}

impl Reasoning {
    /// Tokens of the span, both marks included, in an output of `output_tokens`: 0 or 2 and more.
    ///
    /// Nothing if the output has fewer than 2 tokens or the share rounds down to 0 (`dynamo-mocker` 1.6.1).
    pub fn thinking_tokens(&self, output_tokens: u32) -> u32 {
        let share = (f64::from(output_tokens) * self.thinking_ratio).floor() as u32;
        if output_tokens < 2 || share == 0 { 0 } else { share.clamp(2, output_tokens) }
    }

    /// What stands at `position` (from 0) of an output of `output_tokens`.
    pub fn kind(&self, position: u32, output_tokens: u32) -> OutputKind {
        let span = self.thinking_tokens(output_tokens);
        match position {
            _ if position >= span => OutputKind::Answer,
            0 => OutputKind::Start,
            _ if position + 1 == span => OutputKind::End,
            _ => OutputKind::Thinking,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(output_tokens: u32, thinking_ratio: f64) -> String {
        let reasoning = Reasoning { start_thinking_token_id: 1, end_thinking_token_id: 2, thinking_ratio };
        (0..output_tokens)
            .map(|position| match reasoning.kind(position, output_tokens) {
                OutputKind::Start => '<',
                OutputKind::Thinking => '.',
                OutputKind::End => '>',
                OutputKind::Answer => 'a',
            })
            .collect()
    }

    #[test]
    fn spans_follow_the_published_rule() {
        for (output_tokens, ratio, expected) in [
            (10, 0.6, "<....>aaaa"),
            (10, 0.0, "aaaaaaaaaa"),
            (10, 0.09, "aaaaaaaaaa"),
            (10, 0.1, "<>aaaaaaaa"),
            (10, 0.29, "<>aaaaaaaa"),
            (10, 1.0, "<........>"),
            (2, 0.5, "<>"),
            (2, 0.4, "aa"),
            (1, 1.0, "a"),
            (0, 1.0, ""),
        ] {
            assert_eq!(layout(output_tokens, ratio), expected, "{output_tokens} at {ratio}");
        }
    }
}
