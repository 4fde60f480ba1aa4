#!/bin/bash
# up.sh: a real Kubernetes on this machine (cgroup v1, no registry, no systemd). Idempotent; down.sh ends it.
# setup.sh makes the binaries and images that it needs, once, in $CLUSTER_HOME. Images in $CLUSTER_HOME/images/*.tar and
# $CLUSTER_IMAGES/*.tar are imported at each run when they changed, so a test's own images only have to be put there.
set -euo pipefail
# $CLUSTER_NAME names the network namespace, the cgroup and the folder of state, so that several clusters live side by side: no
# address of one is reachable from, or clashes with, another's or the host's.
# nsenter, not `ip netns exec`: the latter mounts a new /sys, without the cgroups that kubelet needs. See in.sh.
NS=${CLUSTER_NAME:-dormouse}
[ -n "${CLUSTER_INSIDE:-}" ] || { [ -e /run/netns/$NS ] || ip netns add $NS; CLUSTER_INSIDE=1 exec nsenter --net=/run/netns/$NS "$0" "$@"; }
ip link set lo up
HERE=$(cd "$(dirname "$0")" && pwd); ROOT=${CLUSTER_HOME:-$HOME/.cache/dormouse-cluster}; CNIBIN=${CNIBIN:-/usr/lib/cni}
S=$ROOT/run/$NS; PKI=$S/pki; RUN=$S/run; LOG=$S/log; KC=$S/kubeconfig
export PATH=$ROOT/bin:$PATH
# $CLUSTER_NODES nodes, each with a kubelet, a containerd, a cgroup and a bridge of its own: node1, whose files have no suffix, node2 with -2, and so on.
# They share the network namespace, and so one kube-proxy. lose.sh ends one as a power failure does.
NODES=$(seq ${CLUSTER_NODES:-1}); NODEIP=10.250.0.1; PODCIDR=10.244.0.0/16; SVCCIDR=10.96.0.0/16; DNSIP=10.96.0.10
PROXY_MODE=${PROXY_MODE:-nftables}; API=https://$NODEIP:6443
of() { X=-$1; [ $1 != 1 ] || X=; NODE=node$1; IP=10.250.0.$1; CSOCK=$S/containerd$X.sock; } # of N: what node N has
for c in etcd containerd containerd-shim-runc-v2 ctr kube-{apiserver,controller-manager,scheduler,proxy} kubelet kubectl runc nft iptables conntrack ip openssl curl $CNIBIN/bridge; do
  command -v $c >/dev/null || { echo "missing: $c" >&2; exit 1; }; done
T0=$(date +%s%N); say() { printf '%6d ms  %s\n' $((($(date +%s%N)-T0)/1000000)) "$*"; }
mkdir -p $PKI $RUN $LOG $KC $S/etcd; chmod 700 $S $PKI $KC $S/etcd

start() { # start NAME CMD...: run in background unless its pid file names a live process of that binary
  local n=$1; shift
  if [ -f $RUN/$n.pid ] && [ "$(readlink /proc/$(cat $RUN/$n.pid)/exe 2>/dev/null)" = "$(readlink -f "$(command -v $1)")" ]; then return; fi
  setsid nohup "$@" >>$LOG/$n.log 2>&1 </dev/null & echo $! >$RUN/$n.pid; }
wait_for() { # wait_for SECONDS WHAT CMD...
  local n=$(($1*10)) w=$2; shift 2; until "$@" >/dev/null 2>&1; do n=$((n-1)); [ $n -gt 0 ] || { echo "TIMEOUT: $w" >&2; exit 1; }; sleep 0.1; done; say "$w"; }

put() { cat >$1.new; cmp -s $1.new $1 && rm $1.new || mv $1.new $1; } # write only when changed: kube-proxy exits when its config is rewritten

# --- host network: one bridge that only carries the nodes' addresses -------------------------------------------
ip link show kube0 >/dev/null 2>&1 || ip link add kube0 type bridge
for i in $NODES; do ip addr replace 10.250.0.$i/24 dev kube0; done; ip link set kube0 up
ip route replace $SVCCIDR dev kube0 # so that a process of the node can begin to connect to a Service; kube-proxy sends it on to a pod
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1

# --- certificates and kubeconfigs --------------------------------------------------------------------------
ca() { [ -f $PKI/$1.crt ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=$1 \
  -keyout $PKI/$1.key -out $PKI/$1.crt 2>/dev/null; }
crt() { # crt NAME SUBJECT USAGE [SAN] [CA]
  [ -f $PKI/$1.crt ] || { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout $PKI/$1.key -out $PKI/$1.csr 2>/dev/null
  openssl x509 -req -in $PKI/$1.csr -CA $PKI/${5:-ca}.crt -CAkey $PKI/${5:-ca}.key -CAcreateserial -days 3650 -out $PKI/$1.crt \
   -extfile <(echo "extendedKeyUsage=$3"; [ -z "${4:-}" ] || echo "subjectAltName=$4") 2>/dev/null; }; }
ca ca; ca front-proxy-ca
crt apiserver /CN=kube-apiserver serverAuth "IP:$NODEIP,IP:10.96.0.1,IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
crt apiserver-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
crt front-proxy /CN=front-proxy clientAuth "" front-proxy-ca
crt admin /O=system:masters/CN=admin clientAuth
for i in $NODES; do of $i
crt kubelet-serving$X "/O=system:nodes/CN=system:node:$NODE" serverAuth "IP:$IP,DNS:$NODE"
crt kubelet$X "/O=system:nodes/CN=system:node:$NODE" clientAuth
done
crt controller-manager /CN=system:kube-controller-manager clientAuth
crt scheduler /CN=system:kube-scheduler clientAuth
crt proxy /CN=system:kube-proxy clientAuth
crt netpol /CN=netpol clientAuth
[ -f $PKI/sa.key ] || { openssl genrsa -out $PKI/sa.key 2048 2>/dev/null; openssl rsa -in $PKI/sa.key -pubout -out $PKI/sa.pub 2>/dev/null; }
for u in admin $(for i in $NODES; do of $i; echo kubelet$X; done) controller-manager scheduler proxy netpol; do put $KC/$u <<Y
{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
 clusters: [{name: k, cluster: {server: "$API", certificate-authority: $PKI/ca.crt}}],
 users: [{name: u, user: {client-certificate: $PKI/$u.crt, client-key: $PKI/$u.key}}]}
Y
done; ln -sf $KC/admin $S/admin.kubeconfig; export KUBECONFIG=$KC/admin
say "certificates"

# --- etcd, apiserver ---------------------------------------------------------------------------------------
start etcd etcd --data-dir $S/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380 --unsafe-no-fsync
start kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=$NODEIP --advertise-address=$NODEIP --secure-port=6443 \
  --service-cluster-ip-range=$SVCCIDR --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --anonymous-auth=true \
  --client-ca-file=$PKI/ca.crt --tls-cert-file=$PKI/apiserver.crt --tls-private-key-file=$PKI/apiserver.key \
  --service-account-key-file=$PKI/sa.pub --service-account-signing-key-file=$PKI/sa.key --service-account-issuer=https://kubernetes.default.svc.cluster.local \
  --kubelet-client-certificate=$PKI/apiserver-kubelet.crt --kubelet-client-key=$PKI/apiserver-kubelet.key --kubelet-certificate-authority=$PKI/ca.crt \
  --kubelet-preferred-address-types=InternalIP --allow-privileged=true \
  --requestheader-client-ca-file=$PKI/front-proxy-ca.crt --requestheader-allowed-names=front-proxy --requestheader-username-headers=X-Remote-User \
  --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --proxy-client-cert-file=$PKI/front-proxy.crt --proxy-client-key-file=$PKI/front-proxy.key

# --- containerd (while the apiserver starts) ---------------------------------------------------------------
for i in $NODES; do of $i; mkdir -p $S/kubelet$X $S/cni$X
put $S/cni$X/10-bridge.conflist <<Y
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
 {"type": "bridge", "bridge": "cni$((i-1))", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$S/cni-ipam$X", "ranges": [[{"subnet": "10.244.$((i-1)).0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
Y
put $S/containerd$X.toml <<Y
version = 3
root = "$S/containerd$X"
state = "$S/containerd-run$X"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "$CSOCK"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true # this VM has no CAP_SYS_RESOURCE: pause's oom_score_adj -998 would fail in runc
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$CNIBIN"]
    conf_dir = "$S/cni$X"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "${OCI_RUNTIME:-runc}"
      SystemdCgroup = false
Y
start containerd$X containerd -c $S/containerd$X.toml
C="ctr -a $CSOCK -n k8s.io"
wait_for 30 "containerd$X up" $C version
for t in $ROOT/images/*.tar ${CLUSTER_IMAGES:+$CLUSTER_IMAGES/*.tar}; do # import again only when the tar changed
  m=$S/run/img$X.$(basename $t); [ $m -nt $t ] || { $C images import $t >/dev/null 2>&1; touch $m; }; done
say "images of $NODE imported"
done

# --- kubelet, controllers, proxy ---------------------------------------------------------------------------
echo "nameserver 127.0.0.1" >$S/resolv.conf
for i in $NODES; do of $i
put $S/kubelet$X.yaml <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $IP
healthzBindAddress: 127.0.0.1
healthzPort: $((10148 + 100 * i))
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/kubelet-serving$X.crt
tlsPrivateKeyFile: $PKI/kubelet-serving$X.key
containerRuntimeEndpoint: unix://$CSOCK
cgroupDriver: cgroupfs
cgroupRoot: /$NS$X
failCgroupV1: false
failSwapOn: false
clusterDNS: [$DNSIP]
clusterDomain: cluster.local
resolvConf: $S/resolv.conf
podLogsDir: $S/pod-logs$X
imageGCHighThresholdPercent: 100
# A Secret that changed is in its pods within this.
syncFrequency: 10s
evictionHard: {memory.available: 100Mi, nodefs.available: 100Mi, imagefs.available: 100Mi}
Y
for h in /sys/fs/cgroup/*/; do [ -L ${h%/} ] || mkdir -p $h$NS$X 2>/dev/null || true; done # pods' cgroups, apart from those of another cluster
done
put $S/proxy.yaml <<Y
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $KC/proxy}
mode: $PROXY_MODE
clusterCIDR: $PODCIDR
hostnameOverride: node1
nodePortAddresses: [$NODEIP/32]
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0}
Y
wait_for 120 "apiserver /readyz" curl -sf --cacert $PKI/ca.crt $API/readyz
[ "$(curl -s -m1 http://127.0.0.1:10248/healthz || true)" != ok ] || ALREADY=1
for i in $NODES; do of $i
start kubelet$X kubelet --config=$S/kubelet$X.yaml --kubeconfig=$KC/kubelet$X --root-dir=$S/kubelet$X --hostname-override=$NODE --node-ip=$IP
done
start kube-controller-manager kube-controller-manager --kubeconfig=$KC/controller-manager --authentication-kubeconfig=$KC/controller-manager \
  --authorization-kubeconfig=$KC/controller-manager --bind-address=127.0.0.1 --use-service-account-credentials=true --service-account-private-key-file=$PKI/sa.key \
  --root-ca-file=$PKI/ca.crt --cluster-signing-cert-file=$PKI/ca.crt --cluster-signing-key-file=$PKI/ca.key --leader-elect=false \
  --kube-api-qps=500 --kube-api-burst=1000 # default 20/30 makes the first start of the controllers 5 s slower
start kube-scheduler kube-scheduler --kubeconfig=$KC/scheduler --authentication-kubeconfig=$KC/scheduler --authorization-kubeconfig=$KC/scheduler \
  --bind-address=127.0.0.1 --leader-elect=false
start kube-proxy kube-proxy --config=$S/proxy.yaml
T0S=$(date -u -d @$((T0/1000000000)) +%FT%T) # on a re-run etcd still holds the old Ready: also want a heartbeat or lease newer than this run
node_ready() { local r=($(kubectl get node $NODE -o jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}'))
  [ "${r[0]:-}" = True ] && [[ -n "${ALREADY:-}" || "${r[1]}" > $T0S || $(kubectl -n kube-node-lease get lease $NODE -o jsonpath='{.spec.renewTime}') > $T0S ]]; }
for i in $NODES; do of $i; wait_for 120 "$NODE Ready" node_ready; done
wait_for 60 "default service account" kubectl get sa default
for f in $HERE/manifests/*.yaml; do [ ! -f "$f" ] || kubectl apply -f $f >/dev/null; done
[ ! -x $ROOT/bin/netpol ] || start netpol netpol $KC/netpol # NetworkPolicy -> nftables (tools/netpol)
say "done: in.sh COMMAND runs a command in the cluster's network, with kubectl and its admin kubeconfig"
