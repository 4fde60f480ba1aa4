#!/bin/bash
# in.sh COMMAND...: runs a command in the cluster's network namespace, with kubectl on PATH and the admin kubeconfig.
ROOT=${CLUSTER_HOME:-$HOME/.cache/dormouse-cluster}; NS=${CLUSTER_NAME:-dormouse}
export KUBECONFIG=$ROOT/run/$NS/admin.kubeconfig PATH=$ROOT/bin:$PATH
exec nsenter --net=/run/netns/$NS "$@"
