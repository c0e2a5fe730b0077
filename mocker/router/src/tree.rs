//! A tree of hash lists, path compressed: each node is a run of hashes.
//!
//! Two lists share nodes exactly as far as they are equal from the start. A node says nothing about who holds it; that
//! is the data of whoever uses the tree.

use rustc_hash::FxHashMap;

/// Number of a node.
pub(crate) type NodeId = u32;
/// The node without hashes that all lists start from.
pub(crate) const ROOT: NodeId = 0;
/// No node.
pub(crate) const NONE: NodeId = u32::MAX;

/// A run of hashes.
#[derive(Debug)]
pub(crate) struct Node<T> {
    /// The run; empty at the root and in free nodes only.
    pub(crate) hashes: Vec<u64>,
    /// Hashes before this run.
    pub(crate) start: u32,
    /// The run before; none for the root and for detached nodes.
    pub(crate) parent: NodeId,
    /// A child; none for a leaf.
    pub(crate) first_child: NodeId,
    /// The next child of the same parent.
    pub(crate) next: NodeId,
    previous: NodeId,
    /// What the tree's user keeps here.
    pub(crate) data: T,
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    nodes: Vec<Node<T>>,
    free: Vec<NodeId>,
    /// Child of a node by its first hash.
    children: FxHashMap<(NodeId, u64), NodeId>,
}

impl<T: Default> Default for Tree<T> {
    fn default() -> Self {
        let mut tree = Self { nodes: Vec::new(), free: Vec::new(), children: FxHashMap::default() };
        tree.nodes.push(Self::bare(Vec::new(), 0, T::default()));
        tree
    }
}

impl<T: Default> Tree<T> {
    fn bare(hashes: Vec<u64>, start: u32, data: T) -> Node<T> {
        Node { hashes, start, parent: NONE, first_child: NONE, next: NONE, previous: NONE, data }
    }

    /// One node.
    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> &Node<T> {
        &self.nodes[id as usize]
    }

    /// One node, to change hashes at its end or its data.
    #[inline]
    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node<T> {
        &mut self.nodes[id as usize]
    }

    /// The child that starts with this hash.
    #[inline]
    pub(crate) fn child(&self, parent: NodeId, first: u64) -> Option<NodeId> {
        if self.nodes[parent as usize].first_child == NONE {
            return None;
        }
        self.children.get(&(parent, first)).copied()
    }

    /// One past the highest number of a node.
    pub(crate) fn bound(&self) -> NodeId {
        self.nodes.len() as NodeId
    }

    /// Nodes in use, the root aside.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - 1 - self.free.len()
    }

    /// Whether a number names a node in use, the root aside.
    pub(crate) fn used(&self, id: NodeId) -> bool {
        !self.nodes[id as usize].hashes.is_empty()
    }

    /// A new child. `hashes` is not empty.
    pub(crate) fn add(&mut self, parent: NodeId, hashes: Vec<u64>, data: T) -> NodeId {
        debug_assert!(!hashes.is_empty());
        let above = self.node(parent);
        let start = above.start + above.hashes.len() as u32;
        let id = self.place(Self::bare(hashes, start, data));
        self.attach(parent, id);
        id
    }

    /// Makes the first `len` hashes of a node a node of their own, above it. The node keeps its number, its children and
    /// its data; the new one is returned.
    pub(crate) fn split(&mut self, id: NodeId, len: usize, data: T) -> NodeId {
        let node = &mut self.nodes[id as usize];
        debug_assert!(0 < len && len < node.hashes.len());
        let rest = node.hashes.split_off(len);
        let front = std::mem::replace(&mut node.hashes, rest);
        let (start, parent) = (node.start, node.parent);
        node.start += len as u32;
        let head = self.place(Self::bare(front, start, data));
        if parent != NONE {
            let first = self.nodes[head as usize].hashes[0];
            self.unlink(id, first);
            self.attach(parent, head);
        }
        self.attach(head, id);
        head
    }

    /// Takes a node, with all below it, out of its parent.
    pub(crate) fn detach(&mut self, id: NodeId) {
        if self.nodes[id as usize].parent != NONE {
            let first = self.nodes[id as usize].hashes[0];
            self.unlink(id, first);
        }
    }

    /// Gives a node's number back. It is detached and has no children.
    pub(crate) fn release(&mut self, id: NodeId) -> Vec<u64> {
        let node = &mut self.nodes[id as usize];
        debug_assert!(node.parent == NONE && node.first_child == NONE && id != ROOT);
        node.data = T::default();
        self.free.push(id);
        std::mem::take(&mut node.hashes)
    }

    fn place(&mut self, node: Node<T>) -> NodeId {
        if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            return id;
        }
        self.nodes.push(node);
        self.nodes.len() as NodeId - 1
    }

    fn attach(&mut self, parent: NodeId, id: NodeId) {
        let next = std::mem::replace(&mut self.nodes[parent as usize].first_child, id);
        if next != NONE {
            self.nodes[next as usize].previous = id;
        }
        let node = &mut self.nodes[id as usize];
        (node.parent, node.next, node.previous) = (parent, next, NONE);
        self.children.insert((parent, node.hashes[0]), id);
    }

    /// `first` is the hash under which the parent knows the node.
    fn unlink(&mut self, id: NodeId, first: u64) {
        let node = &mut self.nodes[id as usize];
        let (parent, next, previous) = (node.parent, node.next, node.previous);
        (node.parent, node.next, node.previous) = (NONE, NONE, NONE);
        self.children.remove(&(parent, first));
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        match previous {
            NONE => self.nodes[parent as usize].first_child = next,
            _ => self.nodes[previous as usize].next = next,
        }
    }

    /// Bytes of the tree itself, without the data's own.
    pub(crate) fn bytes(&self) -> usize {
        let runs: usize = self.nodes.iter().map(|node| node.hashes.capacity() * 8).sum();
        // A map's slot is its entry and one byte, and at most 7 of 8 slots are used.
        let map = self.children.capacity() * 8 / 7 * (size_of::<((NodeId, u64), NodeId)>() + 1);
        runs + map + self.nodes.capacity() * size_of::<Node<T>>()
    }
}

/// Length of the longest common start.
#[inline]
pub(crate) fn common(left: &[u64], right: &[u64]) -> usize {
    const STEP: usize = 8;
    let len = left.len().min(right.len());
    let mut at = 0;
    while at + STEP <= len && left[at..at + STEP] == right[at..at + STEP] {
        at += STEP;
    }
    while at < len && left[at] == right[at] {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_start_is_found_at_every_length() {
        let left: Vec<u64> = (0..40).collect();
        for at in 0..40 {
            let mut right = left.clone();
            right[at] = 99;
            assert_eq!(common(&left, &right), at);
            assert_eq!(common(&left[..at], &left), at);
        }
    }

    #[test]
    fn a_split_keeps_the_number_and_the_children_of_the_lower_part() {
        let mut tree: Tree<u8> = Tree::default();
        let low = tree.add(ROOT, vec![1, 2, 3], 7);
        let leaf = tree.add(low, vec![4], 8);
        let head = tree.split(low, 1, 9);
        assert_eq!((tree.child(ROOT, 1), tree.child(head, 2), tree.child(low, 4)), (Some(head), Some(low), Some(leaf)));
        assert_eq!((tree.node(low).start, tree.node(low).data, tree.node(head).data), (1, 7, 9));
        tree.detach(low);
        assert_eq!((tree.child(head, 2), tree.node(head).first_child, tree.len()), (None, NONE, 3));
    }

    #[test]
    fn numbers_are_used_again() {
        let mut tree: Tree<u8> = Tree::default();
        let ids: Vec<_> = (1..4).map(|hash| tree.add(ROOT, vec![hash], 0)).collect();
        tree.detach(ids[1]);
        assert_eq!(tree.release(ids[1]), [2]);
        assert_eq!((tree.add(ROOT, vec![9], 0), tree.len()), (ids[1], 3));
        assert_eq!((tree.child(ROOT, 1), tree.child(ROOT, 2), tree.child(ROOT, 3)), (Some(ids[0]), None, Some(ids[2])));
    }
}
