//! Ctrl-C ends a run early; what was measured is reported.

use dynosim_load::Stop;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// Stops the run at the first interrupt or request to end. A thread of its own waits for it, so that the event loop
/// does not have to.
pub(crate) fn stop_on_signal(stop: Stop) -> Result<(), Failure> {
    let failed = |error| Failure::io(format_args!("signals cannot be handled: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let (mut interrupt, mut end) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = end.recv() => {}
            }
        });
        stop.stop();
    });
    Ok(())
}
