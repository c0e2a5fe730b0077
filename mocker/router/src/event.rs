//! What engines tell of their KV caches.

use thiserror::Error;

/// One data-parallel rank of a worker: what a request is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Target {
    /// The worker.
    pub worker: u64,
    /// Its data-parallel rank.
    pub rank: u32,
}

impl Target {
    /// The first rank of a worker.
    pub fn first(worker: u64) -> Self {
        Self { worker, rank: 0 }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.worker, self.rank)
    }
}

/// Where blocks lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// GPU memory.
    Device,
    /// Host memory.
    Host,
    /// Disk and everything behind it.
    Disk,
}

impl Tier {
    /// The tier behind the `medium` of a vLLM-style event; without one it is the device. Other words drop the event, also
    /// those in lower case (Dynamo 1.6.1, probed).
    pub fn of_medium(medium: Option<&str>) -> Option<Self> {
        match medium {
            None | Some("GPU") => Some(Self::Device),
            Some("CPU" | "CPU_PINNED" | "CPU_TIER1") => Some(Self::Host),
            Some("CPU_TIER2" | "DISK" | "NVME" | "EXTERNAL" | "STORAGE") => Some(Self::Disk),
            Some(_) => None,
        }
    }

    /// The tier behind the `storage_tier` of an event of Dynamo's event plane.
    pub fn of_storage(name: &str) -> Option<Self> {
        match name {
            "device" => Some(Self::Device),
            "host_pinned" => Some(Self::Host),
            "disk" | "external" => Some(Self::Disk),
            _ => None,
        }
    }
}

/// One change of a rank's cache.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Blocks are there, one after the other.
    Stored {
        /// Block hash of the block before the first; none at the start of a prompt.
        parent: Option<u64>,
        /// What later events call the blocks.
        block_hashes: &'a [u64],
        /// What prompts are matched with; as many.
        tokens_hashes: &'a [u64],
    },
    /// Blocks are gone.
    Removed {
        /// Block hashes.
        block_hashes: &'a [u64],
    },
    /// All blocks of the rank are gone, on all tiers.
    Cleared,
}

/// Why an event, or a part of it, changed nothing. Going on is right: what can be applied has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EventError {
    /// The event is dropped.
    #[error("the rank does not hold the parent block")]
    ParentNotFound,
    /// The other blocks of the event are removed.
    #[error("the rank does not hold the block")]
    BlockNotFound,
    /// The event is dropped.
    #[error("a block is repeated or its own parent, or hashes are missing")]
    InvalidSequence,
    /// The event is dropped.
    #[error("no such worker or rank")]
    UnknownTarget,
}

/// What became of a numbered batch of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one: apply it.
    Next,
    /// Batches before it are missing, from the number given; recover those if they can be had, then apply it.
    Gap {
        /// Number of the first missing batch.
        from: u64,
    },
    /// Known or older: drop it whole.
    Old,
}

/// The batch numbers of one source of events. Event ids carry no order; batch numbers do (Dynamo 1.6.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct Batches {
    last: Option<u64>,
}

impl Batches {
    /// Says what to do with a batch, and counts it as applied unless it is old.
    pub fn arrive(&mut self, number: u64) -> Arrival {
        match self.last {
            Some(last) if number <= last => Arrival::Old,
            Some(last) if number > last + 1 => {
                self.last = Some(number);
                Arrival::Gap { from: last + 1 }
            }
            _ => {
                self.last = Some(number);
                Arrival::Next
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_batches_are_dropped_and_gaps_are_told() {
        let mut batches = Batches::default();
        assert_eq!(batches.arrive(3), Arrival::Next);
        assert_eq!(batches.arrive(4), Arrival::Next);
        assert_eq!(batches.arrive(4), Arrival::Old);
        assert_eq!(batches.arrive(7), Arrival::Gap { from: 5 });
        assert_eq!(batches.arrive(6), Arrival::Old);
        assert_eq!(batches.arrive(8), Arrival::Next);
    }

    #[test]
    fn media_are_spelled_as_published() {
        assert_eq!(Tier::of_medium(None), Some(Tier::Device));
        assert_eq!(Tier::of_medium(Some("CPU_TIER1")), Some(Tier::Host));
        assert_eq!(Tier::of_medium(Some("CPU_TIER2")), Some(Tier::Disk));
        assert_eq!(Tier::of_medium(Some("gpu")), None);
        assert_eq!(Tier::of_storage("host_pinned"), Some(Tier::Host));
    }
}
