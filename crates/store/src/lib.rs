//! SnapshotStore: S3, folder, memory. The only user of the S3 SDK.
