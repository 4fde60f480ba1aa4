//! Real processes for tests: S3 server, API server; temp folders, fault injection.
