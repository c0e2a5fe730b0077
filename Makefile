# make demo | cluster-demo | test | test-fast | image | kind-demo | bench
.PHONY: demo cluster-demo test test-fast lint image kind-demo bench

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

## All checks, as CI runs them, those on a real cluster included: KUBECONFIG's, or a node of their own (tests/e2e/cluster).
test: lint
	CARGO="$(CARGO)" tests/e2e/run prepare
	CARGO="$(CARGO)" tests/e2e/run tests

## All checks that need no cluster.
test-fast: lint
	$(CARGO) test --workspace --exclude dynosim-e2e --locked

lint:
	$(call need,cc,install a C linker (Debian: apt-get install gcc))
	$(call need,rustfmt,rustup component add rustfmt (Debian: apt-get install rustfmt))
	$(call need,cargo-clippy,rustup component add clippy (Debian: apt-get install rust-clippy))
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

IMAGE ?= localhost/dynosim:dev
# `dev` shares most of what the tests compile.
IMAGE_PROFILE ?= release
PROGRAM_FOLDER = target/$(if $(filter dev,$(IMAGE_PROFILE)),debug,$(IMAGE_PROFILE))
# As it lies on a node. The program for tests may be larger.
IMAGE_LIMIT_MB := 30
STAGE := target/image
BUILDAH := buildah --root $(CURDIR)/$(STAGE)/storage --runroot $(CURDIR)/$(STAGE)/storage-run --storage-driver vfs

## An image of one static program: as target/image/dynosim.tar and, if Docker runs, in Docker. Else buildah makes it.
image:
	$(call need,cc,install a C compiler (Debian: apt-get install gcc libc6-dev))
	rm -rf $(STAGE)
	mkdir -p $(STAGE)/root/usr/bin $(STAGE)/root/workspace
	mkdir -m 1777 $(STAGE)/root/tmp
	$(CARGO) rustc --profile $(IMAGE_PROFILE) --locked --package dynosim-image -- \
		-C target-feature=+crt-static -C strip=symbols -C link-arg=-Wl,-z,pack-relative-relocs
	install $(PROGRAM_FOLDER)/dynosim-image $(STAGE)/root/usr/bin/dynosim
	ln -s dynosim $(STAGE)/root/usr/bin/dynosim-operator
	ln -s dynosim $(STAGE)/root/usr/bin/python3
	# The built-in model: a worker that finds it complete writes nothing.
	TMPDIR=$(CURDIR)/$(STAGE)/root/tmp $(STAGE)/root/usr/bin/dynosim up -f examples/backends/mocker/deploy/agg.yaml \
		--http-port 0 -- true
	if docker info >/dev/null 2>&1; then \
		docker build --tag $(IMAGE) --file Dockerfile $(STAGE) && \
		docker save --output $(STAGE)/dynosim.tar $(IMAGE); \
	else \
		$(BUILDAH) build --isolation chroot --tag $(IMAGE) --file Dockerfile $(STAGE) && \
		$(BUILDAH) push --quiet $(IMAGE) docker-archive:$(STAGE)/dynosim.tar:$(IMAGE); \
	fi
	rm -rf $(STAGE)/storage $(STAGE)/storage-run
	@size=$$(($$(stat --format=%s $(STAGE)/dynosim.tar) / 1000000)); \
	echo "$(IMAGE): $$size MB in $(STAGE)/dynosim.tar"; \
	[ $(IMAGE_PROFILE) != release ] || [ $$size -le $(IMAGE_LIMIT_MB) ] || \
		{ echo "make: the image is larger than $(IMAGE_LIMIT_MB) MB" >&2; exit 1; }

## Two graphs on a cluster: KUBECONFIG's, whose nodes can get IMAGE; or a node of this machine, which goes up for it and,
## unless KEEP=1, down again.
ifdef KUBECONFIG
cluster-demo:
	$(call need,kubectl,see https://kubernetes.io/docs/tasks/tools)
	$(call need,helm,see https://helm.sh)
	IMAGE=$(IMAGE) examples/cluster-demo
else
CLUSTER := tests/e2e/cluster/cluster
cluster-demo:
	$(CLUSTER) build apiserver node helm
	$(MAKE) image
	$(if $(filter 1,$(KEEP)),$(CLUSTER) up)
	$(CLUSTER) run bash -c '$(CLUSTER) load $(STAGE)/dynosim.tar && IMAGE=$(IMAGE) examples/cluster-demo'
	@$(if $(filter 1,$(KEEP)),echo "The node is up: eval \"\$$($(CLUSTER) env)\"; $(CLUSTER) down ends it",echo "A node that went up for this is down again")
endif

## For people with Docker and kind: a cluster of three nodes, the image on them, and the tests on it. It stays up.
kind-demo: image
	$(call need,kind,see https://kind.sigs.k8s.io)
	$(call need,docker,kind runs nodes in Docker)
	kind get clusters | grep -qx dynosim || kind create cluster --config kind-config.yaml --wait 120s
	kind load image-archive $(STAGE)/dynosim.tar --name dynosim
	kind get kubeconfig --name dynosim >$(STAGE)/kubeconfig
	KUBECONFIG=$(CURDIR)/$(STAGE)/kubeconfig DYNOSIM_IMAGE=$(IMAGE) $(CARGO) test --package dynosim-e2e --locked
	@echo "The cluster stays: KUBECONFIG=$(STAGE)/kubeconfig; kind delete cluster --name dynosim removes it"

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
