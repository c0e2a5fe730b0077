//! Scenarios on the tree, with a dump of it after each step.

use super::*;

/// Pages named by position and content, so that chains can be told apart: `"abc"` is three pages.
fn key(text: &str) -> BlockHashes {
    let known = (1..=text.len()).map(|end| {
        let bytes = text.as_bytes()[..end].iter();
        bytes.fold(0, |hash, &byte| (hash << 8) | u64::from(byte))
    });
    BlockHashes { known: known.collect(), salt: 0 }
}

/// One node per item, depth first, siblings by age: content, `*` for each lock.
fn dump(tree: &Tree) -> String {
    fn visit(tree: &Tree, node: NodeId, out: &mut Vec<String>) {
        if node != ROOT {
            let entry = &tree.nodes[node as usize];
            let text = entry.pages.iter().map(|&page| char::from((page & 0xFF) as u8));
            out.push(text.chain(std::iter::repeat_n('*', entry.locks as usize)).collect());
        }
        let mut children: Vec<NodeId> = tree.index.iter().copied().filter(|&it| tree.parent(it) == node).collect();
        assert_eq!(children.len() as u32, tree.nodes[node as usize].children);
        children.sort_by_key(|&it| tree.order(it));
        if !children.is_empty() {
            out.push("(".to_owned());
            for child in children {
                visit(tree, child, out);
            }
            out.push(")".to_owned());
        }
    }
    let mut out = Vec::new();
    visit(tree, ROOT, &mut out);
    out.join(" ")
}

fn tree(policy: EvictionPolicy, keys: &[&str]) -> Tree {
    let mut tree = Tree::new(policy, SplitAge::Kept);
    for text in keys {
        put(&mut tree, text);
    }
    tree
}

fn put(tree: &mut Tree, text: &str) -> Match {
    tree.insert(&key(text), text.len() as u32, Insert::default(), &mut KvEvents::default())
}

fn find(tree: &mut Tree, text: &str) -> Match {
    tree.lookup(&key(text), text.len() as u32)
}

fn evict(tree: &mut Tree, pages: u32) -> u32 {
    tree.evict(pages, &mut KvEvents::default())
}

#[test]
fn keys_share_their_prefix_and_split_where_they_part() {
    let mut tree = tree(EvictionPolicy::Lru, &["abcd"]);
    assert_eq!(dump(&tree), "( abcd )");
    // Longer: the leaf stays, a child takes the rest.
    assert_eq!(put(&mut tree, "abcdef").pages, 4);
    assert_eq!(dump(&tree), "( abcd ( ef ) )");
    // Parting inside a node.
    assert_eq!(put(&mut tree, "abxy").pages, 2);
    assert_eq!(dump(&tree), "( ab ( cd ( ef ) xy ) )");
    // A lookup splits as well.
    assert_eq!(find(&mut tree, "abcde").pages, 5);
    assert_eq!(dump(&tree), "( ab ( cd ( e ( f ) ) xy ) )");
    assert_eq!(find(&mut tree, "zz"), Match { node: ROOT, pages: 0 });
    assert_eq!((tree.evictable(), tree.protected()), (8, 0));
}

#[test]
fn eviction_takes_the_oldest_leaf_and_then_its_parent() {
    let mut tree = tree(EvictionPolicy::Lru, &["abcd", "abxy", "q"]);
    assert_eq!(dump(&tree), "( ab ( cd xy ) q )");
    find(&mut tree, "abcd");
    // Whole leaves: one page is wanted, two go.
    assert_eq!(evict(&mut tree, 1), 2);
    assert_eq!(dump(&tree), "( ab ( cd ) q )");
    assert_eq!(evict(&mut tree, 1), 1);
    assert_eq!(dump(&tree), "( ab ( cd ) )");
    assert_eq!(evict(&mut tree, 3), 4);
    assert_eq!((dump(&tree).as_str(), evict(&mut tree, 1)), ("", 0));
}

#[test]
fn a_lock_protects_the_path_through_later_splits() {
    let mut tree = tree(EvictionPolicy::Lru, &["abcd", "q"]);
    let held = find(&mut tree, "abcd").node;
    tree.lock(held);
    put(&mut tree, "abx");
    assert_eq!(dump(&tree), "( ab* ( cd* x ) q )");
    assert_eq!((tree.evictable(), tree.protected()), (2, 4));
    assert_eq!(evict(&mut tree, 99), 2);
    assert_eq!(dump(&tree), "( ab* ( cd* ) )");
    tree.unlock(held);
    assert_eq!((tree.evictable(), evict(&mut tree, 99)), (4, 4));
}

#[test]
fn a_path_is_split_at_a_depth_only_inside_a_node() {
    let mut tree = tree(EvictionPolicy::Lru, &["abcd", "abcdef"]);
    let end = find(&mut tree, "abcdef").node;
    for (depth, expected) in [(4, "( abcd ( ef ) )"), (3, "( abc ( d ( ef ) ) )"), (5, "( abc ( d ( e ( f ) ) ) )")] {
        tree.split_at(end, 6, depth);
        assert_eq!(dump(&tree), expected);
    }
    tree.split_at(end, 6, 6);
    tree.split_at(end, 6, 0);
    assert_eq!(dump(&tree), "( abc ( d ( e ( f ) ) ) )");
}

#[test]
fn each_policy_has_its_own_first_victim() {
    for (policy, left) in [
        (EvictionPolicy::Lru, "( a c )"),
        (EvictionPolicy::Fifo, "( b c )"),
        (EvictionPolicy::Mru, "( b c )"),
        (EvictionPolicy::Lfu, "( a c )"),
    ] {
        let mut tree = tree(policy, &["a", "b", "c"]);
        put(&mut tree, "c");
        find(&mut tree, "a");
        evict(&mut tree, 1);
        assert_eq!(dump(&tree), left, "{policy:?}");
    }
    let mut tree = Tree::new(EvictionPolicy::Priority, SplitAge::Kept);
    for (text, priority) in [("a", 2), ("b", 1), ("c", 1)] {
        tree.insert(&key(text), 1, Insert { priority, counts: true }, &mut KvEvents::default());
    }
    evict(&mut tree, 1);
    assert_eq!(dump(&tree), "( a c )");
}

#[test]
fn events_name_new_and_evicted_pages_only() {
    let mut events = KvEvents { enabled: true, ..KvEvents::default() };
    let mut tree = Tree::new(EvictionPolicy::Lru, SplitAge::Kept);
    tree.insert(&key("ab"), 2, Insert::default(), &mut events);
    tree.insert(&key("abcd"), 4, Insert::default(), &mut events);
    tree.evict(1, &mut events);
    let hashes = key("abcd").known;
    assert_eq!(events.hashes, [&hashes[..], &hashes[2..]].concat());
    assert_eq!(events.items.len(), 3);
}

#[test]
fn output_pages_follow_the_known_ones() {
    let mut tree = Tree::new(EvictionPolicy::Lru, SplitAge::Kept);
    let (mine, other) = (BlockHashes { salt: 1, ..key("ab") }, BlockHashes { salt: 2, ..key("ab") });
    tree.insert(&mine, 4, Insert::default(), &mut KvEvents::default());
    assert_eq!(tree.lookup(&mine, 5).pages, 4);
    assert_eq!(tree.lookup(&other, 5).pages, 2);
}

#[test]
fn tens_of_thousands_of_evictions_keep_a_full_pool_consistent() {
    let mut tree = Tree::new(EvictionPolicy::Lru, SplitAge::Kept);
    let mut events = KvEvents::default();
    for salt in 0..40_000 {
        if tree.evictable() > 16_384 - 4 {
            tree.evict(4, &mut events);
        }
        tree.insert(&BlockHashes { known: Vec::new(), salt }, 4, Insert::default(), &mut events);
    }
    assert_eq!((tree.evictable(), tree.nodes.len()), (16_384, 4097));
}
