//! Speculative decoding (placeholder for the merge).
/// Sampler.
#[derive(Clone, Debug)]
pub struct Mtp;
impl Mtp {
    /// Drafts.
    pub fn drafts(&self) -> u32 {
        0
    }
    /// Burst.
    pub fn burst(&mut self) -> u32 {
        1
    }
}
