//! S3 and what speaks like it.

mod parts;

use std::time::Duration;

use aws_sdk_s3::{
    Client, Config,
    config::{
        BehaviorVersion, IdentityCache, Region, RequestChecksumCalculation, ResponseChecksumValidation, SharedHttpClient,
        retry::RetryConfig, timeout::TimeoutConfig,
    },
    error::ProvideErrorMetadata as _,
    primitives::ByteStream,
};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider as TlsProvider, TlsContext, TrustStore, rustls_provider::CryptoMode},
};
use bytes::Bytes;
use futures::future::join_all;

use crate::{
    Condition, ETag, KeyPage, ListFrom, OBJECT_BYTES_MAX, Object, PutError, SnapshotStore, StoreError,
    credentials::{CredentialSource, Provider},
    held::Held,
    resolver::Resolver,
    s3_errors::BucketAddress,
};

use self::parts::in_parts;
pub use self::parts::{PART_BYTES, PARTS_FROM_BYTES};

/// To open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// To the first byte of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// One attempt, its body sent.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
/// The slowest way to the service for which a body is given the time.
const UPLOAD_BYTES_PER_SECOND_MIN: u64 = 512 << 10;
/// Attempts of a request that changes nothing, or the same thing again.
const IDEMPOTENT_ATTEMPTS_MAX: u32 = 3;

/// A bucket and how to reach it.
#[derive(Debug, Clone)]
pub struct S3Options {
    /// URL of the service.
    pub endpoint: String,
    /// Region.
    pub region: String,
    /// Bucket.
    pub bucket: String,
    /// Credentials.
    pub credentials: CredentialSource,
}

/// A bucket. Objects are addressed by path (`endpoint/bucket/key`), which every service has.
#[derive(Debug, Clone)]
pub struct S3 {
    /// Retries what is harmless to repeat.
    pub(crate) client: Client,
    /// Never retries: whether a PUT took place is the caller's to find out.
    pub(crate) once: Client,
    pub(crate) place: BucketAddress,
}

impl S3 {
    /// A client. Nothing is sent before the first request.
    #[must_use]
    pub fn new(options: &S3Options) -> Self {
        let http = http_client(&options.endpoint);
        let base = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .endpoint_url(&options.endpoint)
            .region(Region::new(options.region.clone()))
            .force_path_style(true)
            .http_client(http)
            .credentials_provider(Provider::new(options.credentials.clone()))
            // The provider has its own idea of how fresh credentials must be.
            .identity_cache(IdentityCache::no_cache())
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT_TIMEOUT)
                    .read_timeout(READ_TIMEOUT)
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .build(),
            );
        let retrying = base.clone().retry_config(RetryConfig::standard().with_max_attempts(IDEMPOTENT_ATTEMPTS_MAX)).build();
        let once = base.retry_config(RetryConfig::disabled()).build();
        Self {
            client: Client::from_conf(retrying),
            once: Client::from_conf(once),
            place: BucketAddress { endpoint: options.endpoint.clone(), bucket: options.bucket.clone() },
        }
    }

    /// Creates the bucket; also a success when this account has it already.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn create_bucket(&self) -> Result<(), StoreError> {
        match self.client.create_bucket().bucket(&self.place.bucket).send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_bucket_already_owned_by_you()) => Ok(()),
            Err(error) => Err(self.place.classify("create the bucket", &error)),
        }
    }

    async fn get_once(&self, key: &str, bytes_max: u64) -> Result<Option<Object>, StoreError> {
        let answer = match self.client.get_object().bucket(&self.place.bucket).key(key).send().await {
            Ok(answer) => answer,
            Err(error) if error.as_service_error().is_some_and(|e| e.is_no_such_key()) => return Ok(None),
            Err(error) => return Err(self.place.classify("read", &error)),
        };
        let unexpected =
            |reason: &str| StoreError::Unexpected { operation: "read", endpoint: self.place.endpoint.clone(), reason: reason.to_owned() };
        let length =
            answer.content_length().and_then(|length| u64::try_from(length).ok()).ok_or_else(|| unexpected("no content length"))?;
        if length > bytes_max {
            return Err(StoreError::TooLarge { key: key.to_owned(), bytes: length, bytes_max });
        }
        let etag = answer.e_tag().ok_or_else(|| unexpected("no ETag"))?.to_owned();
        let body = answer.body.collect().await.map_err(|error| StoreError::Unavailable {
            operation: "read",
            endpoint: self.place.endpoint.clone(),
            reason: error.to_string(),
        })?;
        Ok(Some(Object { bytes: body.into_bytes(), etag }))
    }

    /// What a request may take whose body has so many bytes: the client's times, and that of the body over a slow way.
    pub(crate) fn timeouts(bytes: usize) -> aws_sdk_s3::config::Builder {
        let body = Duration::from_secs(bytes as u64 / UPLOAD_BYTES_PER_SECOND_MIN);
        let times = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT + body)
            .operation_attempt_timeout(ATTEMPT_TIMEOUT + body);
        Config::builder().timeout_config(times.build())
    }

    async fn put_once(&self, key: &str, bytes: Bytes, condition: Condition, held: Option<Held>) -> Result<ETag, PutError> {
        let length = bytes.len() as u64;
        if length > OBJECT_BYTES_MAX {
            return Err(PutError::Failed(StoreError::TooLarge { key: key.to_owned(), bytes: length, bytes_max: OBJECT_BYTES_MAX }));
        }
        let request = self.once.put_object().bucket(&self.place.bucket).key(key).body(ByteStream::from(bytes));
        let matches = matches!(condition, Condition::Matches(_));
        let request = match condition {
            Condition::None => request,
            Condition::Absent => request.if_none_match("*"),
            Condition::Matches(etag) => request.if_match(etag),
        };
        let time = Self::timeouts(usize::try_from(length).unwrap_or(usize::MAX));
        let answer = match held {
            Some(held) => request.customize().interceptor(held).send().await,
            None if length < UPLOAD_BYTES_PER_SECOND_MIN => request.send().await,
            None => request.customize().config_override(time).send().await,
        };
        match answer {
            Ok(answer) => answer.e_tag().map(ToOwned::to_owned).ok_or_else(|| {
                PutError::Unknown(StoreError::Unexpected {
                    operation: "write",
                    endpoint: self.place.endpoint.clone(),
                    reason: "no ETag in the answer".to_owned(),
                })
            }),
            Err(error) => Err(self.place.classify_put(&error, matches)),
        }
    }
}

fn http_client(endpoint: &str) -> SharedHttpClient {
    let builder = Builder::new().tls_provider(TlsProvider::Rustls(CryptoMode::AwsLc));
    let builder = match TlsContext::builder().with_trust_store(TrustStore::empty()).build() {
        // Without the system's certificates, which take longer to load than a session to wake.
        Ok(plain) if endpoint.starts_with("http://") => builder.tls_context(plain),
        _ => builder,
    };
    builder.build_with_resolver(Resolver)
}

#[async_trait::async_trait]
impl SnapshotStore for S3 {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.get_within(key, OBJECT_BYTES_MAX).await
    }

    async fn get_within(&self, key: &str, bytes_max: u64) -> Result<Option<Object>, StoreError> {
        let mut attempt = 1;
        loop {
            match self.get_once(key, bytes_max.min(OBJECT_BYTES_MAX)).await {
                // The SDK retries requests, not bodies that break off.
                Err(error) if error.is_transient() && attempt < IDEMPOTENT_ATTEMPTS_MAX => attempt += 1,
                // S3 answers so for a key that is not there when the credentials' right to list is limited to a prefix.
                Err(denied @ StoreError::Denied { .. }) => {
                    return match self.list(key).await {
                        Ok(keys) if !keys.iter().any(|k| k == key) => Ok(None),
                        _ => Err(denied),
                    };
                }
                result => return result,
            }
        }
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        if in_parts(bytes.len(), &condition) && bytes.len() as u64 <= OBJECT_BYTES_MAX {
            return self.put_parts(key, &bytes, matches!(condition, Condition::Absent)).await;
        }
        self.put_once(key, bytes, condition, None).await
    }

    async fn race(&self, key: &str, bodies: Vec<Bytes>, condition: Condition) -> Vec<Result<ETag, PutError>> {
        let held = Held::new(bodies.len());
        join_all(bodies.into_iter().map(|body| self.put_once(key, body, condition.clone(), Some(held.clone())))).await
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        // The header is a path in a URL; keys are of characters that stand for themselves there, and '/'.
        let source = format!("{}/{from}", self.place.bucket);
        match self.client.copy_object().bucket(&self.place.bucket).copy_source(source).key(to).send().await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("NoSuchKey") => Ok(false),
            // As for a read: without the right to list, what is not there is denied.
            Err(error) => match self.place.classify("copy", &error) {
                denied @ StoreError::Denied { .. } => match self.list(from).await {
                    Ok(keys) if !keys.iter().any(|key| key == from) => Ok(false),
                    _ => Err(denied),
                },
                failed => Err(failed),
            },
        }
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        match self.client.delete_object().bucket(&self.place.bucket).key(key).send().await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.place.classify("delete", &error)),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut pages = self.client.list_objects_v2().bucket(&self.place.bucket).prefix(prefix).into_paginator().send();
        let mut keys = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.place.classify("list", &error))?;
            keys.extend(page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key));
        }
        Ok(keys)
    }

    async fn list_page(&self, prefix: &str, from: ListFrom<'_>, keys_max: Option<u16>) -> Result<KeyPage, StoreError> {
        let request = self.client.list_objects_v2().bucket(&self.place.bucket).prefix(prefix).set_max_keys(keys_max.map(i32::from));
        let request = match from {
            ListFrom::Start => request,
            ListFrom::Next(token) => request.continuation_token(token),
            ListFrom::After(key) => request.start_after(key),
        };
        let page = request.send().await.map_err(|error| self.place.classify("list", &error))?;
        let keys = page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key).collect();
        Ok(KeyPage { keys, next: page.next_continuation_token })
    }
}
