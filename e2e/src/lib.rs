//! The whole-cluster story, against a real Kubernetes.
