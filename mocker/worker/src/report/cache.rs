//! Changes of a rank's KV cache, on their way to routers.

use std::collections::hash_map::Entry;

use dynosim_engine::{KvEvent, Pass, RequestId, Ticket};
use dynosim_wire::event::{
    BlockData, CacheEvent, EventData, EventPublisher, RouterEvent, StoredBlocks, VllmEvent, VllmPublisher,
};
use rustc_hash::FxHashMap;

use crate::flight::{Content, Flights};
use crate::recovery::Recovery;

/// A run of blocks that became findable.
#[derive(Debug)]
struct Run {
    parent: Option<u64>,
    position: u32,
    blocks: Vec<BlockData>,
}

/// Publishes the cache changes of one rank.
///
/// The engine may hold a block twice, when two requests compute it side by side; routers are told of the first copy that
/// comes and of the last one that goes.
#[derive(Debug)]
pub(crate) struct CacheReport {
    worker_id: u64,
    rank: u32,
    block_size: u32,
    publisher: Option<EventPublisher>,
    vllm: Option<VllmPublisher>,
    recovery: Option<Recovery>,
    /// Number of the next event.
    next: u64,
    /// Copies of each block.
    copies: FxHashMap<u64, u32>,
    events: Vec<RouterEvent>,
    vllm_events: Vec<VllmEvent>,
    /// Blocks whose request was not known any more.
    lost: u64,
}

impl CacheReport {
    pub(crate) fn new(worker_id: u64, rank: u32, block_size: u32) -> Self {
        Self {
            worker_id,
            rank,
            block_size,
            publisher: None,
            vllm: None,
            recovery: None,
            next: 1,
            copies: FxHashMap::default(),
            events: Vec::new(),
            vllm_events: Vec::new(),
            lost: 0,
        }
    }

    /// Publishes on the event plane; `recovery` remembers what was published, for who missed some of it.
    pub(crate) fn publish_on(mut self, publisher: EventPublisher, recovery: Option<Recovery>) -> Self {
        (self.publisher, self.recovery) = (Some(publisher), recovery);
        self
    }

    /// Publishes as vLLM does, too.
    pub(crate) fn publish_as_vllm(mut self, publisher: VllmPublisher) -> Self {
        self.vllm = Some(publisher);
        self
    }

    /// Events that subscribers did not get because they did not read, or whose blocks were not known any more.
    pub(crate) fn dropped(&self) -> u64 {
        self.lost
            + self.publisher.as_ref().map_or(0, EventPublisher::dropped)
            + self.vllm.as_ref().map_or(0, VllmPublisher::dropped)
    }

    /// A pass has ended: what it changed is published as one batch.
    pub(crate) fn pass(&mut self, pass: &Pass, flights: &Flights) {
        for item in &pass.events.items {
            match *item {
                KvEvent::Stored { parent, start, len, request, position } => {
                    let hashes = &pass.events.hashes[start as usize..(start + len) as usize];
                    self.stored(parent, hashes, request, position, flights);
                }
                KvEvent::Removed { start, len } => {
                    self.removed(&pass.events.hashes[start as usize..(start + len) as usize]);
                }
                KvEvent::Cleared => self.cleared(),
            }
        }
        self.send();
    }

    fn stored(
        &mut self,
        parent: Option<u64>,
        hashes: &[u64],
        request: RequestId,
        position: u32,
        flights: &Flights,
    ) {
        let Some(content) = flights.content(Ticket { rank: self.rank, request }, position, hashes) else {
            self.lost += hashes.len() as u64;
            return;
        };
        let blocks = content.find(position, hashes).unwrap_or_default();
        let mut run: Option<Run> = None;
        let mut parent = parent;
        for (at, block) in (position..).zip(blocks) {
            let copies = self.copies.entry(block.sequence).or_default();
            *copies += 1;
            if *copies == 1 {
                let run = run.get_or_insert_with(|| Run { parent, position: at, blocks: Vec::new() });
                let data = BlockData { block_hash: block.sequence, tokens_hash: block.local, mm_extra_info: None };
                run.blocks.push(data);
            } else if let Some(run) = run.take() {
                self.announce(run, content);
            }
            parent = Some(block.sequence);
        }
        if let Some(run) = run {
            self.announce(run, content);
        }
    }

    fn announce(&mut self, run: Run, content: &Content) {
        let tokens = || content.tokens(run.position, run.blocks.len() as u32, self.block_size);
        if let Some(token_ids) = self.vllm.as_ref().and_then(|_| tokens()) {
            self.vllm_events.push(VllmEvent::Stored {
                block_hashes: run.blocks.iter().map(|block| block.block_hash).collect(),
                parent_block_hash: run.parent,
                token_ids,
                block_size: self.block_size,
            });
        }
        let stored =
            StoredBlocks { parent_hash: run.parent, start_position: Some(run.position), blocks: run.blocks };
        self.push(EventData::Stored(stored));
    }

    fn removed(&mut self, hashes: &[u64]) {
        let mut gone = Vec::with_capacity(hashes.len());
        for &hash in hashes {
            if let Entry::Occupied(mut copies) = self.copies.entry(hash) {
                *copies.get_mut() -= 1;
                if *copies.get() == 0 {
                    copies.remove();
                    gone.push(hash);
                }
            }
        }
        if gone.is_empty() {
            return;
        }
        if self.vllm.is_some() {
            self.vllm_events.push(VllmEvent::Removed { block_hashes: gone.clone() });
        }
        self.push(EventData::Removed { block_hashes: gone });
    }

    fn cleared(&mut self) {
        self.copies.clear();
        if self.vllm.is_some() {
            self.vllm_events.push(VllmEvent::Cleared);
        }
        self.push(EventData::Cleared);
    }

    fn push(&mut self, data: EventData) {
        if self.publisher.is_none() {
            return;
        }
        let event = CacheEvent { event_id: self.next, data, dp_rank: self.rank };
        self.next += 1;
        self.events.push(RouterEvent::new(self.worker_id, event));
    }

    fn send(&mut self) {
        if !self.vllm_events.is_empty() {
            if let Some(vllm) = &self.vllm {
                vllm.publish(&self.vllm_events);
            }
            self.vllm_events.clear();
        }
        let Some(publisher) = self.publisher.as_ref().filter(|_| !self.events.is_empty()) else { return };
        // First remembered, then sent: who hears of an event can ask for it.
        if let Some(recovery) = &self.recovery {
            recovery.record(&self.events);
        }
        if let Err(error) = publisher.publish(&self.events) {
            tracing::warn!(rank = self.rank, %error, "KV events were not published");
        }
        self.events.clear();
    }
}
