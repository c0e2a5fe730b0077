//! The managed rolling update: how many replicas each generation of a graph's workers has next.
//!
//! ```text
//!            old      new                       old      new                       old      new
//!   decode   ■ ■ ■    ▢          decode ready,  ■ ■ ■    ■          all ready:     ■ ■      ■ ▢       … until only the
//!   prefill  ■        ▢          prefill not    ■        ▢          old may go     ■        ■         new one is left
//! ```
//!
//! A change of any worker makes a new generation of all workers, in a Dynamo namespace of its own, so that no prefill worker
//! of one generation ever meets a decode worker of another. Therefore a generation serves only while each of its components
//! has a ready pod: before that, ready pods of the new generation do not count as routable, and the old generation keeps a
//! last pod of each component until all of them can go.
//!
//! [`targets`] looks at what is there now and says what is wanted next. It holds no state: whoever calls it again with what has
//! come of the last answer gets the next one, and at the end an answer that changes nothing. For each component
//!
//! - old and new together are never more than the wanted replicas and the surge, except for what is there already, and for one
//!   pod more for each generation beyond the second that still serves: those of a roll that was overtaken by another;
//! - no answer takes routable pods below the wanted replicas less the unavailable ones, or below what is there if that is less;
//! - it ends: only the new generation is left, with the wanted replicas.
//!
//! Without a surge no last pod can be kept beside a new one: such components go as their own numbers allow. A gap is then what
//! was asked for.

use std::collections::{BTreeMap, BTreeSet};

/// How the pods of a component are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Bit by bit. Never both 0.
    Rolling {
        /// More than the wanted replicas.
        surge: u32,
        /// Fewer than the wanted replicas.
        unavailable: u32,
    },
    /// New pods come when all old ones have gone.
    Recreate,
}

impl Update {
    fn has_room(self) -> bool {
        matches!(self, Self::Rolling { surge: 1.., .. })
    }
}

/// The pods of a component in a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// Replicas that its Deployment asks for.
    pub replicas: u32,
    /// Of these, ready ones.
    pub ready: u32,
}

/// A component in a roll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Replicas in the end.
    pub wanted: u32,
    /// How.
    pub update: Update,
    /// The generation that the graph asks for.
    pub new: Pods,
    /// Earlier generations by hash.
    pub old: BTreeMap<String, Pods>,
}

/// Replicas that a component has next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Of the generation that the graph asks for.
    pub new: u32,
    /// Of earlier generations by hash; 0: the Deployment can go.
    pub old: BTreeMap<String, u32>,
}

/// Next replicas of all worker components by name.
pub fn targets(components: &BTreeMap<String, Component>) -> BTreeMap<String, Targets> {
    let serving = Serving::of(components);
    let mut next: BTreeMap<_, _> =
        components.iter().map(|(name, component)| (name.clone(), alone(component, &serving))).collect();
    keep_last_pods(components, &serving, &mut next);
    next
}

/// Which generations serve.
struct Serving {
    new: bool,
    old: BTreeSet<String>,
}

impl Serving {
    fn of(components: &BTreeMap<String, Component>) -> Self {
        let asked = || components.values().filter(|component| component.wanted > 0);
        let hashes: BTreeSet<_> = components.values().flat_map(|component| component.old.keys().cloned()).collect();
        // A component that was added later is no part of older generations.
        let serves = |hash: &String| {
            asked().all(|component| component.old.get(hash).is_none_or(|pods| pods.ready > 0 && pods.replicas > 0))
        };
        Self { new: asked().all(|component| component.new.ready > 0), old: hashes.into_iter().filter(serves).collect() }
    }

    /// Pods that have to be kept besides one old generation.
    fn overtaken(&self) -> u32 {
        (self.old.len() as u32).saturating_sub(1)
    }

    fn ready_old(&self, hash: &str, pods: Pods) -> u32 {
        if self.old.contains(hash) { pods.ready.min(pods.replicas) } else { 0 }
    }
}

/// Kubernetes' own rule for the replica sets of a Deployment, over generations. Ready pods of a generation that does not serve
/// count as pods that are not ready.
fn alone(component: &Component, serving: &Serving) -> Targets {
    let Component { wanted, update, new, old } = component;
    let Update::Rolling { surge, unavailable } = *update else {
        let gone = old.values().all(|pods| pods.replicas == 0 && pods.ready == 0);
        let old = old.keys().map(|hash| (hash.clone(), 0)).collect();
        return Targets { new: if gone { *wanted } else { new.replicas.min(*wanted) }, old };
    };
    let replicas_old: u32 = old.values().map(|pods| pods.replicas).sum();
    let ready_old: u32 = old.iter().map(|(hash, pods)| serving.ready_old(hash, *pods)).sum();
    let ready_new = if serving.new { new.ready.min(new.replicas) } else { 0 };
    let most = wanted.saturating_add(surge).saturating_add(if surge > 0 { serving.overtaken() } else { 0 });
    let room = most.saturating_sub(replicas_old.saturating_add(new.replicas));
    let raised = new.replicas.saturating_add(room).min(*wanted);

    let floor = wanted.saturating_sub(unavailable);
    let pending_new = new.replicas.min(*wanted) - ready_new.min(*wanted);
    let all = replicas_old + new.replicas.min(*wanted);
    let mut removable = all.saturating_sub(floor.saturating_add(pending_new));
    let mut targets: BTreeMap<_, _> = old.iter().map(|(hash, pods)| (hash.clone(), pods.replicas)).collect();
    // Pods that nobody is routed to go first.
    for (hash, pods) in old {
        let gone = (pods.replicas - serving.ready_old(hash, *pods)).min(removable);
        removable -= gone;
        targets.entry(hash.clone()).and_modify(|target| *target -= gone);
    }
    let mut spare = (ready_old + ready_new).saturating_sub(floor).min(removable);
    for target in targets.values_mut() {
        let gone = (*target).min(spare);
        spare -= gone;
        *target -= gone;
    }
    Targets { new: raised, old: targets }
}

/// Components of an old generation go to zero together, where there is room to keep a last pod.
fn keep_last_pods(components: &BTreeMap<String, Component>, serving: &Serving, next: &mut BTreeMap<String, Targets>) {
    for hash in &serving.old {
        let stays = next.values().any(|targets| targets.old.get(hash).is_some_and(|&target| target > 0));
        if !stays {
            continue;
        }
        for (name, component) in components {
            let had = component.old.get(hash).is_some_and(|pods| pods.replicas > 0);
            if had
                && component.wanted > 0
                && component.update.has_room()
                && let Some(targets) = next.get_mut(name)
            {
                targets.old.entry(hash.clone()).and_modify(|target| *target = (*target).max(1));
            }
        }
    }
}
