//! The stagger: workers of one component that do not all start at once.
//!
//! `dynamo.mocker --stagger-delay` spaces the workers of one process: a pause before each, and 2 s more after each 32. In a
//! cluster each worker is a pod, and the pods of a Deployment have no number that they could derive a pause from. So the
//! numbers are the Deployment's replicas: it is raised in steps, each as large as what the rule starts within a second. A step
//! leaves behind the time at which the next pod may start, in an annotation beside the replicas, so that it holds over restarts
//! of the operator, over scale-ups and over the generations of a rolling update, each of which paces its own Deployment.
//! Replicas fall at once.
//!
//! | replicas wanted | pause (`-1`, the default) | 100 more replicas take |
//! |---|---|---|
//! | up to 32 | none | one step |
//! | 33 to 128 | 0.1 s | 16 s |
//! | more | 0.2 s | 26 s |

use std::time::Duration;

use jiff::Timestamp;

/// A step is what starts within this time, so that a Deployment is not written more often.
const STEP: Duration = Duration::from_secs(1);
/// Pods after which there is a longer pause.
const GROUP: u32 = 32;
/// That pause.
const GROUP_PAUSE: Duration = Duration::from_secs(2);

/// Pauses between the starts of a component's pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rule {
    /// By the number of replicas, as `--stagger-delay -1`.
    #[default]
    Auto,
    /// The same pause before each.
    Every(Duration),
}

impl Rule {
    /// The pause before each pod of a component that wants so many.
    fn pause(self, wanted: u32) -> Duration {
        match (self, wanted) {
            (Self::Every(pause), _) => pause,
            (Self::Auto, ..=32) => Duration::ZERO,
            (Self::Auto, ..=128) => Duration::from_millis(100),
            (Self::Auto, _) => Duration::from_millis(200),
        }
    }

    /// When pod `number` starts, counted from the first one of the component.
    fn starts(self, number: u32, wanted: u32) -> Duration {
        match self.pause(wanted) {
            Duration::ZERO => Duration::ZERO,
            pause => pause * number + GROUP_PAUSE * (number / GROUP),
        }
    }

    /// The next step of a Deployment from `current` to `target` replicas. `wanted` is what the component has in the end, `next`
    /// what the last step left behind.
    pub fn step(self, current: u32, target: u32, wanted: u32, next: Option<Timestamp>, now: Timestamp) -> Step {
        if target <= current {
            return Step { replicas: target, next, wait: None };
        }
        let first = self.starts(current, wanted);
        let longest = self.pause(wanted) + GROUP_PAUSE + STEP;
        if let Some(wait) = next.and_then(|next| until(next, now)) {
            // A clock that was set back must not hold pods up for longer than any step does.
            return Step { replicas: current, next, wait: Some(wait.min(longest)) };
        }
        let after = |number: u32| self.starts(number, wanted).saturating_sub(first);
        let due = |number: &u32| after(*number) < STEP;
        let replicas = current.max((current..target).take_while(due).last().map_or(current, |last| last + 1));
        let pause = after(replicas);
        let next = if pause.is_zero() { None } else { now.checked_add(pause).ok() };
        let wait = (replicas < target).then_some(pause);
        Step { replicas, next, wait }
    }
}

fn until(next: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(next.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

/// What to write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Replicas of the Deployment.
    pub replicas: u32,
    /// When the next pod may start.
    pub next: Option<Timestamp>,
    /// When to look again, if the target is not reached.
    pub wait: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replicas and the second of each step up to the target.
    fn steps(rule: Rule, from: u32, target: u32) -> Vec<(u32, f64)> {
        let start = Timestamp::UNIX_EPOCH;
        let (mut now, mut current, mut next, mut seen) = (start, from, None, Vec::new());
        for _ in 0..10_000 {
            let step = rule.step(current, target, target, next, now);
            seen.push((step.replicas, now.duration_since(start).as_secs_f64()));
            (current, next) = (step.replicas, step.next);
            match step.wait {
                Some(wait) => now = now.checked_add(wait).expect("a time"),
                None => return seen,
            }
        }
        panic!("no end: {seen:?}")
    }

    #[test]
    fn up_to_32_replicas_start_at_once() {
        assert_eq!(steps(Rule::Auto, 0, 32), [(32, 0.0)]);
        assert_eq!(steps(Rule::Auto, 5, 32), [(32, 0.0)]);
        assert_eq!(steps(Rule::Auto, 0, 0), [(0, 0.0)]);
    }

    #[test]
    fn more_start_in_steps_by_the_published_rule() {
        let seen = steps(Rule::Auto, 0, 40);
        assert_eq!(seen, [(10, 0.0), (20, 1.0), (30, 2.0), (32, 3.0), (40, 5.2)]);
        let seen = steps(Rule::Auto, 0, 200);
        assert_eq!(seen[..3], [(5, 0.0), (10, 1.0), (15, 2.0)]);
        let (last, at) = *seen.last().expect("steps");
        // Pod 199 is due at 199 · 0.2 + 2 · 6 s; its step begins at most a second before.
        assert!(last == 200 && (50.8..=51.8).contains(&at), "{at}");
    }

    #[test]
    fn a_scale_up_goes_on_where_the_pods_are() {
        assert_eq!(steps(Rule::Auto, 30, 50), [(32, 0.0), (42, 2.2), (50, 3.2)]);
        assert_eq!(steps(Rule::Every(Duration::from_secs(3)), 1, 3), [(2, 0.0), (3, 3.0)]);
        assert_eq!(steps(Rule::Every(Duration::ZERO), 0, 500), [(500, 0.0)]);
    }

    #[test]
    fn replicas_fall_at_once_and_a_new_raise_waits_for_the_last_step() {
        let now = Timestamp::UNIX_EPOCH;
        let rule = Rule::Every(Duration::from_secs(10));
        let up = rule.step(1, 2, 3, None, now);
        assert_eq!((up.replicas, up.wait), (2, None));
        let down = rule.step(2, 1, 3, up.next, now);
        assert_eq!((down.replicas, down.wait), (1, None));
        let again = rule.step(1, 3, 3, down.next, now);
        assert_eq!((again.replicas, again.wait), (1, Some(Duration::from_secs(10))));
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nothing_up_for_long() {
        let now = Timestamp::UNIX_EPOCH;
        let far = now.checked_add(Duration::from_hours(24)).expect("a time");
        let step = Rule::Auto.step(10, 40, 40, Some(far), now);
        assert_eq!(step.wait, Some(Duration::from_millis(3100)));
    }
}
