//! What can be done to sessions, free of HTTP: each function is one verb of the API.

use std::{collections::BTreeMap, sync::Arc};

use dormouse_crds::session::{BOOTSTRAP_BYTES_MAX, CHECKPOINTS_KEEP_MAX, KernelSessionSpec};
use dormouse_lifecycle::json;
use dormouse_protocol::{
    ApiError, ErrorCode,
    kernel::{SessionCall, SessionReport},
    session::{CreateSession, Session, SessionList},
};
use futures::{StreamExt as _, stream};

use crate::{
    directory::{DirectoryError, Key, NewSession, Record, Selector, SessionPatch, merge_patch},
    in_flight::{Asleep, InFlight},
    kernels::KernelError,
    metrics::Source,
    names::check_name,
    problem::of_directory,
    quota,
    router::Router,
    state::{view, view_archived, view_with},
};

/// Sessions on a page of a list, unless the client says otherwise.
pub const PAGE_DEFAULT: usize = 100;
/// Most sessions on a page of a list.
pub const PAGE_MAX: usize = 500;
/// Large specs of a page that are read at once.
const LIST_READS_MAX: usize = 8;
/// Bytes of a page after which it ends early: specs may be as large as an object of Kubernetes.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// What a token begins with that names a page of the archive: no session's name does.
const ARCHIVE_TOKEN: &str = "/";
/// Tries to place a name that was generated.
const NAME_TRIES_MAX: u32 = 4;

/// What to do when a session of the name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Answer with it.
    Return,
    /// Refuse.
    Refuse,
}

/// Whether a session was made.
#[derive(Debug)]
pub enum Created {
    /// It is new.
    New(Session),
    /// It was there.
    Old(Session),
}

/// Makes a session.
pub async fn create(router: &Router, namespace: &str, body: CreateSession, existing: Existing) -> Result<Created, ApiError> {
    check_name(namespace, "namespace")?;
    check_spec(&body.spec)?;
    let named = body.name.is_some();
    if let Some(name) = &body.name {
        check_name(name, "name")?;
    }
    let mut tries = 0;
    loop {
        let key = Key::new(namespace, body.name.clone().unwrap_or_else(generated_name));
        let making = match quota::admit_session(router, &key).await {
            Ok(making) => Some(making),
            // One that exists is answered, or refused for that.
            Err(_) if named && router.directory().get(&key).is_some() => None,
            Err(error) => return Err(error),
        };
        let new = NewSession { key: key.clone(), labels: body.labels.clone(), spec: body.spec.clone() };
        tries += 1;
        let made = router.directory().create(new).await;
        if let (Some(making), Err(error)) = (making, &made)
            && !matches!(error, DirectoryError::AlreadyExists | DirectoryError::Unavailable(_))
        {
            making.failed();
        }
        match made {
            Ok(record) => return Ok(Created::New(shown(router, &record).await?)),
            Err(DirectoryError::AlreadyExists) if !named && tries < NAME_TRIES_MAX => {}
            Err(DirectoryError::AlreadyExists) if existing == Existing::Return => {
                let seen = router.directory().look(&key).await.map_err(|error| of_directory(error, &key))?;
                if seen.archived {
                    return Ok(Created::Old(view_archived(&seen.record)));
                }
                let record = seen.record;
                if record.deleting {
                    let message = format!("session `{}` is being deleted: create it again when it is gone", key.name);
                    return Err(ApiError::new(ErrorCode::Conflict, message));
                }
                return Ok(Created::Old(shown(router, &record).await?));
            }
            // Right after a request from this very gateway a name that is not found can only be the namespace's.
            Err(DirectoryError::NotFound) => return Err(of_directory(DirectoryError::NamespaceNotFound, &key)),
            // A session of this name may be there now; without a name that the client knows, sending it again could make a second one.
            Err(error @ DirectoryError::Unavailable(_)) if !named => return Err(made_or_not(of_directory(error, &key), &key)),
            Err(error) => return Err(of_directory(error, &key)),
        }
    }
}

fn made_or_not(error: ApiError, key: &Key) -> ApiError {
    let message = format!("{}. Session `{}` may have been made: send the request again with this name", error.message, key.name);
    ApiError::new(ErrorCode::OutcomeUnknown, message).with_detail("name", key.name.clone())
}

/// Reads a session: as its process has it, where that answers. What status says of a session that is merely busy is behind.
pub async fn get(router: &Router, key: &Key) -> Result<Session, ApiError> {
    let record = match router.directory().get(key) {
        Some(record) => record,
        None => {
            let seen = router.directory().look(key).await.map_err(|error| of_directory(error, key))?;
            if seen.archived {
                return Ok(view_archived(&seen.record));
            }
            seen.record
        }
    };
    if record.deleting {
        return Err(of_directory(DirectoryError::NotFound, key));
    }
    let record = router.whole(&record).await?;
    let Some(route) = router.placed(&record, 0) else { return Ok(view(&record)) };
    let call = SessionCall { uid: record.uid.clone(), epoch: route.placement.epoch, boot: route.placement.boot.clone() };
    Ok(match router.kernels().session(&route.pod, &call).await {
        Ok(report) => reported(router, &record, &report),
        Err(error) => {
            tracing::debug!(session = %key, %error, "the pod does not tell how the session is; status does");
            view(&record)
        }
    })
}

/// A page of the sessions of a namespace: in order of their names, and behind them those that are in the archive, in its order.
pub async fn list(
    router: &Router,
    namespace: &str,
    limit: Option<usize>,
    after: Option<&str>,
    selector: &str,
) -> Result<SessionList, ApiError> {
    let limit = limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let after = after.map(read_token).transpose()?;
    let selector = Selector::parse(selector).map_err(|error| {
        ApiError::new(ErrorCode::InvalidRequest, format!("labelSelector: {error}")).with_detail("path", "labelSelector")
    })?;
    if let Some(after) = after.as_deref().and_then(|after| after.strip_prefix(ARCHIVE_TOKEN)) {
        return list_archived(router, namespace, limit, after, &selector).await;
    }
    let records = router.directory().list(Some(namespace));
    let mut fitting = records
        .iter()
        .filter(|record| !record.deleting && after.as_deref().is_none_or(|after| record.key.name.as_str() > after))
        .filter(|record| selector.fits(&record.labels));
    let page: Vec<Arc<Record>> = fitting.by_ref().take(limit).cloned().collect();
    let reads = page.clone().into_iter().map(|record| async move { shown(router, &record).await });
    let mut reads = stream::iter(reads).buffered(LIST_READS_MAX);
    let (mut items, mut bytes, mut last) = (Vec::new(), 0, None);
    let mut left = page.iter();
    while bytes < PAGE_BYTES_MAX
        && let Some(item) = reads.next().await
    {
        last = left.next();
        match item {
            Ok(item) => {
                bytes += json::bytes(&item);
                items.push(item);
            }
            // It has gone meanwhile.
            Err(error) if error.code == ErrorCode::SessionNotFound => {}
            Err(error) => return Err(error),
        }
    }
    let more = left.len() > 0 || fitting.next().is_some();
    if more || !router.directory().has_archive() {
        // Behind what was read, not what is shown: all of a page may have gone.
        let continue_token = last.filter(|_| more).map(|last| hex::encode(&last.key.name));
        return Ok(SessionList { items, continue_token });
    }
    if items.len() < limit && bytes < PAGE_BYTES_MAX {
        match list_archived(router, namespace, limit - items.len(), "", &selector).await {
            Ok(archived) => {
                items.extend(archived.items);
                return Ok(SessionList { items, continue_token: archived.continue_token });
            }
            Err(error) if items.is_empty() => return Err(error),
            // Whoever asks for the next page learns why there is none.
            Err(_) => {}
        }
    }
    Ok(SessionList { items, continue_token: Some(hex::encode(ARCHIVE_TOKEN)) })
}

/// The same of those that are in the archive, which may hide behind a session that got their name. A page may have fewer than fit, and others follow.
async fn list_archived(router: &Router, namespace: &str, limit: usize, after: &str, selector: &Selector) -> Result<SessionList, ApiError> {
    let after = Some(after.to_owned()).filter(|after| !after.is_empty());
    let key = Key::new(namespace, "");
    let page = router.directory().archived(namespace, after, limit).await.map_err(|error| of_directory(error, &key))?;
    let shown =
        page.sessions.into_iter().filter(|archived| selector.fits(&archived.labels) && router.directory().get(&archived.key).is_none());
    let items = shown.map(|archived| view_archived(&archived.record())).collect();
    Ok(SessionList { items, continue_token: page.next.map(|next| hex::encode(format!("{ARCHIVE_TOKEN}{next}"))) })
}

/// Changes spec or labels of a session by merge patches.
pub async fn patch(
    router: &Router,
    key: &Key,
    spec: Option<serde_json::Value>,
    labels: Option<BTreeMap<String, Option<String>>>,
) -> Result<Session, ApiError> {
    let record = router.whole(&router.find(key).await?).await?;
    if let Some(patch) = &spec {
        let mut patched = serde_json::to_value(&record.spec).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
        merge_patch(&mut patched, patch);
        let patched: KernelSessionSpec = serde_path_to_error::deserialize(patched).map_err(|error| {
            let path = format!("spec.{}", error.path());
            ApiError::new(ErrorCode::InvalidRequest, format!("{path}: {}", error.inner())).with_details(serde_json::json!({ "path": path }))
        })?;
        check_spec(&patched)?;
        if patched.source != record.spec.source {
            let message = "spec.source: a session is forked when it is made: leave source as it is, or make another session";
            return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_details(serde_json::json!({ "path": "spec.source" })));
        }
    }
    let patched = router.directory().patch(key, SessionPatch { spec, labels }).await;
    shown(router, &patched.map_err(|error| of_directory(error, key))?).await
}

/// Begins to delete a session.
pub async fn delete(router: &Router, key: &Key) -> Result<(), ApiError> {
    router.directory().delete(key).await.map_err(|error| of_directory(error, key))
}

/// Makes a session live; answers when it is so.
pub async fn wake(router: &Router, key: &Key) -> Result<Session, ApiError> {
    let (report, route) = router.wake(key, Source::Request).await?;
    Ok(reported(router, &route.record, &report))
}

/// Puts a session to sleep; answers when it is so.
pub async fn hibernate(router: &Router, key: &Key) -> Result<Session, ApiError> {
    let record = router.find(key).await?;
    // A session that never ran has nothing to keep yet: only its first start makes something that can sleep.
    if record.status.placement.is_none() && record.status.snapshot.is_none() {
        wake(router, key).await?;
    }
    let (record, report) = hibernate_once(router, key).await?;
    Ok(match report {
        Some(report) => reported(router, &record, &report),
        None => view(&record),
    })
}

/// Orders the process that has the session, if any, to put it to sleep. Never places it anywhere: without a process it sleeps already.
pub async fn hibernate_once(router: &Router, key: &Key) -> Result<(Arc<Record>, Option<SessionReport>), ApiError> {
    let mut in_flight = InFlight::new(Asleep::Accept, Source::Mode);
    loop {
        let record = router.whole(&router.find_same(key, &mut in_flight).await?).await?;
        let Some(route) = router.placed(&record, in_flight.attempts.lost_epoch()) else { return Ok((record, None)) };
        match router.kernels().hibernate(&route.pod, &route.assignment()).await {
            Ok(report) => return Ok((record, Some(report))),
            Err(error) => router.failed(&mut in_flight, &route, error).await?,
        }
    }
}

/// Ends the running cell of a session. A cell may await while its session sleeps: then it is woken for that. One that never ran awaits nothing.
pub async fn interrupt(router: &Router, key: &Key) -> Result<(), ApiError> {
    let record = router.find(key).await?;
    if record.status.placement.is_none() && record.status.snapshot.is_none() {
        return Ok(());
    }
    let mut in_flight = InFlight::new(Asleep::Refuse, Source::Request);
    loop {
        let route = router.place(key, &mut in_flight).await?;
        match router.kernels().interrupt(&route.pod, &route.assignment()).await {
            Ok(()) => return Ok(()),
            // A second one might meet the cell behind the one that was meant.
            Err(error @ (KernelError::Lost(_) | KernelError::CutOff | KernelError::Garbled(_))) => {
                tracing::warn!(session = %key, %error, "an interrupt may not have arrived");
                return Err(ApiError::new(ErrorCode::SessionGone, "the session's kernel pod did not confirm the interrupt: send it again"));
            }
            Err(error) => router.failed(&mut in_flight, &route, error).await?,
        }
    }
}

/// The session as it is written down, with all of its spec.
async fn shown(router: &Router, record: &Arc<Record>) -> Result<Session, ApiError> {
    let whole = router.whole(record).await?;
    Ok(view(&whole))
}

pub(crate) fn reported(router: &Router, record: &Record, report: &SessionReport) -> Session {
    view_with(record, report, router.clock().now())
}

fn generated_name() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("s-{}", random.get(..10).unwrap_or(&random))
}

fn read_token(token: &str) -> Result<String, ApiError> {
    let name = hex::decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    name.ok_or_else(|| {
        ApiError::new(ErrorCode::InvalidRequest, "`continue` is not a token that a list answered with: leave it out to begin anew")
    })
}

/// What no directory checks everywhere: in a cluster the API server knows more rules.
fn check_spec(spec: &KernelSessionSpec) -> Result<(), ApiError> {
    if spec.idle_seconds == 0 {
        let details = serde_json::json!({ "path": "spec.idleSeconds" });
        return Err(ApiError::new(ErrorCode::InvalidRequest, "spec.idleSeconds: write 1 or more").with_details(details));
    }
    if spec.checkpoints.keep > CHECKPOINTS_KEEP_MAX {
        let details = serde_json::json!({ "path": "spec.checkpoints.keep" });
        let message = format!("spec.checkpoints.keep: write 0 to {CHECKPOINTS_KEEP_MAX}");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message).with_details(details));
    }
    let refuse =
        |path: &str, message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, format!("{path}: {message}")).with_detail("path", path));
    if let Some(bootstrap) = &spec.bootstrap
        && (bootstrap.code.is_empty() == bootstrap.config_map_ref.is_none()
            || bootstrap.config_map_ref.as_ref().is_some_and(|reference| reference.key.is_none()))
    {
        return refuse("spec.bootstrap", "write either code, or configMapRef: {name: …, key: …}");
    }
    if let Some(code) = spec.bootstrap.as_ref().map(|bootstrap| &bootstrap.code)
        && code.len() > BOOTSTRAP_BYTES_MAX
    {
        let message = format!("it has {} bytes, and {BOOTSTRAP_BYTES_MAX} are allowed: import what is large", code.len());
        return refuse("spec.bootstrap.code", &message);
    }
    if spec.ttl.retained_seconds > 0 && spec.ttl.active_seconds == 0 {
        return refuse("spec.ttl", "retainedSeconds counts from the end of activeSeconds: write both, or neither");
    }
    if let Some(source) = &spec.source {
        check_name(&source.session, "spec.source.session")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for good in ["a", "s-1", "0", &"x".repeat(63)] {
            assert!(check_name(good, "name").is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "..", &"x".repeat(64)] {
            assert!(check_name(bad, "name").is_err(), "{bad}");
        }
        assert!(check_name(&generated_name(), "name").is_ok());
    }

    #[test]
    fn bootstrap_code_is_bounded_in_bytes() {
        let of = |code: String| {
            let bootstrap = Some(dormouse_crds::session::Bootstrap { code, config_map_ref: None });
            check_spec(&KernelSessionSpec { bootstrap, ..KernelSessionSpec::default() })
        };
        // Characters of four bytes: a quarter as many.
        of("\u{10348}".repeat(BOOTSTRAP_BYTES_MAX / 4)).unwrap();
        let refused = of("\u{10348}".repeat(BOOTSTRAP_BYTES_MAX / 4) + "x").unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidRequest);
        assert!(refused.message.contains("262145 bytes") && refused.details.unwrap()["path"] == "spec.bootstrap.code");
    }

    #[test]
    fn a_continue_token_is_its_name_again() {
        assert_eq!(read_token(&hex::encode("abc")).unwrap(), "abc");
        assert_eq!(read_token("zz").unwrap_err().code, ErrorCode::InvalidRequest);
    }
}
