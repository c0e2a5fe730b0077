//! Constant durations.

/// One prefill and one decode duration, whatever the batch (timing model `fixed` of the nested engine arguments).
///
/// No floor applies: what is configured is what a pass takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fixed {
    /// Milliseconds for the prompt tokens of a pass, finite and at least 0.
    pub prefill_ms: f64,
    /// Milliseconds for one decode step, finite and at least 0.
    pub decode_ms: f64,
}
