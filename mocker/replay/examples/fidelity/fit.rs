//! Fits the coefficients of the linear timing model to the fitted half of a run.

use dynosim_engine::timing::Linear;

use crate::measured::Measured;
use crate::simulate::{Half, METRICS, Run, measured_latencies, statistics};

const COEFFICIENTS: usize = 6;
type Point = [f64; COEFFICIENTS];

/// Where every search starts: no particular GPU.
const START: Linear = Linear {
    pass_ms: 3.0,
    weights_ms: 10.0,
    prefill_ms_per_token: 0.05,
    attention_ms_per_token_pair: 1e-6,
    decode_ms_per_request: 0.05,
    decode_ms_per_kv_token: 1e-4,
};
/// Searches, each from the best point of the one before.
const ROUNDS: usize = 4;
/// Simulated runs per search.
const EVALUATIONS: usize = 400;
/// Size of the first simplex in natural logarithms of the coefficients.
const SPREAD: f64 = 0.5;

fn to_point(timing: &Linear) -> Point {
    [
        timing.pass_ms,
        timing.weights_ms,
        timing.prefill_ms_per_token,
        timing.attention_ms_per_token_pair,
        timing.decode_ms_per_request,
        timing.decode_ms_per_kv_token,
    ]
    .map(|value| value.max(1e-12).ln())
}

fn to_timing(point: &Point) -> Linear {
    let [pass_ms, weights_ms, prefill, attention, decode_ms_per_request, decode_ms_per_kv_token] = point.map(f64::exp);
    Linear {
        pass_ms,
        weights_ms,
        prefill_ms_per_token: prefill,
        attention_ms_per_token_pair: attention,
        decode_ms_per_request,
        decode_ms_per_kv_token,
    }
}

/// How far a simulated run is from the measured one on the fitted half: relative errors of mean, p50, p90 and p99 of each
/// latency, squared, and the mean absolute error per request relative to the mean.
fn distance(run: &Run, timing: &Linear, requests: &[Measured]) -> f64 {
    let (measured, simulated) = (measured_latencies(requests), run.simulate(timing, requests));
    let mut sum = 0.0;
    for metric in 0..METRICS.len() {
        let truth = statistics(&measured, metric, Half::Fitted);
        let found = statistics(&simulated, metric, Half::Fitted);
        sum += truth.iter().zip(found).map(|(truth, found)| (found / truth - 1.0).powi(2)).sum::<f64>();
        let pairs = Half::Fitted.of(&measured).zip(Half::Fitted.of(&simulated));
        let gaps: f64 = pairs.map(|(truth, found)| (truth[metric] - found[metric]).abs()).sum();
        let scale: f64 = Half::Fitted.of(&measured).map(|truth| truth[metric]).sum();
        sum += (gaps / scale).powi(2);
    }
    sum
}

/// Searches by Nelder and Mead's simplex, several times.
pub(crate) fn fit(run: &Run, requests: &[Measured]) -> (Linear, f64) {
    let cost = |point: &Point| distance(run, &to_timing(point), requests);
    let mut best = (to_point(&START), f64::INFINITY);
    for round in 0..ROUNDS {
        let spread = if round % 2 == 0 { SPREAD } else { -SPREAD };
        best = search(best.0, spread, &cost);
    }
    (to_timing(&best.0), best.1)
}

fn search(start: Point, spread: f64, cost: &dyn Fn(&Point) -> f64) -> (Point, f64) {
    let valued = |point: Point| (point, cost(&point));
    let mut simplex = vec![valued(start)];
    for axis in 0..COEFFICIENTS {
        let mut point = start;
        point[axis] += spread;
        simplex.push(valued(point));
    }
    let mut evaluations = simplex.len();
    while evaluations < EVALUATIONS {
        simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
        let worst = simplex[COEFFICIENTS];
        let centre: Point = std::array::from_fn(|axis| {
            simplex[..COEFFICIENTS].iter().map(|(point, _)| point[axis]).sum::<f64>() / COEFFICIENTS as f64
        });
        let beyond = |factor: f64| std::array::from_fn(|axis| centre[axis] + factor * (centre[axis] - worst.0[axis]));
        let reflected = valued(beyond(1.0));
        evaluations += 1;
        let better = if reflected.1 < simplex[0].1 {
            let expanded = valued(beyond(2.0));
            evaluations += 1;
            Some(if expanded.1 < reflected.1 { expanded } else { reflected })
        } else if reflected.1 < simplex[COEFFICIENTS - 1].1 {
            Some(reflected)
        } else {
            let contracted = valued(beyond(if reflected.1 < worst.1 { 0.5 } else { -0.5 }));
            evaluations += 1;
            (contracted.1 < worst.1.min(reflected.1)).then_some(contracted)
        };
        if let Some(better) = better {
            simplex[COEFFICIENTS] = better;
            continue;
        }
        let best = simplex[0].0;
        for (point, value) in &mut simplex[1..] {
            *point = std::array::from_fn(|axis| f64::midpoint(point[axis], best[axis]));
            *value = cost(point);
        }
        evaluations += COEFFICIENTS;
    }
    simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
    simplex[0]
}
