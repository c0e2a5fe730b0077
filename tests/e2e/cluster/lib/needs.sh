# What a machine must have.

PACKAGES=(containerd runc containernetworking-plugins iptables conntrack iproute2 openssl python3 gcc libc6-dev)
# Programs of those packages, as witnesses.
NEEDED=(containerd ctr runc iptables conntrack ip openssl python3)
GO_MINOR=25

# What is lacking for one part, or for a node.
missing() {
    if [[ $# == 0 ]]; then
        node_lacks
        lacks_for_build "${PARTS[@]}"
    else
        lacks_for_build "$@"
    fi
}

node_lacks() {
    local program
    [[ $(id -u) == 0 ]] || echo "root"
    for program in "${NEEDED[@]}"; do
        command -v "$program" >/dev/null || echo "$program (apt-get install ${PACKAGES[*]})"
    done
    [[ -x /usr/lib/cni/bridge ]] || echo "CNI plugins (apt-get install containernetworking-plugins)"
    # A container without privileges has root, but may not do what a node must.
    unshare --mount --net true 2>/dev/null || echo "the right to make mounts and networks (a privileged container has it)"
}

# Why these parts can't be compiled, if they have to be.
lacks_for_build() {
    local part
    for part in "$@"; do
        if ! is_built "$part"; then
            if ! command -v go >/dev/null; then
                echo "Go 1.$GO_MINOR or newer"
            elif (($(go_minor) < GO_MINOR)); then
                echo "Go 1.$GO_MINOR or newer (here is $(go env GOVERSION))"
            fi
            command -v gcc >/dev/null || echo "gcc (apt-get install gcc libc6-dev)"
            return
        fi
    done
}

go_minor() { go env GOVERSION | sed 's/^go1\.\([0-9]*\).*/\1/'; }

port_is_free() { ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
