//! What a worker remembers of a rank's cache to tell a router that missed events.

use std::collections::{BTreeMap, VecDeque};

use super::payload::{
    BlockData, CacheEvent, EventData, RECOVERY, RecoveryRequest, RecoveryResponse, ResetScope, RouterEvent,
    StoredBlocks,
};

/// Events that are remembered as such; who missed more gets the whole cache.
const RECENT_EVENTS: usize = 4096;
/// Blocks in these events together: long prompts must not make them large.
const RECENT_BLOCKS: usize = 65_536;

/// The cached blocks of a rank, and its last events. Memory follows the number of cached blocks.
#[derive(Clone, Debug)]
pub struct RecoveryLog {
    worker_id: u64,
    dp_rank: u32,
    /// By sequence hash.
    blocks: BTreeMap<u64, Block>,
    /// In order, without gap, up to `last_event_id`.
    recent: VecDeque<CacheEvent>,
    recent_blocks: usize,
    last_event_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    tokens_hash: u64,
    parent: Option<u64>,
}

impl RecoveryLog {
    /// Of an empty cache.
    pub fn new(worker_id: u64, dp_rank: u32) -> Self {
        Self {
            worker_id,
            dp_rank,
            blocks: BTreeMap::new(),
            recent: VecDeque::new(),
            recent_blocks: 0,
            last_event_id: 0,
        }
    }

    /// Takes in an event that was published: the next one of its rank.
    pub fn record(&mut self, event: CacheEvent) {
        match &event.data {
            EventData::Stored(stored) => self.store(stored),
            EventData::Removed { block_hashes } => {
                for hash in block_hashes {
                    self.blocks.remove(hash);
                }
            }
            EventData::Cleared => self.blocks.clear(),
        }
        if event.event_id != self.last_event_id + 1 {
            self.recent.clear();
            self.recent_blocks = 0;
        }
        self.last_event_id = event.event_id;
        self.recent_blocks += blocks_in(&event);
        self.recent.push_back(event);
        while self.recent.len() > RECENT_EVENTS || self.recent_blocks > RECENT_BLOCKS {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.recent_blocks -= blocks_in(&oldest);
        }
    }

    fn store(&mut self, stored: &StoredBlocks) {
        let mut parent = stored.parent_hash;
        for block in &stored.blocks {
            self.blocks.insert(block.block_hash, Block { tokens_hash: block.tokens_hash, parent });
            parent = Some(block.block_hash);
        }
    }

    /// Answers a router. As published, events are given up to the newest, whatever end was asked for.
    pub fn answer(&self, request: &RecoveryRequest) -> RecoveryResponse {
        if let Some(reason) = self.refusal(request) {
            return RecoveryResponse::Error(reason);
        }
        let Some(start_id) = request.start_event_id else { return self.dump() };
        if let Some(end_id) = request.end_event_id.filter(|&end| end < start_id) {
            return RecoveryResponse::InvalidRange { start_id, end_id };
        }
        let Some(first) = self.recent.front() else { return self.dump() };
        if start_id > self.last_event_id {
            return RecoveryResponse::TooNew {
                requested_start: Some(start_id),
                requested_end: request.end_event_id.or(Some(self.last_event_id)),
                newest_available: self.last_event_id,
            };
        }
        if start_id < first.event_id {
            return self.dump();
        }
        let missed = self.recent.range((start_id - first.event_id) as usize..);
        let events = missed.map(|event| RouterEvent::new(self.worker_id, event.clone())).collect();
        RecoveryResponse::Events { events, last_event_id: self.last_event_id }
    }

    fn refusal(&self, request: &RecoveryRequest) -> Option<String> {
        let Self { worker_id, dp_rank, .. } = self;
        let kind = request.kind.as_deref().unwrap_or(RECOVERY);
        if kind != RECOVERY {
            return Some(format!("kind: `{kind}` cannot be answered (allowed: {RECOVERY})"));
        }
        if request.worker_id != *worker_id {
            return Some(format!("worker_id: {} was asked, this is {worker_id}", request.worker_id));
        }
        (request.dp_rank != *dp_rank).then(|| format!("dp_rank: {} was asked, this is {dp_rank}", request.dp_rank))
    }

    /// The cache as events that would fill it, parents first. Blocks that follow each other without a fork share one.
    fn dump(&self) -> RecoveryResponse {
        let mut children: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut heads = Vec::new();
        for (&hash, block) in &self.blocks {
            match block.parent.filter(|parent| self.blocks.contains_key(parent)) {
                Some(parent) => children.entry(parent).or_default().push(hash),
                None => heads.push(hash),
            }
        }
        let mut events = Vec::new();
        while let Some(head) = heads.pop() {
            let (stored, next) = self.run(head, &mut children);
            heads.extend(next);
            // As published, ids in a dump rise and are none that a later event has.
            let event_id = self.last_event_id.min(events.len() as u64 + 1);
            let event = CacheEvent { event_id, data: EventData::Stored(stored), dp_rank: self.dp_rank };
            events.push(RouterEvent::new(self.worker_id, event));
        }
        RecoveryResponse::TreeDump { events, last_event_id: self.last_event_id, reset_scope: ResetScope::All }
    }

    /// The blocks from `head` to the next fork or end, and those that follow there.
    fn run(&self, head: u64, children: &mut BTreeMap<u64, Vec<u64>>) -> (StoredBlocks, Vec<u64>) {
        let parent_hash = self.blocks.get(&head).and_then(|block| block.parent);
        let mut run = StoredBlocks { parent_hash, start_position: None, blocks: Vec::new() };
        let mut hash = head;
        loop {
            let tokens_hash = self.blocks.get(&hash).map_or(0, |block| block.tokens_hash);
            run.blocks.push(BlockData { block_hash: hash, tokens_hash, mm_extra_info: None });
            match children.remove(&hash).unwrap_or_default() {
                next if next.len() == 1 => hash = next[0],
                next => return (run, next),
            }
        }
    }
}

fn blocks_in(event: &CacheEvent) -> usize {
    match &event.data {
        EventData::Stored(stored) => stored.blocks.len(),
        EventData::Removed { block_hashes } => block_hashes.len(),
        EventData::Cleared => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORKER: u64 = 7;

    /// The cache as a receiver would have it; fails if a block comes before its parent.
    fn apply(cache: &mut BTreeMap<u64, Block>, events: &[RouterEvent]) {
        for event in events {
            assert_eq!((event.worker_id, event.event.dp_rank), (WORKER, 0));
            match &event.event.data {
                EventData::Stored(stored) => {
                    let mut parent = stored.parent_hash;
                    for block in &stored.blocks {
                        assert!(parent.is_none_or(|parent| cache.contains_key(&parent)), "parent comes later");
                        cache.insert(block.block_hash, Block { tokens_hash: block.tokens_hash, parent });
                        parent = Some(block.block_hash);
                    }
                }
                EventData::Removed { block_hashes } => {
                    for hash in block_hashes {
                        cache.remove(hash);
                    }
                }
                EventData::Cleared => cache.clear(),
            }
        }
    }

    /// A random event that a cache could publish: chains that hang on what is there, leaves removed, seldom all dropped.
    fn next_event(cache: &BTreeMap<u64, Block>, event_id: u64, dice: (u8, u8, u8)) -> CacheEvent {
        let (kind, place, length) = dice;
        let leaves: Vec<_> = cache.keys().filter(|hash| cache.values().all(|b| b.parent != Some(**hash))).collect();
        let data = match kind {
            0 => EventData::Cleared,
            1..100 if !leaves.is_empty() => {
                EventData::Removed { block_hashes: vec![*leaves[usize::from(place) % leaves.len()]] }
            }
            _ => {
                let places = cache.len() + 1;
                let parent_hash = cache.keys().nth(usize::from(place) % places).copied();
                let block = |i| {
                    let block_hash = event_id * 1000 + u64::from(i);
                    BlockData { block_hash, tokens_hash: block_hash ^ 1, mm_extra_info: None }
                };
                let blocks = (0..length % 5 + 1).map(block).collect();
                EventData::Stored(StoredBlocks { parent_hash, start_position: None, blocks })
            }
        };
        CacheEvent { event_id, data, dp_rank: 0 }
    }

    fn ask(log: &RecoveryLog, start_event_id: Option<u64>, end_event_id: Option<u64>) -> RecoveryResponse {
        log.answer(&RecoveryRequest { worker_id: WORKER, start_event_id, end_event_id, ..RecoveryRequest::default() })
    }

    proptest! {
        #[test]
        fn whoever_missed_events_ends_up_with_the_same_cache(dice in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..60)) {
            let mut log = RecoveryLog::new(WORKER, 0);
            let mut caches = vec![BTreeMap::new()];
            for (dice, event_id) in dice.into_iter().zip(1..) {
                let mut cache = caches.last().unwrap().clone();
                let event = next_event(&cache, event_id, dice);
                apply(&mut cache, &[RouterEvent::new(WORKER, event.clone())]);
                log.record(event);
                caches.push(cache);
            }
            let now = caches.last().unwrap();
            let RecoveryResponse::TreeDump { events, last_event_id, .. } = ask(&log, None, None) else { panic!() };
            prop_assert_eq!(last_event_id, caches.len() as u64 - 1);
            let mut dumped = BTreeMap::new();
            apply(&mut dumped, &events);
            prop_assert_eq!(&dumped, now);
            for (missed_from, cache) in (1..).zip(&caches[..caches.len() - 1]) {
                let RecoveryResponse::Events { events, last_event_id } = ask(&log, Some(missed_from), None) else { panic!() };
                prop_assert_eq!(last_event_id, caches.len() as u64 - 1);
                let mut cache = cache.clone();
                apply(&mut cache, &events);
                prop_assert_eq!(&cache, now);
            }
        }
    }

    fn stored(event_id: u64, blocks: u64) -> CacheEvent {
        let block = |i| BlockData { block_hash: event_id << 32 | i, tokens_hash: i, mm_extra_info: None };
        let stored = StoredBlocks { parent_hash: None, start_position: None, blocks: (0..blocks).map(block).collect() };
        CacheEvent { event_id, data: EventData::Stored(stored), dp_rank: 0 }
    }

    #[test]
    fn requests_out_of_range_are_told_so() {
        let mut log = RecoveryLog::new(WORKER, 0);
        let empty = RecoveryResponse::TreeDump { events: vec![], last_event_id: 0, reset_scope: ResetScope::All };
        assert_eq!(ask(&log, Some(1), None), empty, "nothing is newer than an empty log");
        (1..=10).for_each(|id| log.record(stored(id, 1)));
        let too_new = |requested_start, requested_end| RecoveryResponse::TooNew {
            requested_start: Some(requested_start),
            requested_end: Some(requested_end),
            newest_available: 10,
        };
        assert_eq!(ask(&log, Some(11), None), too_new(11, 10));
        assert_eq!(ask(&log, Some(1000), Some(2000)), too_new(1000, 2000));
        let invalid = RecoveryResponse::InvalidRange { start_id: 100, end_id: 3 };
        assert_eq!(ask(&log, Some(100), Some(3)), invalid, "before it is too new");
        assert!(matches!(ask(&log, Some(0), Some(3)), RecoveryResponse::TreeDump { last_event_id: 10, .. }));
        let RecoveryResponse::Events { events, last_event_id: 10 } = ask(&log, Some(3), Some(5)) else { panic!() };
        assert_eq!(events.len(), 8, "up to the newest");
    }

    #[test]
    fn requests_for_others_are_refused() {
        let log = RecoveryLog::new(WORKER, 0);
        let request = RecoveryRequest { worker_id: WORKER, ..RecoveryRequest::default() };
        let cases = [
            (RecoveryRequest { worker_id: 8, ..request.clone() }, "worker_id: 8"),
            (RecoveryRequest { dp_rank: 3, ..request.clone() }, "dp_rank: 3"),
            (RecoveryRequest { kind: Some("status".into()), ..request }, "kind: `status`"),
        ];
        for (request, expected) in cases {
            let RecoveryResponse::Error(reason) = log.answer(&request) else { panic!("{expected}") };
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn memory_follows_the_cache_and_not_the_number_of_events() {
        let mut log = RecoveryLog::new(WORKER, 0);
        let mut id = 0;
        for _ in 0..3 * RECENT_EVENTS {
            let event = stored(id + 1, 40);
            let EventData::Stored(blocks) = &event.data else { panic!() };
            let block_hashes = blocks.blocks.iter().map(|block| block.block_hash).collect();
            log.record(event);
            log.record(CacheEvent { event_id: id + 2, data: EventData::Removed { block_hashes }, dp_rank: 0 });
            id += 2;
        }
        assert!(log.blocks.is_empty());
        assert!(log.recent.len() <= RECENT_EVENTS && log.recent_blocks <= RECENT_BLOCKS);
        assert!(log.recent.len() > RECENT_BLOCKS / 40 - 2, "as many are remembered as there is room for");
        let first = log.recent[0].event_id;
        assert!(matches!(ask(&log, Some(first), None), RecoveryResponse::Events { .. }));
        assert!(matches!(ask(&log, Some(first - 1), None), RecoveryResponse::TreeDump { .. }));
    }
}
