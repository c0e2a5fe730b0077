# The node: containerd, kubelet, kube-proxy and DNS, in the folder $RUN. DNS is a process of the node, at an address of its own.

DNS_IP=169.254.20.10

ctr_k8s() { ctr --address "$RUN/containerd.sock" --namespace k8s.io "$@"; }

start_node() {
    sysctl -qw net.ipv4.ip_forward=1
    write_node_configuration
    start containerd containerd --config conf/containerd.toml
    wait_for 60 containerd ctr_k8s version
    "$HERE/mkimage" localhost/pause:1 pause.tar '["/pause"]' "$BIN/pause=/pause"
    load "$RUN/pause.tar"
    start kubelet "$BIN/kubelet" --config=conf/kubelet.yaml --kubeconfig=conf/kubelet.kubeconfig \
        --hostname-override=$NODE --root-dir="$RUN/kubelet" --node-ip="$(node_ip)"
    start proxy "$BIN/kube-proxy" --config=conf/proxy.yaml
    ip address show dev lo | grep -q " $DNS_IP/" || ip address add $DNS_IP/32 dev lo
    start dns "$BIN/coredns" -conf conf/Corefile
    wait_for 120 kubelet kubectl wait --for=condition=Ready "node/$NODE" --timeout=1s
    # Pods can't be made before their namespace has its service account.
    wait_for 60 controller-manager kubectl get serviceaccount default
}

write_node_configuration() {
    cat >cni/10-bridge.conflist <<J
{"cniVersion": "1.0.0", "name": "local", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$POD_CIDR"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$RUN/ipam"}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
J
    # A machine that is a container itself may lack CAP_SYS_RESOURCE, without which no score can be lowered.
    cat >conf/containerd.toml <<T
version = 2
root = "$RUN/containerd/root"
state = "$RUN/containerd/state"
[grpc]
  address = "$RUN/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$RUN/cni"
T
    # A kubelet of 1.35 starts on cgroup v1 only if told to.
    local fail_cgroup_v1=false
    [[ ! -f /sys/fs/cgroup/cgroup.controllers ]] || fail_cgroup_v1=true
    cat >conf/kubelet.yaml <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: $fail_cgroup_v1
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://$RUN/containerd.sock
clusterDomain: cluster.local
clusterDNS: [$DNS_IP]
failSwapOn: false
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $RUN/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $RUN/pki/kubelet.crt
tlsPrivateKeyFile: $RUN/pki/kubelet.key
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
maxPods: 250
serializeImagePulls: false
podLogsDir: $RUN/podlogs
Y
    cat >conf/proxy.yaml <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: $POD_CIDR
hostnameOverride: $NODE
clientConnection: {kubeconfig: $RUN/conf/proxy.kubeconfig}
conntrack: {maxPerCore: 0}
iptables: {minSyncPeriod: 0.2s}
Y
    cat >conf/Corefile <<C
cluster.local in-addr.arpa {
  bind $DNS_IP
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $RUN/conf/admin.kubeconfig
  }
  cache 2
}
C
}

stop_node() {
    local name pid networks
    for name in dns proxy kubelet; do stop $name; done
    # Pods go with all that they hold: nothing of them is of use any more.
    networks=$(ctr_k8s containers ls -q 2>/dev/null | xargs -rn1 ctr --address "$RUN/containerd.sock" -n k8s.io containers info 2>/dev/null |
        grep -o '/run/netns/cni-[0-9a-f-]*' | sort -u || true)
    for pid in $(ctr_k8s tasks ls 2>/dev/null | awk 'NR > 1 { print $2 }'); do kill -9 "$pid" 2>/dev/null || true; done
    sleep 0.5
    for pid in $(cat containerd/state/io.containerd.runtime.v2.task/*/*/shim.pid 2>/dev/null); do
        case $(readlink "/proc/$pid/exe") in *containerd-shim*) kill -9 "$pid" 2>/dev/null || true ;; esac
    done
    stop containerd
    awk -v run="$RUN/" 'index($2, run) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount --lazy
    for name in $networks; do ip netns delete "${name##*/}" 2>/dev/null || true; done
    ip link delete cni0 2>/dev/null || true
    ip address delete $DNS_IP/32 dev lo 2>/dev/null || true
    [[ ! -x $BIN/kube-proxy ]] || "$BIN/kube-proxy" --cleanup --proxy-mode iptables >/dev/null 2>&1 || true
    # Only what is empty can be removed: the kubelet's folders of control groups.
    find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
}
