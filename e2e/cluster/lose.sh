#!/bin/bash
# lose.sh N: node N, not the first, ends as in a power failure. Its processes are gone at once, and nothing answers any more, not even with a refusal.
set -euo pipefail
NS=${CLUSTER_NAME:-dormouse}; [ "$1" -gt 1 ]
[ -n "${CLUSTER_INSIDE:-}" ] || { CLUSTER_INSIDE=1 exec nsenter --net=/run/netns/$NS "$0" "$@"; }
S=${CLUSTER_HOME:-$HOME/.cache/dormouse-cluster}/run/$NS; P=10.244.$(($1 - 1)).0/24
nft add table ip lost
for c in input output forward; do
  nft add chain ip lost $c "{ type filter hook $c priority -200; }"
  nft add rule ip lost $c ip saddr $P drop; nft add rule ip lost $c ip daddr $P drop
done
kill -9 $(cat $S/run/kubelet-$1.pid) $(cat $S/run/containerd-$1.pid)
for h in /sys/fs/cgroup/*/; do # the last of them may have gone meanwhile
  find $h$NS-$1 -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u | xargs -r kill -9 2>/dev/null || true
done
