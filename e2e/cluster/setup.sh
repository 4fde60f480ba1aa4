#!/bin/bash
# setup.sh: from a clean Debian 12 machine to everything that up.sh and the tests need, in $CLUSTER_HOME (bin/, images/).
# What is there is kept: each tool lies in a folder named by a hash of its go.mod, go.sum, sources and flags, and bin/ links to
# it, so a version bump rebuilds that tool alone. About 20 minutes on two cores the first time, nearly all of it compiling
# Kubernetes. Needs root, go, gcc, python3.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd); ROOT=${CLUSTER_HOME:-$HOME/.cache/dormouse-cluster}; B=$ROOT/bin; I=$ROOT/images; S=$ROOT/store
mkdir -p "$B" "$I" "$S"
exec 9>"$ROOT/.setup.lock"; flock 9 # two runs at once would build the same thing twice
want='runc containernetworking-plugins iptables nftables conntrack ipset ethtool iproute2 openssl curl ca-certificates busybox-static util-linux'
dpkg -s $want >/dev/null 2>&1 || { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends $want >/dev/null; }
GOV=$(go env GOVERSION); digest() { sha256sum | cut -c1-16; }
build() { # build MODULE PACKAGE[=NAME]...: from tools/MODULE's go.mod and go.sum, so versions and sums are pinned
  local m=$1 p out dir; shift
  dir=$S/$m-$( (cd "$HERE/tools/$m" && cat go.mod go.sum $(ls *.go 2>/dev/null || true); echo "$GOV ${LDX:-} ${TAGS:-}") | digest); mkdir -p "$dir"
  for p in "$@"; do
    out=$dir/${p##*=}; [ "$p" != "${p##*=}" ] || out=$dir/$(basename "$p")
    [ -x "$out" ] || { echo "building $(basename "$out")"
      (cd "$HERE/tools/$m" && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w ${LDX:-}" ${TAGS:+-tags "$TAGS"} -o "$out.new" "${p%%=*}" && mv "$out.new" "$out"); }
    [ -x "$out" ] || return 1
    [ "$(readlink "$B/$(basename "$out")")" = "$out" ] || { ln -sfn "$out" "$B/.new"; mv -T "$B/.new" "$B/$(basename "$out")"; }
  done; }
K=k8s.io/kubernetes; V=$(cd "$HERE/tools/kubernetes" && go list -m -f '{{.Version}}' $K)
X=k8s.io/component-base/version
LDX="-X $X.gitVersion=$V -X $X.gitMajor=1 -X $X.gitMinor=$(echo "$V" | cut -d. -f2)" build kubernetes $K/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kubectl,kube-proxy}
build etcd go.etcd.io/etcd/server/v3=etcd
C=github.com/containerd/containerd/v2/cmd; TAGS="no_btrfs no_devmapper no_zfs" build containerd $C/containerd $C/containerd-shim-runc-v2 $C/ctr
build coredns .=coredns
build netpol .=netpol
build minio github.com/minio/minio
build versitygw github.com/versity/versitygw/cmd/versitygw
build transit .=transit
build helm helm.sh/helm/v4/cmd/helm
# Without these, their tests say so and are skipped; where $CI is set they fail.
build helm-unittest github.com/helm-unittest/helm-unittest/cmd/helm-unittest || echo "helm-unittest cannot be built"
build kube-score github.com/zegl/kube-score/cmd/kube-score || echo "kube-score cannot be built"
build kubeconform github.com/yannh/kubeconform/cmd/kubeconform || echo "kubeconform cannot be built"
build kubectl-validate sigs.k8s.io/kubectl-validate || echo "kubectl-validate cannot be built"
build promql .=promql || echo "promql cannot be built"

image() { # image FILE NAME:TAG ENTRYPOINT FILES...: again when one of the files changed
  local tar=$I/$1.tar key f; shift
  key=$( (cat "$HERE/images/mkimage.py"; echo "$@"; for f in "${@:3}"; do f=${f%%:*}; [ ! -f "$f" ] || sha256sum <"$f"; done) | digest)
  [ "$(cat "$tar.key" 2>/dev/null)" = "$key" ] || { python3 "$HERE/images/mkimage.py" "$1" "$tar.new" "${@:2}"; mv "$tar.new" "$tar"; echo "$key" >"$tar.key"; }; }
T=$S/images; mkdir -p "$T"
gcc -Os -static -s -o "$T/pause" "$HERE/images/pause/pause.c"
(cd "$HERE/images/app" && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$T/app" .)
image pause localhost/pause:1 /pause "$T/pause" --user 65535
image app localhost/app:1 /app "$T/app"
image coredns localhost/coredns:1.15.0 /coredns "$B/coredns"
image minio localhost/minio:1 /minio "$B/minio" --user 65532
image busybox localhost/busybox:1 /bin/sh /bin/busybox:/bin/busybox $(for c in sh ls cat wget nslookup nc ps sleep id ip ping env kill top mount free; do echo "@:/bin/$c=/bin/busybox"; done)
echo "ready: $B"
