# make demo | test | bench
.PHONY: demo test bench fmt

CARGO ?= cargo
DYNOSIM := target/release/dynosim
DEMO := target/demo
BENCH := target/bench

# Needs Rust 1.95, a C linker for it, and these two parts of a Rust toolchain.
define need
@command -v $(1) >/dev/null 2>&1 || { echo "make: $(1) is missing: $(2)" >&2; exit 1; }
endef

## Builds the simulator, replays a trace offline, then serves a disaggregated graph and sends it requests.
demo: build
	mkdir -p $(DEMO)
	$(DYNOSIM) trace generate --requests 20000 --output $(DEMO)/trace.jsonl
	$(DYNOSIM) replay $(DEMO)/trace.jsonl --trace-block-size 512 --num-workers 8 \
		--extra-engine-args '{"block_size":64}' --sla-ttft-ms 500 --sla-itl-ms 30 \
		--report-json $(DEMO)/report.json
	$(DYNOSIM) up -f examples/backends/mocker/deploy/disagg.yaml --http-port 0 -- \
		$(DYNOSIM) load --input-tokens 1000 --output-tokens 50 --request-count 20 --replay-concurrency 4 \
		--report-json $(DEMO)/live.json

.PHONY: build
build:
	$(call need,cc,install a C linker (Debian: apt-get install gcc))
	$(CARGO) build --release --locked --package dynosim

## All checks, as CI runs them.
test:
	$(call need,cc,install a C linker (Debian: apt-get install gcc))
	$(call need,rustfmt,rustup component add rustfmt (Debian: apt-get install rustfmt))
	$(call need,cargo-clippy,rustup component add clippy (Debian: apt-get install rust-clippy))
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	$(CARGO) test --workspace --locked

## Speed and memory on generated traces, and beside the published simulator where it is set up (docs/benchmarks.md).
bench: build
	mkdir -p $(BENCH)
	@for requests in 10000 100000 1000000; do \
		trace=$(BENCH)/$$requests.jsonl; \
		[ -f $$trace ] || $(DYNOSIM) trace generate --requests $$requests --output $$trace; \
		for engine in vllm sglang; do \
			$(DYNOSIM) replay $$trace --num-workers 4 --quiet --report-json $(BENCH)/report.json \
				--extra-engine-args "{\"engine_type\":\"$$engine\",\"block_size\":64}" || exit 1; \
			sed -n "s/.*\"wall_time_ms\": \(.*\)/$$engine, $$requests requests: \1 ms/p" $(BENCH)/report.json; \
		done; \
	done
	@if [ -n "$$DYNOSIM_SHARED" ]; then \
		"$$DYNOSIM_SHARED"/bench/setup 1.6.1 && \
		"$$DYNOSIM_SHARED"/bench/compare --dynosim $(DYNOSIM) a e c10k_rr c100k_rr --rounds 3; \
	else echo "DYNOSIM_SHARED is not set: no comparison with the published simulator"; fi
