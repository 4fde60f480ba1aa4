#!/bin/bash
# down.sh [--wipe]: stop everything up.sh started (by pid file), remove pods, networks, mounts; --wipe also deletes its folder
set -u
NS=${CLUSTER_NAME:-dormouse}; [ -e /run/netns/$NS ] || exit 0
[ -n "${CLUSTER_INSIDE:-}" ] || { CLUSTER_INSIDE=1 nsenter --net=/run/netns/$NS "$0" "$@"; exec ip netns del $NS; }
ROOT=${CLUSTER_HOME:-$HOME/.cache/dormouse-cluster}; S=$ROOT/run/$NS; RUN=$S/run; export PATH=$ROOT/bin:$PATH
alive() { [ -d /proc/$1 ] && ! grep -q '^State:.Z' /proc/$1/status 2>/dev/null; }
stop() { # stop NAME...: TERM all that are ours, then wait for each (KILL after W/10 s)
  local n p; for n in "$@"; do p=$(cat $RUN/$n.pid 2>/dev/null) || continue
    case "$(readlink /proc/$p/exe 2>/dev/null)" in */${n%-[0-9]}) kill $p;; *) rm -f $RUN/$n.pid;; esac; done
  for n in "$@"; do p=$(cat $RUN/$n.pid 2>/dev/null) || continue
    for _ in $(seq ${W:-100}); do alive $p || break; sleep 0.1; done; alive $p && kill -9 $p; rm -f $RUN/$n.pid; done; }
NODES=$(cd $S && for t in containerd*.toml; do t=${t%.toml}; echo "x${t#containerd}"; done) # x of node1, x-2 of node2, and so on
stop netpol $(for x in $NODES; do echo kubelet${x#x}; done) kube-proxy kube-scheduler kube-controller-manager
W=5 stop kube-apiserver; stop etcd # the apiserver takes 60 s to drain after SIGTERM; its state is in etcd
for x in $NODES; do X=${x#x}; C="ctr -a $S/containerd$X.sock -n k8s.io"
if $C version >/dev/null 2>&1; then
  nets=$($C containers ls -q)
  for t in $($C tasks ls -q); do $C tasks kill -s SIGKILL $t 2>/dev/null; done; sleep 0.5
  for c in $nets; do $C tasks rm -f $c >/dev/null 2>&1; $C containers rm $c >/dev/null 2>&1; done
fi
stop containerd$X
for p in /proc/[0-9]*; do # shims of our containerd socket that are left
  { tr '\0' ' ' <$p/cmdline; } 2>/dev/null | grep -q "containerd-shim-runc-v2 .*-address $S/containerd$X.sock" && kill -9 ${p#/proc/} 2>/dev/null; done
done
mount | awk -v s="$S/" 'index($3,s)==1 {print $3}' | sort -r | xargs -r -n1 umount -l
for i in $(ls /sys/class/net | grep '^cni[0-9]') kube0; do ip link del $i 2>/dev/null; done
for t in 'ip kube-proxy' 'ip6 kube-proxy' 'ip netpol' 'ip lost'; do nft delete table $t 2>/dev/null; done
iptables-save 2>/dev/null | grep -qE 'KUBE-|CNI-' && for t in nat filter mangle; do # drop only our chains
  iptables-save -t $t | grep -vE 'KUBE-|CNI-' | iptables-restore -T $t; done
for x in $NODES; do for h in /sys/fs/cgroup/*/; do find ${h}$NS${x#x} -depth -type d -exec rmdir {} + 2>/dev/null; done; done
rm -rf $S/cni-ipam* $S/containerd-run* $S/run/*.pid
[ "${1:-}" != --wipe ] || rm -rf $S
true
