//! Rolling updates against pods that come, go and fail at random.

use std::collections::BTreeMap;

use dynosim_operator::roll::{Component, Pods, Targets, Update, targets};
use proptest::prelude::*;

/// Pods of each generation by hash: whether they are ready.
type Generations = BTreeMap<String, Vec<bool>>;

#[derive(Clone, Debug)]
struct Part {
    wanted: u32,
    update: Update,
    pods: Generations,
}

/// A graph's workers whose pods are made and removed as a cluster would.
#[derive(Clone, Debug)]
struct Graph {
    new: String,
    parts: BTreeMap<String, Part>,
}

fn count(ready: &[bool]) -> Pods {
    Pods { replicas: ready.len() as u32, ready: ready.iter().filter(|ready| **ready).count() as u32 }
}

impl Graph {
    fn input(&self) -> BTreeMap<String, Component> {
        let part = |part: &Part| {
            let mut old: BTreeMap<_, _> = part.pods.iter().map(|(hash, pods)| (hash.clone(), count(pods))).collect();
            let new = old.remove(&self.new).unwrap_or_default();
            Component { wanted: part.wanted, update: part.update, new, old }
        };
        self.parts.iter().map(|(name, one)| (name.clone(), part(one))).collect()
    }

    fn apply(&mut self, next: &BTreeMap<String, Targets>) {
        for (name, part) in &mut self.parts {
            let Targets { new, old } = &next[name];
            resize(part.pods.entry(self.new.clone()).or_default(), *new);
            for (hash, target) in old {
                resize(part.pods.get_mut(hash).expect("a generation"), *target);
            }
            let wanted = self.new.clone();
            part.pods.retain(|hash, pods| *hash == wanted || !pods.is_empty());
        }
    }

    /// Pods of a part that requests reach: those of generations in which no part is missing.
    fn routable(&self, name: &str) -> u32 {
        let asked = || self.parts.values().filter(|part| part.wanted > 0);
        let serves = |hash: &String| asked().all(|part| part.pods.get(hash).is_none_or(|pods| pods.contains(&true)));
        let pods = self.parts[name].pods.iter().filter(|(hash, _)| serves(hash));
        pods.map(|(_, pods)| count(pods).ready).sum()
    }

    /// Old generations besides one.
    fn overtaken(&self) -> u32 {
        let hashes: std::collections::BTreeSet<_> = self.parts.values().flat_map(|part| part.pods.keys()).collect();
        (hashes.iter().filter(|hash| **hash != &self.new).count() as u32).saturating_sub(1)
    }

    fn all(&self, name: &str) -> u32 {
        self.parts[name].pods.values().map(|pods| pods.len() as u32).sum()
    }

    fn is_done(&self) -> bool {
        let done =
            |part: &Part| part.pods.len() == 1 && part.pods.get(&self.new).map(Vec::len) == Some(part.wanted as usize);
        self.parts.values().all(done)
    }

    fn all_ready(&mut self) {
        for part in self.parts.values_mut() {
            part.pods.values_mut().flatten().for_each(|ready| *ready = true);
        }
    }
}

/// Kubernetes removes pods that are not ready first.
fn resize(pods: &mut Vec<bool>, target: u32) {
    pods.sort_by_key(|ready| !*ready);
    pods.resize(target as usize, false);
}

fn bounds(update: Update, wanted: u32) -> (u32, u32) {
    match update {
        Update::Rolling { surge, unavailable } => (wanted + surge, wanted.saturating_sub(unavailable)),
        Update::Recreate => (wanted, 0),
    }
}

fn update(has_room: bool) -> BoxedStrategy<Update> {
    if has_room {
        (1..4u32, 0..3u32).prop_map(|(surge, unavailable)| Update::Rolling { surge, unavailable }).boxed()
    } else {
        prop_oneof![
            (1..4u32, 0..3u32).prop_map(|(surge, unavailable)| Update::Rolling { surge, unavailable }),
            (1..3u32).prop_map(|unavailable| Update::Rolling { surge: 0, unavailable }),
            Just(Update::Recreate),
        ]
        .boxed()
    }
}

fn a_graph(has_room: bool) -> impl Strategy<Value = Graph> {
    let part = (0..8u32, update(has_room));
    prop::collection::btree_map("[a-c]", part, 1..4).prop_map(|parts| {
        let part = |(wanted, update): (u32, Update)| {
            let pods = BTreeMap::from([("old".to_owned(), vec![true; wanted as usize])]);
            Part { wanted, update, pods }
        };
        Graph { new: "new".to_owned(), parts: parts.into_iter().map(|(name, one)| (name, part(one))).collect() }
    })
}

/// What happens between two looks.
#[derive(Clone, Debug)]
enum Event {
    /// A pod gets ready, or fails.
    Pod { part: usize, pod: usize, ready: bool },
    /// A part is scaled.
    Scale { part: usize, wanted: u32 },
    /// The workers are changed once more.
    Change,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => (0..3usize, 0..20usize, prop::bool::weighted(0.85))
            .prop_map(|(part, pod, ready)| Event::Pod { part, pod, ready }),
        1 => (0..3usize, 0..8u32).prop_map(|(part, wanted)| Event::Scale { part, wanted }),
        1 => Just(Event::Change),
    ]
}

fn happen(graph: &mut Graph, event: &Event, number: usize) {
    let names: Vec<_> = graph.parts.keys().cloned().collect();
    match *event {
        Event::Pod { part, pod, ready } => {
            let part = graph.parts.get_mut(&names[part % names.len()]).expect("a part");
            let mut pods: Vec<_> = part.pods.values_mut().flatten().collect();
            let count = pods.len();
            if count > 0 {
                *pods[pod % count] = ready;
            }
        }
        Event::Scale { part, wanted } => {
            graph.parts.get_mut(&names[part % names.len()]).expect("a part").wanted = wanted;
        }
        Event::Change => graph.new = format!("new{number}"),
    }
}

fn finish(graph: &mut Graph) -> Result<(), TestCaseError> {
    for _ in 0..200 {
        if graph.is_done() {
            return Ok(());
        }
        graph.all_ready();
        let next = targets(&graph.input());
        graph.apply(&next);
    }
    Err(TestCaseError::fail(format!("no end: {graph:?}")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_look_takes_away_routable_pods_or_goes_above_the_surge(
        mut graph in a_graph(true),
        events in prop::collection::vec(event(), 0..80),
    ) {
        for (number, event) in events.iter().enumerate() {
            let names: Vec<_> = graph.parts.keys().cloned().collect();
            let before: Vec<_> = names.iter().map(|name| (graph.routable(name), graph.all(name))).collect();
            let extra = graph.overtaken();
            let next = targets(&graph.input());
            graph.apply(&next);
            for (name, (routable, all)) in names.iter().zip(before) {
                let part = &graph.parts[name];
                let (most, least) = bounds(part.update, part.wanted);
                prop_assert!(graph.all(name) <= (most + extra).max(all), "{} above {}: {:?}", graph.all(name), most, graph);
                prop_assert!(
                    graph.routable(name) >= least.min(routable),
                    "{} routable of {}, {} before: {:?}", graph.routable(name), least, routable, graph
                );
            }
            happen(&mut graph, event, number);
        }
        finish(&mut graph)?;
    }

    #[test]
    fn every_update_ends_with_the_wanted_generation_alone(
        mut graph in a_graph(false),
        events in prop::collection::vec(event(), 0..80),
    ) {
        for (number, event) in events.iter().enumerate() {
            let next = targets(&graph.input());
            graph.apply(&next);
            happen(&mut graph, event, number);
        }
        finish(&mut graph)?;
        let settled = graph.clone();
        let next = targets(&graph.input());
        graph.apply(&next);
        prop_assert!(graph.is_done(), "{:?} after {:?}", graph, settled);
    }
}

/// Replicas of old and new per look, all pods ready at once.
fn course(wanted: u32, update: Update) -> Vec<(u32, u32)> {
    let pods = BTreeMap::from([("old".to_owned(), vec![true; wanted as usize])]);
    let part = Part { wanted, update, pods };
    let mut graph = Graph { new: "new".to_owned(), parts: BTreeMap::from([("a".to_owned(), part)]) };
    let mut seen = Vec::new();
    while !graph.is_done() {
        graph.all_ready();
        let next = targets(&graph.input());
        graph.apply(&next);
        let of = |hash: &str| graph.parts["a"].pods.get(hash).map_or(0, |pods| pods.len() as u32);
        seen.push((of("old"), of("new")));
    }
    seen
}

#[test]
fn a_worker_alone_goes_as_a_deployment_would() {
    assert_eq!(course(1, Update::Rolling { surge: 1, unavailable: 0 }), [(1, 1), (0, 1)]);
    assert_eq!(course(1, Update::Rolling { surge: 0, unavailable: 1 }), [(0, 0), (0, 1)]);
    assert_eq!(course(4, Update::Rolling { surge: 1, unavailable: 1 }), [(3, 1), (2, 2), (1, 3), (0, 4)]);
    assert_eq!(course(2, Update::Recreate), [(0, 0), (0, 2)]);
    assert_eq!(course(0, Update::Rolling { surge: 1, unavailable: 0 }), [(0, 0)]);
}

#[test]
fn a_prefill_worker_waits_for_the_last_decode_worker_of_its_generation() {
    let pods = |replicas, ready| Pods { replicas, ready };
    let part = |wanted, new, old| Component {
        wanted,
        update: Update::Rolling { surge: 1, unavailable: 0 },
        new,
        old: BTreeMap::from([("old".to_owned(), old)]),
    };
    let next = |decode: Component, prefill: Component| {
        let next = targets(&BTreeMap::from([("decode".to_owned(), decode), ("prefill".to_owned(), prefill)]));
        (next["decode"].old["old"], next["prefill"].old["old"])
    };
    // New decode is ready, new prefill is not: nothing may go.
    assert_eq!(next(part(3, pods(1, 1), pods(3, 3)), part(1, pods(1, 0), pods(1, 1))), (3, 1));
    // Both are: a decode worker goes, prefill stays for the other two.
    assert_eq!(next(part(3, pods(1, 1), pods(3, 3)), part(1, pods(1, 1), pods(1, 1))), (2, 1));
    // The last ones go together.
    assert_eq!(next(part(3, pods(3, 3), pods(1, 1)), part(1, pods(1, 1), pods(1, 1))), (0, 0));
}
