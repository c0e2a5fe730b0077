//! When requests are sent.

use dynosim_replay::Admission;
use dynosim_workload::{SessionArrivals, Synthetic, SyntheticOptions, Trace, TraceOptions};

use crate::server::{Pace, Server};
use crate::setup::{config, ms, nanos, requests, run};

#[test]
fn an_open_loop_sends_in_order_and_never_early_whatever_the_server_does() {
    let server = Server::start(Pace { first: ms(1000), ..Pace::default() });
    let ran = run(&config(&server.url()), &mut requests(50, 1, 3.0));
    let arrivals = ran.column("arrival_time_ms");
    for (index, at) in arrivals.iter().enumerate() {
        assert!(*at >= 3.0 * index as f64, "request {index} was sent at {at} ms");
    }
    let order: Vec<_> = ran.rows.iter().map(|row| row["uuid"].as_str().unwrap()).collect();
    assert!(order.is_sorted() && arrivals.is_sorted());
    // None waited for an answer: all were under way together.
    assert_eq!(server.seen.lock().unwrap().in_flight_max, 50);
    assert_eq!(ran.number("completed_requests"), 50.0);
}

#[test]
fn time_stamps_of_a_trace_are_divided_by_the_speed_up() {
    let server = Server::start(Pace::default());
    let rows = "{\"timestamp\":1000,\"input_length\":5,\"output_length\":1,\"hash_ids\":[1]}\n\
                {\"timestamp\":1400,\"input_length\":5,\"output_length\":1,\"hash_ids\":[1]}\n";
    let options = TraceOptions { engine_block_size: 1, arrival_speedup_ratio: 4.0, ..TraceOptions::default() };
    let mut trace = Trace::from_bytes("trace", rows.into(), &options).unwrap();
    let ran = run(&dynosim_load::LoadConfig { block_size: 1, ..config(&server.url()) }, &mut trace);
    let arrivals = ran.column("arrival_time_ms");
    assert!(arrivals[0] < 100.0 && (100.0..400.0).contains(&arrivals[1]), "{arrivals:?}");
}

#[test]
fn a_closed_loop_fills_its_places_and_never_more() {
    let server = Server::start(Pace { first: ms(5), gap: ms(1), ..Pace::default() });
    let config = dynosim_load::LoadConfig { admission: Admission::Concurrency(7), ..config(&server.url()) };
    let ran = run(&config, &mut requests(100, 3, 1e6));
    assert_eq!(ran.number("completed_requests"), 100.0);
    assert_eq!(server.seen.lock().unwrap().in_flight_max, 7);
    assert_eq!(ran.number("connections_opened"), 7.0);
}

#[test]
fn turns_of_a_session_wait_for_the_answer_before_and_the_pause() {
    let server = Server::start(Pace { first: ms(10), ..Pace::default() });
    let options = SyntheticOptions {
        input_tokens: 20,
        output_tokens: 2,
        request_count: 6,
        turns_per_session: 3,
        inter_turn_delay_ms: 15.0,
        arrivals: SessionArrivals::Interval { ms: 1.0 },
        ..SyntheticOptions::default()
    };
    for admission in [Admission::Schedule, Admission::Concurrency(2)] {
        let config = dynosim_load::LoadConfig { admission, block_size: 64, ..config(&server.url()) };
        let ran = run(&config, &mut Synthetic::new(options).unwrap());
        assert_eq!(ran.number("completed_requests"), 18.0);
        for session in 1..=6 {
            let name = format!("session_{session}");
            let turns: Vec<_> = ran.rows.iter().filter(|row| row["session_id"] == name.as_str()).collect();
            assert_eq!(turns.len(), 3);
            for (turn, pair) in turns.windows(2).enumerate() {
                assert_eq!(pair[1]["turn_index"], turn + 1);
                let pause = pair[1]["arrival_time_ms"].as_f64().unwrap() - pair[0]["last_token_ms"].as_f64().unwrap();
                assert!(pause >= 15.0, "{pause} ms in {admission:?}");
            }
        }
    }
}

#[test]
fn a_thousand_requests_are_in_flight_at_once() {
    let server = Server::start(Pace { first: ms(1500), ..Pace::default() });
    let ran = run(&config(&server.url()), &mut requests(1000, 2, 0.0));
    assert_eq!((ran.number("completed_requests"), ran.number("failed_requests")), (1000.0, 0.0));
    assert!(server.seen.lock().unwrap().in_flight_max >= 900, "{}", server.seen.lock().unwrap().in_flight_max);
}

#[test]
fn a_run_ends_at_its_end_and_counts_what_is_in_flight() {
    let server = Server::start(Pace { first: ms(60_000), ..Pace::default() });
    let config = dynosim_load::LoadConfig { end: Some(nanos(150.0)), ..config(&server.url()) };
    let start = tokio::time::Instant::now();
    let ran = run(&config, &mut requests(20, 1, 1.0));
    assert!(start.elapsed() < ms(10_000));
    assert_eq!((ran.number("num_requests"), ran.number("canceled_requests")), (20.0, 20.0));
    assert!(ran.rows.iter().all(|row| row["terminal_status"] == "canceled"));
}

#[test]
fn a_run_that_is_stopped_reports_what_it_has() {
    let server = Server::start(Pace::default());
    let stop = dynosim_load::Stop::default();
    let (handle, seen) = (stop.clone(), std::sync::Arc::clone(&server.seen));
    std::thread::spawn(move || {
        while seen.lock().unwrap().requests.len() < 10 {
            std::thread::sleep(ms(1));
        }
        handle.stop();
    });
    // Without the stop it would take an hour.
    let outcome =
        dynosim_load::load(&config(&server.url()), &mut requests(360_000, 1, 10.0), &stop, &mut |_| ()).unwrap();
    assert!(outcome.completed >= 9 && outcome.completed < 5000, "{}", outcome.completed);
}
