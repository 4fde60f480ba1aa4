//! A large object in parts: what a slow or broken way to the store costs again is one part, and the time that it is given is its own.

use aws_sdk_s3::{
    primitives::ByteStream,
    types::{CompletedMultipartUpload, CompletedPart},
};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use super::S3;
use crate::{Condition, ETag, PutError, StoreError};

/// Bytes of an object from which on it is put in parts.
pub const PARTS_FROM_BYTES: usize = 32 << 20;

/// Bytes of a part. S3 takes no smaller one than 5 MiB but the last.
pub const PART_BYTES: usize = 8 << 20;

/// Parts of one object that are on their way at once.
const PARTS_IN_FLIGHT_MAX: usize = 4;

impl S3 {
    /// Puts an object that nothing replaces later, in parts. What was begun and failed is given up, so that it costs nothing; of a process that
    /// ends in between, parts stay until the bucket's rule for incomplete uploads removes them.
    pub(crate) async fn put_parts(&self, key: &str, bytes: &Bytes, absent: bool) -> Result<ETag, PutError> {
        let created = self.client.create_multipart_upload().bucket(&self.place.bucket).key(key).send().await;
        let created = created.map_err(|error| self.place.classify_put(&error, false))?;
        let upload = created.upload_id().ok_or_else(|| PutError::Unknown(self.unexpected("no id of an upload")))?;
        let put = self.put_and_complete(key, upload, bytes, absent).await;
        if put.is_err() {
            // Whether it is heard or not, nothing rests on it.
            let _ = self.client.abort_multipart_upload().bucket(&self.place.bucket).key(key).upload_id(upload).send().await;
        }
        put
    }

    async fn put_and_complete(&self, key: &str, upload: &str, bytes: &Bytes, absent: bool) -> Result<ETag, PutError> {
        let count = bytes.len().div_ceil(PART_BYTES);
        let parts = futures::stream::iter((0..count).map(|part| {
            let body = bytes.slice(part * PART_BYTES..((part + 1) * PART_BYTES).min(bytes.len()));
            self.put_part(key, upload, part, body)
        }));
        let parts: Vec<CompletedPart> = parts.buffered(PARTS_IN_FLIGHT_MAX).try_collect().await?;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = self.once.complete_multipart_upload().bucket(&self.place.bucket).key(key).upload_id(upload).multipart_upload(parts);
        let complete = if absent { complete.if_none_match("*") } else { complete };
        let done = complete.send().await.map_err(|error| self.place.classify_put(&error, false))?;
        done.e_tag().map(ToOwned::to_owned).ok_or_else(|| PutError::Unknown(self.unexpected("no ETag in the answer")))
    }

    async fn put_part(&self, key: &str, upload: &str, part: usize, body: Bytes) -> Result<CompletedPart, PutError> {
        let number = i32::try_from(part + 1).unwrap_or(i32::MAX);
        let time = Self::timeouts(body.len());
        let request = self.client.upload_part().bucket(&self.place.bucket).key(key).upload_id(upload).part_number(number);
        let sent = request.body(ByteStream::from(body)).customize().config_override(time).send().await;
        let sent = sent.map_err(|error| self.place.classify_put(&error, false))?;
        Ok(CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag().map(ToOwned::to_owned)).build())
    }

    fn unexpected(&self, reason: &str) -> StoreError {
        StoreError::Unexpected { operation: "write", endpoint: self.place.endpoint.clone(), reason: reason.to_owned() }
    }
}

/// Whether an object of so many bytes goes in parts under this condition: what replaces another is small.
pub(crate) fn in_parts(bytes: usize, condition: &Condition) -> bool {
    bytes >= PARTS_FROM_BYTES && !matches!(condition, Condition::Matches(_))
}
