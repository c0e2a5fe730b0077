//! The waiting queue.

use std::collections::VecDeque;

use super::Policy;
use super::sequence::Arena;
use crate::request::RequestId;

/// Requests that wait to run, the next one in front.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    policy: Policy,
    ids: VecDeque<RequestId>,
}

impl Queue {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, ids: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn front(&self) -> Option<RequestId> {
        self.ids.front().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.ids.iter().copied()
    }

    pub(super) fn pop_front(&mut self) {
        self.ids.pop_front();
    }

    /// A new request.
    pub(super) fn push(&mut self, id: RequestId, arena: &Arena) {
        match self.policy {
            Policy::Fcfs => self.ids.push_back(id),
            Policy::Priority => self.insert_by_rank(id, arena),
        }
    }

    /// A preempted request.
    pub(super) fn push_again(&mut self, id: RequestId, arena: &Arena) {
        match self.policy {
            Policy::Fcfs => self.ids.push_front(id),
            Policy::Priority => self.insert_by_rank(id, arena),
        }
    }

    pub(super) fn remove(&mut self, id: RequestId) {
        if let Some(position) = self.ids.iter().position(|&other| other == id) {
            self.ids.remove(position);
        }
    }

    fn insert_by_rank(&mut self, id: RequestId, arena: &Arena) {
        let rank = arena[id].rank();
        let position = self.ids.partition_point(|&other| arena[other].rank() < rank);
        self.ids.insert(position, id);
    }
}
