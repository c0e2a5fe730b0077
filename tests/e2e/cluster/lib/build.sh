# Compiling: each part has a folder with its own go.mod, since their dependencies disagree, and a stamp of its own.

PARTS=(apiserver node helm kwok)

# The folder whose go.mod names the versions of a part.
modules_of() {
    case $1 in
        apiserver) echo kubernetes ;;
        node) echo kubernetes coredns ;;
        helm | kwok) echo "$1" ;;
        *) fail "no part is called $1: there are ${PARTS[*]}" ;;
    esac
}

# What a part is made from.
stamp_of() {
    local folder
    for folder in $(modules_of "$1"); do cat "$HERE/$folder"/go.{mod,sum}; done | cat - "$HERE/lib/build.sh" | sha256sum
}

is_built() { [[ $(cat "$BIN/.$1.stamp" 2>/dev/null) == "$(stamp_of "$1")" ]]; }

build_parts() {
    local part lacks
    lacks=$(lacks_for_build "$@")
    [[ -z $lacks ]] || fail "can't compile Kubernetes without ${lacks//$'\n'/; }"
    mkdir -p "$BIN"
    for part in "$@"; do
        modules_of "$part" >/dev/null
        is_built "$part" && continue
        echo "cluster: compiling $part" >&2
        "build_$part"
        stamp_of "$part" >"$BIN/.$part.stamp"
    done
}

# folder, packages: their programs, under the last parts of their paths
go_install() (
    cd "$HERE/$1"
    CGO_ENABLED=0 go build -mod=readonly -ldflags "-s -w ${FLAGS:-}" -o "$BIN/" "${@:2}"
)

kubernetes() {
    local version minor base=k8s.io/component-base/version client=k8s.io/client-go/pkg/version
    version=$(sed -n 's/^require k8s.io\/kubernetes //p' "$HERE/kubernetes/go.mod")
    minor=${version#v1.} minor=${minor%%.*}
    FLAGS="-X $base.gitVersion=$version -X $base.gitMajor=1 -X $base.gitMinor=$minor -X $client.gitVersion=$version" \
        go_install kubernetes "${@/#/k8s.io/kubernetes/cmd/}"
}

build_apiserver() {
    kubernetes kube-apiserver kubectl
    (cd "$HERE/kubernetes" && CGO_ENABLED=0 go build -mod=readonly -ldflags "-s -w" -o "$BIN/etcd" go.etcd.io/etcd/server/v3)
}

build_node() {
    kubernetes kube-controller-manager kube-scheduler kubelet kube-proxy
    go_install coredns github.com/coredns/coredns
    gcc -Os -static -o "$BIN/pause" "$HERE/pause.c"
}

build_helm() { go_install helm helm.sh/helm/v3/cmd/helm; }

build_kwok() { go_install kwok sigs.k8s.io/kwok/cmd/kwok; }
