# One program and nothing else: no shell, no libraries. `make image` puts it in target/image/root and builds this.
FROM scratch
COPY root/ /
ENV PATH=/usr/bin
# Manifests start `python3 -m dynamo.mocker` and the like from here: python3 is another name of dynosim, and so is
# dynosim-operator.
WORKDIR /workspace
# By number, as Kubernetes wants it where a pod must not be root. Nothing has to be written anywhere.
USER 1000:1000
LABEL org.opencontainers.image.title="dynosim" org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.description="Simulated LLM serving graphs, and the operator that runs them"
ENTRYPOINT ["/usr/bin/dynosim"]
