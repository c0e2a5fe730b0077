//! `tree_*`: operation sequences on the radix tree.

use std::collections::HashMap;

use dynosim_engine::hash::BlockHashes;
use dynosim_engine::pass::{KvEvent, KvEvents};
use dynosim_engine::sglang::{EvictionPolicy, Insert, Match, NodeId, SplitAge, Tree};
use serde_json::{Map, Value, json};

use crate::report::compare;
use crate::sglang::Names;
use crate::tokens;

/// Replays one log; `radix` picks the older of the two trees.
pub(crate) fn replay(scenario: &Value, log: &[Value], radix: bool) -> Result<(), String> {
    let mut driver = Driver::new(scenario, radix);
    let ops = scenario["ops"].as_array().expect("operations");
    if ops.len() != log.len() {
        return Err(format!("expected {} lines, got {}", log.len(), ops.len()));
    }
    for (i, (op, expected)) in ops.iter().zip(log).enumerate() {
        let mut line = driver.run(op)?;
        line.insert("i".to_owned(), json!(i));
        compare(&format!("op {i}"), expected, &Value::Object(line))?;
    }
    Ok(())
}

/// The tree with the page numbers that the library does not keep.
struct Driver {
    page_size: u32,
    radix: bool,
    tree: Tree,
    free: Vec<u64>,
    page_of: HashMap<u64, u64>,
    locks: HashMap<String, NodeId>,
    names: Names,
    events: KvEvents,
}

impl Driver {
    fn new(scenario: &Value, radix: bool) -> Self {
        let policy = match scenario["policy"].as_str().expect("a policy") {
            "lru" => EvictionPolicy::Lru,
            "fifo" => EvictionPolicy::Fifo,
            "lfu" => EvictionPolicy::Lfu,
            "mru" => EvictionPolicy::Mru,
            "priority" => EvictionPolicy::Priority,
            other => panic!("unknown eviction policy {other}"),
        };
        let page_size = scenario["page_size"].as_u64().expect("a page size") as u32;
        let capacity = scenario["capacity"].as_u64().expect("a capacity");
        let mut events = KvEvents { enabled: true, ..KvEvents::default() };
        events.cleared();
        Self {
            page_size,
            radix,
            tree: Tree::new(policy, if radix { SplitAge::Fresh } else { SplitAge::Kept }),
            free: (1..=capacity / u64::from(page_size)).collect(),
            page_of: HashMap::new(),
            locks: HashMap::new(),
            names: Names::default(),
            events,
        }
    }

    fn run(&mut self, op: &Value) -> Result<Map<String, Value>, String> {
        let kind = op["op"].as_str().expect("an operation");
        let before = self.free.clone();
        let mut line = Map::new();
        let key = op.get("key").map(|key| tokens::expand(key, &HashMap::new()));
        if let Some(key) = &key
            && json!(tokens::crc32(key.iter().copied())) != op["crc32"]
        {
            return Err("the key was expanded wrongly".to_owned());
        }
        let taken = match kind {
            "match" => self.lookup(&key.expect("a key"), op, &mut line),
            "insert" => self.insert(&key.expect("a key"), &mut line),
            "serve" => self.serve(&key.expect("a key"), op, &mut line),
            "unlock" => {
                let node = self.locks.remove(op["label"].as_str().expect("a label")).expect("a lock");
                self.tree.unlock(node);
                Vec::new()
            }
            "evict" => {
                let evicted = self.evict(op["n"].as_u64().expect("a number") as u32);
                line.insert("evicted".to_owned(), json!(evicted));
                Vec::new()
            }
            other => panic!("unknown operation {other}"),
        };
        line.insert("op".to_owned(), json!(kind));
        self.account(&before, &taken, &mut line);
        Ok(line)
    }

    fn lookup(&mut self, key: &[u32], op: &Value, line: &mut Map<String, Value>) -> Vec<u64> {
        let hashes = self.hashes(key);
        let found = self.tree.lookup(&hashes, hashes.known.len() as u32);
        line.insert("hit".to_owned(), json!(found.pages * self.page_size));
        let slots = hashes.known[..found.pages as usize].iter().flat_map(|hash| {
            let first = self.page_of[hash] as u32 * self.page_size;
            first..first + self.page_size
        });
        line.insert("slots_crc".to_owned(), json!(tokens::crc32(slots)));
        if let Some(label) = op["lock"].as_str() {
            self.tree.lock(found.node);
            self.locks.insert(label.to_owned(), found.node);
        }
        Vec::new()
    }

    fn insert(&mut self, key: &[u32], line: &mut Map<String, Value>) -> Vec<u64> {
        let hashes = self.hashes(key);
        let pages = hashes.known.len();
        let Some(taken) = self.allocate(pages, line) else { return Vec::new() };
        let found = self.publish(&hashes, 0, &taken, 0);
        line.insert("prefix_len".to_owned(), json!(found.pages * self.page_size));
        taken
    }

    fn serve(&mut self, key: &[u32], op: &Value, line: &mut Map<String, Value>) -> Vec<u64> {
        let hashes = self.hashes(key);
        let limit = key.len().saturating_sub(1) / self.page_size as usize;
        let hit = self.tree.lookup(&hashes, limit as u32);
        line.insert("hit".to_owned(), json!(hit.pages * self.page_size));
        self.tree.lock(hit.node);
        let need = hashes.known.len() - hit.pages as usize;
        let Some(taken) = self.allocate(need, line) else {
            self.tree.unlock(hit.node);
            return Vec::new();
        };
        let priority = op["priority"].as_i64().unwrap_or(0) as i32;
        let found = self.publish(&hashes, hit.pages, &taken, priority);
        line.insert("prefix_len".to_owned(), json!(found.pages * self.page_size));
        self.tree.unlock(hit.node);
        taken
    }

    /// Takes pages, evicting what is missing.
    fn allocate(&mut self, pages: usize, line: &mut Map<String, Value>) -> Option<Vec<u64>> {
        if pages > self.free.len() {
            let evicted = self.evict((pages - self.free.len()) as u32 * self.page_size);
            if evicted > 0 {
                line.insert("evicted".to_owned(), json!(evicted));
            }
        }
        if pages > self.free.len() {
            line.insert("no_room".to_owned(), json!(true));
            return None;
        }
        Some(self.free.drain(..pages).collect())
    }

    /// Inserts; `own` are the pages from `held` on. Duplicates return to the free list.
    fn publish(&mut self, hashes: &BlockHashes, held: u32, own: &[u64], priority: i32) -> Match {
        let pages = hashes.known.len() as u32;
        let found = self.tree.insert(hashes, pages, Insert { priority, counts: true }, &mut self.events);
        for page in found.pages..pages {
            self.page_of.insert(hashes.known[page as usize], own[(page - held) as usize]);
        }
        // The unified tree frees the duplicates of each node on its own, the older one all at once.
        let mut ends = vec![found.pages];
        if !self.radix {
            ends.clear();
            let mut end = 0;
            for run in self.tree.runs(found.node) {
                end += run;
                ends.push(end);
            }
        }
        let mut start = held;
        for end in ends {
            let end = end.min(found.pages);
            if start < end {
                self.give_back(own[(start - held) as usize..(end - held) as usize].to_vec());
                start = end;
            }
        }
        found
    }

    fn evict(&mut self, tokens: u32) -> u32 {
        let before = self.events.items.len();
        let pages = self.tree.evict(tokens.div_ceil(self.page_size), &mut self.events);
        for i in before..self.events.items.len() {
            let KvEvent::Removed { start, len } = self.events.items[i] else { panic!("an eviction only removes") };
            let hashes = &self.events.hashes[start as usize..(start + len) as usize];
            let freed = hashes.iter().map(|hash| self.page_of.remove(hash).expect("a cached page")).collect();
            self.give_back(freed);
        }
        pages * self.page_size
    }

    /// The real allocators put single slots at the end and pages at the front.
    fn give_back(&mut self, pages: Vec<u64>) {
        if self.page_size == 1 {
            self.free.extend(pages);
        } else {
            self.free.splice(0..0, pages);
        }
    }

    fn account(&mut self, before: &[u64], taken: &[u64], line: &mut Map<String, Value>) {
        let freed: Vec<u64> =
            self.free.iter().copied().filter(|page| !before.contains(page) || taken.contains(page)).collect();
        for (field, pages) in [("freed_pages", freed.as_slice()), ("taken_pages", taken)] {
            if !pages.is_empty() {
                line.insert(field.to_owned(), json!(tokens::runs(pages.iter().copied())));
            }
        }
        let (evictable, protected) = (self.tree.evictable(), self.tree.protected());
        for (field, pages) in [
            ("avail", self.free.len() as u32),
            ("evictable", evictable),
            ("protected", protected),
            ("total", evictable + protected),
        ] {
            line.insert(field.to_owned(), json!(pages * self.page_size));
        }
        let events = self.names.log(&self.events);
        if !events.is_empty() {
            line.insert("ev".to_owned(), json!(events));
        }
        self.events.clear();
    }

    fn hashes(&self, key: &[u32]) -> BlockHashes {
        BlockHashes { known: tokens::chain(key, self.page_size as usize), salt: 0 }
    }
}
