//! An answer as one body.

use dynosim_wire::time;

use super::progress::{Answer, Step, broken_off};
use super::service::{Outcome, Service};
use crate::generate::{GenerateError, Outputs};
use crate::openai::answer::Reason;

/// Reads all outputs; the text and why it ended.
pub(crate) async fn collect<S: Service>(
    outputs: &mut S::Outputs,
    answer: &mut Answer<S>,
) -> Result<(String, Reason), GenerateError> {
    let ended = gather(outputs, answer).await;
    answer.finish(if ended.is_ok() { Outcome::Complete } else { Outcome::Failed });
    ended
}

async fn gather<S: Service>(
    outputs: &mut S::Outputs,
    answer: &mut Answer<S>,
) -> Result<(String, Reason), GenerateError> {
    let mut text = String::new();
    loop {
        let mut output = outputs.next().await?.ok_or_else(broken_off)?;
        let begin = time::now();
        loop {
            match answer.take(&output, &mut text) {
                Step::On => {}
                Step::End(reason) => return Ok((text, reason)),
                Step::Failed(reason) => return Err(GenerateError::Failed(reason)),
            }
            match outputs.next_ready()? {
                Some(next) => output = next,
                None => break,
            }
        }
        answer.pause(begin);
    }
}
