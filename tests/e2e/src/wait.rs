//! Waiting for what a cluster does in its own time.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Longer than a cluster on a busy machine takes for anything that a test waits for.
pub const LIMIT: Duration = Duration::from_mins(3);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks again and again until `look` has an answer. While it has none, it says why.
///
/// # Panics
/// If there is none within the limit; the message has the last reason.
pub async fn wait<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let mut reason = "nothing was seen".to_owned();
    let answer = timeout(LIMIT, async {
        loop {
            match look().await {
                Ok(answer) => return answer,
                Err(why_not) => reason = why_not,
            }
            sleep(PAUSE).await;
        }
    });
    let answer = answer.await.ok();
    answer.unwrap_or_else(|| panic!("not within {} s: {what}: {reason}", LIMIT.as_secs()))
}
