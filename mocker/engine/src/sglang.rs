//! SGLang.

mod leaves;
mod pages;
mod ratio;
mod tree;

pub use leaves::EvictionPolicy;
pub use pages::Pool;
pub use ratio::Ratio;
pub use tree::{Insert, Match, NodeId, ROOT, SplitAge, Tree};
