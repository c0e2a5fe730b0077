//! `spec.restart`: which components get new pods when its `id` changes.
//!
//! The id is written to an annotation of the pod template, which makes the Deployment replace its pods. Its value says which
//! restart the pods have seen, so no more than the Deployments is needed to go on after a stop of the operator.

use std::collections::BTreeMap;

/// One after the other, or all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The next one when the one before has only new, ready pods.
    #[default]
    Sequential,
    /// All at once.
    Parallel,
}

/// What a graph asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Any text; a new one restarts.
    pub id: String,
    /// How.
    pub strategy: Strategy,
    /// Lower-case names of all components in the order of [`Strategy::Sequential`].
    pub order: Vec<String>,
}

/// What a component's Deployment has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Id in its pod template.
    pub id: Option<String>,
    /// All replicas are updated and ready.
    pub settled: bool,
}

/// How far a restart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for a rolling update.
    Pending,
    /// Some components are not yet through.
    Restarting,
    /// All components are through.
    Completed,
}

/// What comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The id for the pod template of each component.
    pub ids: BTreeMap<String, String>,
    /// How far it is; none if nothing was asked for.
    pub phase: Option<Phase>,
    /// Components that are at it.
    pub in_progress: Vec<String>,
}

/// Plans from what the Deployments of the wanted generation have seen. Components that have none yet are new: their pods have
/// seen every restart.
pub fn plan(restart: Option<&Restart>, seen: &BTreeMap<String, Seen>, rolling: bool) -> Plan {
    let Some(restart) = restart else {
        // The annotation stays: without it the pods would be replaced once more.
        let kept = seen.iter().filter_map(|(name, seen)| Some((name.clone(), seen.id.clone()?)));
        return Plan { ids: kept.collect(), ..Plan::default() };
    };
    let mut plan = Plan::default();
    let mut free = true;
    for name in &restart.order {
        let Some(seen) = seen.get(name) else {
            plan.ids.insert(name.clone(), restart.id.clone());
            continue;
        };
        let through = seen.id.as_deref() == Some(&restart.id);
        if through || (free && !rolling) {
            plan.ids.insert(name.clone(), restart.id.clone());
        } else if let Some(id) = &seen.id {
            plan.ids.insert(name.clone(), id.clone());
        }
        if !(through && seen.settled) {
            if through || (free && !rolling) {
                plan.in_progress.push(name.clone());
            }
            plan.phase = Some(if rolling && !through { Phase::Pending } else { Phase::Restarting });
            free = free && restart.strategy == Strategy::Parallel;
        }
    }
    plan.phase = plan.phase.or(Some(Phase::Completed));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restart(strategy: Strategy) -> Restart {
        Restart { id: "2".to_owned(), strategy, order: ["a", "b", "c"].map(str::to_owned).to_vec() }
    }

    fn seen(rows: &[(&str, &str, bool)]) -> BTreeMap<String, Seen> {
        let one = |&(name, id, settled): &(&str, &str, bool)| {
            (name.to_owned(), Seen { id: (!id.is_empty()).then(|| id.to_owned()), settled })
        };
        rows.iter().map(one).collect()
    }

    fn ids(plan: &Plan) -> String {
        plan.ids.iter().map(|(name, id)| format!("{name}{id}")).collect::<Vec<_>>().join(" ")
    }

    /// What was seen, the ids then, how far it is, and who is at it.
    type Row<'a> = (&'a [(&'a str, &'a str, bool)], &'a str, Phase, &'a [&'a str]);

    #[test]
    fn a_sequential_restart_goes_on_when_the_one_before_is_through() {
        let restart = restart(Strategy::Sequential);
        let rows: [Row<'_>; 5] = [
            (&[("a", "1", true), ("b", "", true), ("c", "1", true)], "a2 c1", Phase::Restarting, &["a"]),
            (&[("a", "2", false), ("b", "", true), ("c", "1", true)], "a2 c1", Phase::Restarting, &["a"]),
            (&[("a", "2", true), ("b", "", true), ("c", "1", true)], "a2 b2 c1", Phase::Restarting, &["b"]),
            (&[("a", "2", true), ("b", "2", true), ("c", "2", false)], "a2 b2 c2", Phase::Restarting, &["c"]),
            (&[("a", "2", true), ("b", "2", true), ("c", "2", true)], "a2 b2 c2", Phase::Completed, &[]),
        ];
        for (rows, expected, phase, busy) in rows {
            let plan = plan(Some(&restart), &seen(rows), false);
            assert_eq!((ids(&plan).as_str(), plan.phase), (expected, Some(phase)), "{rows:?}");
            assert_eq!(plan.in_progress, busy, "{rows:?}");
        }
    }

    #[test]
    fn a_parallel_restart_takes_all_at_once() {
        let plan = plan(
            Some(&restart(Strategy::Parallel)),
            &seen(&[("a", "", true), ("b", "1", false), ("c", "", true)]),
            false,
        );
        assert_eq!(ids(&plan), "a2 b2 c2");
        assert_eq!(plan.in_progress, ["a", "b", "c"]);
    }

    #[test]
    fn a_rolling_update_is_waited_for_and_its_new_pods_need_no_restart() {
        let restart = restart(Strategy::Parallel);
        let waits = plan(Some(&restart), &seen(&[("a", "1", true), ("c", "", true)]), true);
        assert_eq!((ids(&waits).as_str(), waits.phase), ("a1 b2", Some(Phase::Pending)));
        assert!(waits.in_progress.is_empty());
    }

    #[test]
    fn without_a_restart_the_annotation_stays_as_it_is() {
        let plan = plan(None, &seen(&[("a", "1", true), ("b", "", true)]), false);
        assert_eq!((ids(&plan).as_str(), plan.phase), ("a1", None));
    }
}
