//! What every process needs: telemetry, metrics, probes, TLS, shutdown.
