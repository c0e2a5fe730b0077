//! One response as its bytes come: when its tokens came, how many, and how it ended.

use dynosim_engine::Nanos;

use crate::failure::{Failure, FailureKind};
use crate::http::{Body, Head, Media, Piece, parse_head};
use crate::limits::{ERROR_BODY_KEPT, HEAD_MAX, WHOLE_MAX};
use crate::scan::{Chunk, scan};
use crate::sse::{Line, Lines};

/// When tokens came. An event with text is one token until `usage` says how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Events that had text.
    pub(crate) events: u32,
    pub(crate) first: Nanos,
    pub(crate) second: Nanos,
    pub(crate) last: Nanos,
}

impl Tokens {
    /// Notes a token; gives the gap to the one before it.
    fn note(&mut self, at: Nanos) -> Option<Nanos> {
        let gap = (self.events > 0).then(|| at.since(self.last));
        match self.events {
            0 => self.first = at,
            1 => self.second = at,
            _ => {}
        }
        self.last = at;
        self.events += 1;
        gap
    }
}

/// What the server says of an answer's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Prompt tokens.
    pub(crate) prompt: Option<u32>,
    /// Output tokens.
    pub(crate) completion: Option<u32>,
    /// Prompt tokens found in the prefix cache.
    pub(crate) cached: Option<u32>,
}

/// Whether more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The answer is not complete.
    Open,
    /// It is.
    Complete,
}

/// Whether the choice has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    /// Not yet.
    Missing,
    /// With text, or the stream said that it is done.
    Seen,
    /// At this time, in an event without text.
    Bare(Nanos),
}

/// How far a response has come.
#[derive(Debug)]
enum Stage {
    /// In its head.
    Head,
    /// In an event stream.
    Events(Lines),
    /// In an answer of one piece.
    Whole,
    /// In what a server says when it refuses.
    Refusal(u16),
}

/// A response in the making.
#[derive(Debug)]
pub(crate) struct Answer {
    stage: Stage,
    body: Body,
    keep_alive: bool,
    /// The response is over, and the connection can carry another request.
    pub(crate) reusable: bool,
    /// The start of the head, or a body that is kept.
    kept: Vec<u8>,
    finish: Finish,
    /// An `error` event has begun.
    error_event: bool,
    pub(crate) tokens: Tokens,
    pub(crate) usage: Usage,
}

impl Answer {
    /// Nothing has come yet.
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Head,
            body: Body::UntilClose,
            keep_alive: false,
            reusable: false,
            kept: Vec::new(),
            finish: Finish::Missing,
            error_event: false,
            tokens: Tokens::default(),
            usage: Usage::default(),
        }
    }

    /// Takes bytes that were read at `at`; tells `gap` of each time between two tokens.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], at: Nanos, gap: &mut impl FnMut(Nanos)) -> Result<State, Failure> {
        while let Stage::Head = self.stage {
            if !self.read_head(&mut bytes)? {
                return Ok(State::Open);
            }
        }
        loop {
            match self.body.next(&mut bytes)? {
                Piece::Data(data) => self.content(data, at, gap)?,
                Piece::More => return Ok(State::Open),
                Piece::End => {
                    self.reusable = self.keep_alive && bytes.is_empty();
                    self.end(at, gap)?;
                    return Ok(State::Complete);
                }
            }
        }
    }

    /// The server has closed the connection at `at`.
    pub(crate) fn closed(&mut self, at: Nanos, gap: &mut impl FnMut(Nanos)) -> Result<State, Failure> {
        match (&self.stage, self.body) {
            (Stage::Head, _) if self.kept.is_empty() => Err(Failure::broken("the connection closed before any answer")),
            (Stage::Head, _) => Err(Failure::broken("the connection closed within the head of the response")),
            // What a refusal says is of no weight: that it is one is known.
            (Stage::Refusal(_), _) | (_, Body::UntilClose) => {
                self.end(at, gap)?;
                Ok(State::Complete)
            }
            _ => Err(Failure::broken("the connection closed within the answer")),
        }
    }

    /// Reads on in the head; whether it is complete. Interim responses (1xx) are passed over.
    fn read_head(&mut self, bytes: &mut &[u8]) -> Result<bool, Failure> {
        let before = self.kept.len();
        let found = if before == 0 {
            parse_head(bytes)?
        } else {
            // A little more than the limit, so that a head that is too long is told from one that is not whole.
            let more = bytes.len().min((HEAD_MAX + 1).saturating_sub(before));
            self.kept.extend_from_slice(&bytes[..more]);
            parse_head(&self.kept)?
        };
        let Some(head) = found else {
            if before == 0 {
                self.kept.extend_from_slice(bytes);
            }
            return Ok(false);
        };
        *bytes = &bytes[head.length - before..];
        self.kept = Vec::new();
        self.begin(head);
        Ok(true)
    }

    fn begin(&mut self, head: Head) {
        self.body = head.body;
        self.keep_alive = head.keep_alive;
        self.stage = match (head.status, head.media) {
            (100..200, _) => Stage::Head,
            (200, Media::Events) => Stage::Events(Lines::default()),
            (200, Media::Other) => Stage::Whole,
            (status, _) => Stage::Refusal(status),
        };
    }

    fn content(&mut self, data: &[u8], at: Nanos, gap: &mut impl FnMut(Nanos)) -> Result<(), Failure> {
        let limit = match &self.stage {
            Stage::Events(_) => return self.events(data, at, gap),
            Stage::Refusal(_) => {
                let room = ERROR_BODY_KEPT.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&data[..data.len().min(room)]);
                return Ok(());
            }
            Stage::Head | Stage::Whole => WHOLE_MAX,
        };
        if self.kept.len() + data.len() > limit {
            return Err(Failure::malformed(format!("the answer has more than {limit} bytes")));
        }
        self.kept.extend_from_slice(data);
        Ok(())
    }

    fn events(&mut self, data: &[u8], at: Nanos, gap: &mut impl FnMut(Nanos)) -> Result<(), Failure> {
        let Self { stage: Stage::Events(lines), finish, error_event, tokens, usage, .. } = self else {
            return Ok(());
        };
        lines.feed(data, |line| {
            match line {
                Line::Data(data) if *error_event => return Err(error(&String::from_utf8_lossy(data))),
                Line::Comment(text) if *error_event => return Err(error(&String::from_utf8_lossy(text))),
                Line::Data(data) => {
                    let chunk =
                        scan(data).ok_or_else(|| Failure::malformed("an event of the stream is no JSON object"))?;
                    if let Some(message) = chunk.error {
                        return Err(error(&message));
                    }
                    usage.take(&chunk);
                    if chunk.has_text {
                        tokens.note(at).into_iter().for_each(&mut *gap);
                    }
                    if chunk.is_finished {
                        *finish = if chunk.has_text { Finish::Seen } else { Finish::Bare(at) };
                    }
                }
                Line::Done if *finish == Finish::Missing => *finish = Finish::Seen,
                Line::Error => *error_event = true,
                Line::Done | Line::Comment(_) | Line::Other => {}
            }
            Ok(())
        })
    }

    /// The body is complete: is the answer?
    fn end(&mut self, at: Nanos, gap: &mut impl FnMut(Nanos)) -> Result<(), Failure> {
        match self.stage {
            Stage::Refusal(status) => {
                return Err(Failure::new(FailureKind::Status(status), refusal_message(&self.kept)));
            }
            Stage::Whole => self.end_whole(at)?,
            Stage::Events(_) if self.error_event => return Err(error("")),
            Stage::Head | Stage::Events(_) => {}
        }
        if self.finish == Finish::Missing {
            return Err(Failure::broken("the answer ended without a finish reason"));
        }
        // Tokens without text, as parts of a letter are, come with the end at the latest.
        if let Finish::Bare(end) = self.finish
            && self.usage.completion.unwrap_or(1) > self.tokens.events
        {
            self.tokens.note(end).into_iter().for_each(gap);
        }
        if self.tokens.events == 0 {
            return Err(Failure::malformed("the answer has no text"));
        }
        Ok(())
    }

    fn end_whole(&mut self, at: Nanos) -> Result<(), Failure> {
        let kept = std::mem::take(&mut self.kept);
        let chunk = scan(&kept).ok_or_else(|| Failure::malformed("the answer is no JSON object"))?;
        if let Some(message) = chunk.error {
            return Err(error(&message));
        }
        self.usage.take(&chunk);
        if chunk.is_finished {
            self.finish = Finish::Seen;
        }
        if chunk.has_text || chunk.is_finished {
            self.tokens.note(at);
        }
        Ok(())
    }
}

impl Usage {
    /// The newest word counts: some servers tell with every chunk.
    fn take(&mut self, chunk: &Chunk) {
        self.prompt = chunk.prompt_tokens.or(self.prompt);
        self.completion = chunk.completion_tokens.or(self.completion);
        self.cached = chunk.cached_tokens.or(self.cached);
    }
}

fn error(message: &str) -> Failure {
    let message = if message.is_empty() { "without a message" } else { message };
    Failure::new(FailureKind::ErrorEvent, message)
}

/// The message within a refusal, or what there is of its text.
fn refusal_message(body: &[u8]) -> String {
    let text = || String::from_utf8_lossy(body).trim().to_owned();
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else { return text() };
    let places = ["/error/message", "/message", "/detail", "/error"];
    let found = places.iter().find_map(|place| value.pointer(place)?.as_str().map(str::to_owned));
    found.unwrap_or_else(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

    fn chunk(text: &str) -> String {
        format!("{:x}\r\n{text}\r\n", text.len())
    }

    /// Feeds parts at 1 ms, 2 ms, …; gives the last state, the answer and the gaps in ms.
    fn feed(parts: &[&str]) -> (Result<State, Failure>, Answer, Vec<f64>) {
        let (mut answer, mut gaps, mut state) = (Answer::new(), Vec::new(), Ok(State::Open));
        for (index, part) in parts.iter().enumerate() {
            let at = Nanos::from_ms(index as f64 + 1.0);
            state = answer.feed(part.as_bytes(), at, &mut |gap: Nanos| gaps.push(gap.as_ms()));
            if state.is_err() {
                break;
            }
        }
        (state, answer, gaps)
    }

    #[test]
    fn tokens_are_stamped_as_they_come() {
        let token = chunk("data: {\"choices\":[{\"text\":\"a\"}]}\n\n");
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\n";
        let end = chunk(&format!("data: {{\"choices\":[{{\"text\":\"\",\"finish_reason\":\"length\"}}]}}\n\n{usage}"));
        let rest = format!("{end}{}0\r\n\r\n", chunk("data: [DONE]\n\n"));
        let twice = token.repeat(2);
        let (state, answer, gaps) = feed(&[HEAD, &token, &twice, &token, &rest]);
        assert_eq!((state, answer.reusable), (Ok(State::Complete), true));
        assert_eq!(gaps, [1.0, 0.0, 1.0]);
        let ms = Nanos::from_ms;
        assert_eq!(answer.tokens, Tokens { events: 4, first: ms(2.0), second: ms(3.0), last: ms(4.0) });
        assert_eq!(answer.usage, Usage { prompt: Some(9), completion: Some(4), cached: None });

        // The same in single bytes.
        let all = [HEAD, &token, &twice, &token, &rest].concat();
        let bytes: Vec<_> = (0..all.len()).map(|at| &all[at..=at]).collect();
        let (state, single, _) = feed(&bytes);
        assert_eq!((state, single.tokens.events), (Ok(State::Complete), 4));
    }

    #[test]
    fn tokens_without_text_come_with_the_end() {
        let text = chunk("data: {\"choices\":[{\"text\":\"a\"}]}\n\n");
        let end = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
        let usage = |tokens: u32| {
            let usage = format!("data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\n");
            format!("{}0\r\n\r\n", chunk(&usage))
        };
        let (_, answer, gaps) = feed(&[HEAD, &text, &chunk(end), &usage(3)]);
        assert_eq!((answer.tokens.events, answer.tokens.last, &gaps[..]), (2, Nanos::from_ms(3.0), &[1.0][..]));
        // An end of its own behind the last token is no token.
        let (_, answer, gaps) = feed(&[HEAD, &text, &chunk(end), &usage(1)]);
        assert_eq!((answer.tokens.events, gaps.len()), (1, 0));
        let (state, answer, _) = feed(&[HEAD, &chunk(end), &usage(1)]);
        assert_eq!((state, answer.tokens.first), (Ok(State::Complete), Nanos::from_ms(2.0)));
    }

    #[test]
    fn a_whole_answer_has_all_its_tokens_at_its_end() {
        let body = r#"{"choices":[{"text":"abc","finish_reason":"length"}],"usage":{"completion_tokens":3}}"#;
        let head = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let (state, answer, _) = feed(&[&head, &body[..20], &body[20..]]);
        assert_eq!((state, answer.reusable), (Ok(State::Complete), true));
        assert_eq!((answer.tokens.events, answer.tokens.first), (1, Nanos::from_ms(3.0)));
        assert_eq!(answer.usage.completion, Some(3));
    }

    #[test]
    fn failures_are_told_apart() {
        let event = |data: &str| format!("{HEAD}{}0\r\n\r\n", chunk(&format!("{data}\n\n")));
        let sized =
            |status: u16, body: &str| format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        for (text, expected) in [
            (event(r#"data: {"choices":[{"text":"a"}]}"#), "broken: the answer ended without a finish reason"),
            (event(r#"data: {"error":{"message":"no room"}}"#), "error_event: no room"),
            (event("event: error\n: worker died"), "error_event: worker died"),
            (event("event: error"), "error_event: without a message"),
            (event("data: {half"), "malformed: an event of the stream is no JSON object"),
            (event("data: [DONE]"), "malformed: the answer has no text"),
            (sized(503, r#"{"error":{"message":"busy"}}"#), "status_503: busy"),
            (sized(404, "nothing here"), "status_404: nothing here"),
            (sized(200, "hello"), "malformed: the answer is no JSON object"),
        ] {
            assert_eq!(feed(&[&text]).0.unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn a_close_is_an_end_only_where_nothing_else_is() {
        let close = |text: &str| {
            let (_, mut answer, _) = feed(&[text]);
            answer.closed(Nanos::from_ms(9.0), &mut |_| ()).map_err(|failure| failure.to_string())
        };
        let event = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n";
        let old = format!("HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{event}");
        assert_eq!(close(&old), Ok(State::Complete));
        let within = "broken: the connection closed within the answer";
        assert_eq!(close(&format!("{HEAD}{}", chunk(event))), Err(within.to_owned()));
        assert_eq!(close(""), Err("broken: the connection closed before any answer".to_owned()));
        assert_eq!(
            close("HTTP/1.1 2"),
            Err("broken: the connection closed within the head of the response".to_owned())
        );
    }
}
