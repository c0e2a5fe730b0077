//! Limits of the generator itself.

use dynosim_load::{Answering, PromptFormat};
use dynosim_workload::{SessionArrivals, Synthetic, SyntheticOptions};

use crate::server::{Pace, Server};
use crate::setup::{config, ms, requests, run};

#[test]
fn requests_beyond_the_connections_wait_and_the_report_says_how_long() {
    let server = Server::start(Pace { first: ms(20), ..Pace::default() });
    let config = dynosim_load::LoadConfig { connections: 2, ..config(&server.url()) };
    let ran = run(&config, &mut requests(10, 1, 0.0));
    assert_eq!(ran.number("completed_requests"), 10.0);
    let seen = server.seen.lock().unwrap();
    assert_eq!((seen.in_flight_max, seen.connections), (2, 2));
    // The last pair waited for four others.
    assert!(ran.number("max_send_lateness_ms") >= 80.0, "{}", ran.number("max_send_lateness_ms"));
    // The latency is the server's, the wait is not in it.
    assert!(ran.number("min_ttft_ms") >= 20.0);
    assert_eq!(ran.number("connections_limit"), 2.0);
}

#[test]
fn a_server_that_closes_after_each_answer_gets_new_connections() {
    let server = Server::start(Pace { close: true, ..Pace::default() });
    let ran = run(&config(&server.url()), &mut requests(20, 2, 1.0));
    assert_eq!((ran.number("completed_requests"), ran.number("connections_opened")), (20.0, 20.0));
}

#[test]
fn prompts_larger_than_any_socket_buffer_arrive_whole() {
    let options = SyntheticOptions {
        input_tokens: 6_000_000,
        output_tokens: 2,
        request_count: 3,
        arrivals: SessionArrivals::Interval { ms: 0.0 },
        ..SyntheticOptions::default()
    };
    let server = Server::start(Pace::default());
    let config = dynosim_load::LoadConfig {
        format: PromptFormat::Text,
        answering: Answering::Stream,
        block_size: 64,
        ..config(&server.url())
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(run(&config, &mut Synthetic::new(options).unwrap()).report));
    let report = receiver.recv_timeout(ms(60_000)).expect("the run ends");
    assert_eq!(report["total_input_tokens"], 18_000_000);
}
