//! Servers that misbehave: each failure has its kind, and no run hangs.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use dynosim_load::FailureKind;
use dynosim_replay::Admission;

use crate::raw::{STREAM, answer, chunk, serve};
use crate::setup::{Ran, config, ms, requests, run};

const TOKEN: &str = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";

fn ran(address: SocketAddr) -> Ran {
    let config = dynosim_load::LoadConfig { timeout: ms(400), ..config(&format!("http://{address}")) };
    run(&config, &mut requests(2, 3, 1.0))
}

#[track_caller]
fn assert_failed(ran: &Ran, kind: FailureKind, message: &str) {
    let found = ran.outcome.failures.get(&kind).unwrap_or_else(|| panic!("{:?}", ran.outcome.failures));
    assert_eq!((found.0, ran.outcome.failures.len()), (2, 1), "{:?}", ran.outcome.failures);
    assert!(found.1.contains(message), "{}", found.1);
    assert_eq!(ran.report[format!("errors_{kind}")], 2);
    let status = if kind.is_rejection() { "rejected" } else { "failed" };
    assert_eq!(ran.report[format!("{status}_requests")], 2);
    assert!(ran.rows.iter().all(|row| row["terminal_status"] == status), "{:?}", ran.rows);
    assert_eq!(ran.report["completed_requests"], 0);
}

#[test]
fn a_port_without_a_server_refuses() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_failed(&ran(address), FailureKind::Refused, "refused");
}

#[test]
fn every_answer_that_is_none_has_its_kind() {
    let sized = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let message = r#"{"error":{"message":"why","type":"x"}}"#;
    let huge = format!("data: {}", "x".repeat(2 << 20));
    for (text, kind, why) in [
        (sized("500 Internal Server Error", message), FailureKind::Status(500), "why"),
        (sized("503 Service Unavailable", "busy"), FailureKind::Status(503), "busy"),
        (sized("404 Not Found", message), FailureKind::Status(404), "why"),
        (sized("429 Too Many Requests", ""), FailureKind::Status(429), ""),
        (String::new(), FailureKind::Broken, "before any answer"),
        ("HTTP/1.1 200 O".to_owned(), FailureKind::Broken, "within the head"),
        (format!("{STREAM}{}", chunk(TOKEN)), FailureKind::Broken, "within the answer"),
        (format!("{STREAM}{}", chunk("data: {\"choi")), FailureKind::Broken, "within the answer"),
        (format!("{STREAM}{}0\r\n\r\n", chunk(TOKEN)), FailureKind::Broken, "finish reason"),
        (format!("{STREAM}{}", chunk(&huge)), FailureKind::Malformed, "1048576"),
        (format!("{STREAM}nonsense"), FailureKind::Malformed, "chunk"),
        ("220 mail.example ESMTP\r\n".to_owned(), FailureKind::Malformed, "no HTTP"),
        (format!("{STREAM}{}", chunk("data: {\"error\":\"lost\"}\n\n")), FailureKind::ErrorEvent, "lost"),
    ] {
        assert_failed(&ran(answer(text)), kind, why);
    }
}

#[test]
fn a_server_that_never_answers_or_stops_half_way_runs_into_the_time_out() {
    for sent in [String::new(), STREAM.to_owned(), format!("{STREAM}{}", chunk(TOKEN)), "HTTP/1.1 ".to_owned()] {
        let address = serve(move |stream| {
            let _ = stream.write_all(sent.as_bytes());
            true
        });
        let ran = ran(address);
        assert_failed(&ran, FailureKind::Timeout, "0.4 s");
    }
}

#[test]
fn a_slow_trickle_of_single_bytes_is_put_together() {
    let whole = format!(
        "{STREAM}{}{}0\r\n\r\n",
        chunk(&TOKEN.repeat(3)),
        chunk("data: {\"choices\":[{\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n")
    );
    let address = serve(move |stream| {
        stream.set_nodelay(true).unwrap();
        whole.bytes().all(|byte| stream.write_all(&[byte]).is_ok())
    });
    let config = config(&format!("http://{address}"));
    let ran = run(&config, &mut requests(4, 3, 1.0));
    assert_eq!((ran.number("completed_requests"), ran.number("total_output_tokens")), (4.0, 12.0));
    // Nothing was told of the cache.
    assert!(ran.report["prefix_cache_reused_ratio"].is_null());
}

#[test]
fn a_refusal_leaves_its_connection_usable() {
    let address = serve(|stream| stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy").is_ok());
    let config =
        dynosim_load::LoadConfig { admission: Admission::Concurrency(1), ..config(&format!("http://{address}")) };
    let ran = run(&config, &mut requests(5, 1, 1.0));
    assert_eq!((ran.number("failed_requests"), ran.number("connections_opened")), (5.0, 1.0));
}

#[test]
fn sessions_go_on_after_a_failed_turn() {
    use dynosim_workload::{Synthetic, SyntheticOptions};
    let options = SyntheticOptions {
        input_tokens: 20,
        output_tokens: 2,
        request_count: 2,
        turns_per_session: 3,
        ..SyntheticOptions::default()
    };
    let address = answer("HTTP/1.1 500 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let ran = run(&config(&format!("http://{address}")), &mut Synthetic::new(options).unwrap());
    assert_eq!(ran.number("errors_status_500"), 6.0);
}

#[test]
fn time_outs_do_not_touch_those_that_are_in_time() {
    let address = serve(|stream| {
        std::thread::sleep(Duration::from_millis(20));
        let done = chunk("data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n");
        stream.write_all(format!("{STREAM}{done}0\r\n\r\n").as_bytes()).is_ok()
    });
    let config = dynosim_load::LoadConfig { timeout: ms(5000), ..config(&format!("http://{address}")) };
    let ran = run(&config, &mut requests(30, 1, 1.0));
    assert_eq!((ran.number("completed_requests"), ran.outcome.failures.len()), (30.0, 0));
}
