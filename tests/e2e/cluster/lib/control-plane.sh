# etcd, API server, controllers, scheduler: in the folder $RUN.

NODE=node-0
POD_CIDR=10.244.0.0/24
SERVICE_CIDR=10.96.0.0/16
API_SERVICE_IP=10.96.0.1
API_PORT=6443
ETCD=http://127.0.0.1:23790
ETCD_PEER=http://127.0.0.1:23800

node_ip() { hostname -I | cut -d ' ' -f 1; }

certificates() {
    local api_names="DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
    api_names+=",DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:$(node_ip),IP:$API_SERVICE_IP"
    key -x509 -days 3650 -subj /CN=cluster-ca -keyout pki/ca.key -out pki/ca.crt
    key -x509 -days 3650 -subj /CN=service-accounts -keyout pki/sa.key -out pki/sa.crt
    certificate apiserver /CN=kube-apiserver "$api_names"
    certificate kubelet "/O=system:nodes/CN=system:node:$NODE" "IP:127.0.0.1,IP:$(node_ip),DNS:$NODE"
    certificate admin /O=system:masters/CN=admin
    certificate controller-manager /CN=system:kube-controller-manager
    certificate scheduler /CN=system:kube-scheduler
    certificate proxy /CN=system:kube-proxy
    local who
    for who in admin controller-manager scheduler kubelet proxy; do kubeconfig $who; done
}

key() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "$@"; }

# name, subject, alternative names
certificate() {
    key -subj "$2" -keyout "pki/$1.key" -out "pki/$1.csr"
    openssl x509 -req -days 3650 -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -out "pki/$1.crt" \
        -extfile <(printf 'keyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n%s\n' "${3:+subjectAltName=$3}")
}

kubeconfig() {
    local config=("$BIN/kubectl" --kubeconfig "conf/$1.kubeconfig" config)
    "${config[@]}" set-cluster local --server="https://127.0.0.1:$API_PORT" --certificate-authority=pki/ca.crt --embed-certs
    "${config[@]}" set-credentials "$1" --client-certificate="pki/$1.crt" --client-key="pki/$1.key" --embed-certs
    "${config[@]}" set-context local --cluster=local --user="$1"
    "${config[@]}" use-context local
}

start_control_plane() {
    local often=(--kube-api-qps=500 --kube-api-burst=1000)
    # Nothing here has to outlive the machine.
    start etcd "$BIN/etcd" --data-dir etcd --unsafe-no-fsync --initial-cluster "default=$ETCD_PEER" \
        --listen-client-urls $ETCD --advertise-client-urls $ETCD \
        --listen-peer-urls $ETCD_PEER --initial-advertise-peer-urls $ETCD_PEER
    start apiserver "$BIN/kube-apiserver" --etcd-servers=$ETCD --authorization-mode=Node,RBAC --allow-privileged=true \
        --bind-address=0.0.0.0 --secure-port=$API_PORT --advertise-address="$(node_ip)" --service-cluster-ip-range=$SERVICE_CIDR \
        --client-ca-file=pki/ca.crt --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key \
        --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key \
        --kubelet-certificate-authority=pki/ca.crt --kubelet-preferred-address-types=InternalIP,Hostname \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file=pki/sa.crt --service-account-signing-key-file=pki/sa.key
    wait_for 120 apiserver kubectl get --raw /readyz
    # Autoscalers act within tests' patience, and thousands of pods are made within it.
    start controller-manager "$BIN/kube-controller-manager" --kubeconfig=conf/controller-manager.kubeconfig --leader-elect=false \
        --root-ca-file=pki/ca.crt --service-account-private-key-file=pki/sa.key --use-service-account-credentials=true \
        --cluster-cidr=$POD_CIDR --allocate-node-cidrs=false --horizontal-pod-autoscaler-sync-period=5s \
        --cluster-signing-cert-file=pki/ca.crt --cluster-signing-key-file=pki/ca.key "${often[@]}"
    start scheduler "$BIN/kube-scheduler" --kubeconfig=conf/scheduler.kubeconfig --leader-elect=false "${often[@]}"
}

stop_control_plane() {
    local name
    for name in scheduler controller-manager apiserver etcd; do stop $name; done
}
