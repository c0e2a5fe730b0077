//! Decode role: pages are reserved before the prompt's KV arrives, and a request joins the batch without prefill.

use super::kv::Publish;
use super::scheduler::Scheduler;
use super::slot::State;
use crate::pass::{Admission, Pass};

impl Scheduler {
    /// Reserves pages, first come, first served, while there is room for the prompt and one more page besides what
    /// admitted requests will still need. Who was retracted comes first.
    pub(super) fn reserve(&mut self, pass: &mut Pass) {
        if !self.waiting.is_empty() {
            return;
        }
        while let Some(&id) = self.reserving.front() {
            let page_size = self.config.page_size;
            let prompt = self.slots[id].prompt;
            let hit = self.kv.lookup(&mut self.slots[id], prompt);
            self.kv.tree.lock(self.slots[id].node);
            self.slots[id].shared = hit;
            let pages = self.slots[id].missing(prompt, page_size);
            self.adder.reset(&self.ratio, self.config.max_prefill_tokens, self.config.chunked_prefill_size);
            for &other in self.running.iter().chain(&self.reserved) {
                self.adder.reserve_running(&self.slots[other]);
            }
            let need = (u64::from(pages) + 1) * u64::from(page_size);
            if need as f64 > self.adder.total(&self.kv) {
                self.kv.drop_kv(&mut self.slots[id]);
                return;
            }
            self.kv.make_room(u64::from(pages) * u64::from(page_size), &mut pass.events);
            self.kv.pool.take(pages);
            let slot = &mut self.slots[id];
            slot.own = pages;
            slot.matched = hit * page_size;
            slot.state = State::Reserved;
            self.reserving.pop_front();
            self.reserved.push(id);
            pass.reserved.push(id);
        }
    }

    /// Lets requests whose KV has arrived join the decode batch. All of the prompt counts as computed except its last
    /// token, which the first decode pass feeds in to make the first output.
    pub(super) fn join(&mut self, pass: &mut Pass) {
        let places = self.config.max_running_requests.map_or(usize::MAX, |max| max as usize);
        while let Some(&id) = self.ready.front() {
            if self.running.len() + usize::from(self.chunked.is_some()) >= places {
                return;
            }
            self.ready.pop_front();
            self.reserved.retain(|&other| other != id);
            let slot = &mut self.slots[id];
            slot.state = State::Running;
            slot.computed = slot.prompt;
            pass.events.owner = id;
            self.kv.publish(slot, Publish::Prompt, &mut pass.events);
            slot.computed = slot.prompt - 1;
            pass.admitted.push(Admission { request: id, cached_tokens: slot.matched, resumed: false });
            self.running.push(id);
        }
    }
}
