//! Keeps certificates fresh that no object of a tenant is behind (the gateways' and the operator's own), and lets one authority follow another.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use dormouse_control::rotation::{Stage, Step, step};
use dormouse_service::tls::PeerClient;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::{
    ca::{CaError, wait_until},
    context::Context,
};

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(15);
/// The same while one authority follows another.
const EVERY_ON_THE_WAY: Duration = Duration::from_secs(1);

/// Times that one certificate is made anew in one stage before nobody waits for it any more: whoever undoes what is made for it, or lets nobody write it,
/// would hold up all others.
const TRIES_MAX: u32 = 3;

/// How far the certificates of a stage have come.
#[derive(Default)]
struct Progress {
    /// Of the stage.
    fingerprint: String,
    /// How often each Secret, by namespace and name, was not as it should be.
    tries: HashMap<(String, String), u32>,
    /// Since when all are.
    since: Option<Instant>,
}

/// Runs until `shutdown`. `own_due` is when the operator's own certificate is to be made anew.
pub(crate) async fn run(context: Arc<Context>, mut own_due: Timestamp, shutdown: CancellationToken) {
    let mut own = context.authority.fingerprint();
    // Who begins reconciles every pool and broker, and looks at their certificates: there is no need to look twice.
    let since = (context.authority.stage().0 == Stage::Settled).then(Instant::now);
    let mut progress = Progress { fingerprint: own.clone(), since, ..Progress::default() };
    loop {
        let every = if context.authority.stage().0 == Stage::Settled { EVERY } else { EVERY_ON_THE_WAY };
        if shutdown.run_until_cancelled(tokio::time::sleep(wait_until(own_due, every))).await.is_none() {
            return;
        }
        if let Err(error) = turn(&context, &mut progress).await {
            tracing::warn!(%error, "certificates");
        }
        let now = context.authority.fingerprint();
        if own_due > Timestamp::now() && own == now {
            continue;
        }
        match renewed(&context) {
            Ok(due) => (own, own_due) = (now, due),
            Err(error) => tracing::warn!(%error, "the operator's certificate"),
        }
    }
}

/// Gives the operator another certificate, with which it asks and answers from now on.
fn renewed(context: &Context) -> Result<Timestamp, CaError> {
    let (tls, due) = context.authority.operator_tls()?;
    *context.peers.write().unwrap_or_else(PoisonError::into_inner) = PeerClient::new(tls.clone())?;
    context.tls.send_replace(tls);
    Ok(due)
}

async fn turn(context: &Context, progress: &mut Progress) -> Result<(), CaError> {
    let authority = &context.authority;
    authority.refresh().await?;
    // What is in no Secret nobody finds there: pods that run one session are to trust it, too.
    for session in context.grants.take_others(&authority.fingerprint()) {
        context.hub.tell(&session.namespace, &session.name).await;
    }
    // The others follow.
    if !context.shard.is_first() {
        return Ok(());
    }
    authority.ensure_gateway(&context.config.door_names).await?;
    let fingerprint = authority.fingerprint();
    if progress.fingerprint != fingerprint {
        *progress = Progress { fingerprint, ..Progress::default() };
    }
    let (stage, is_due) = authority.stage();
    let next = |since: Option<Instant>| step(stage, is_due, since.map(|since| since.elapsed()), context.config.certificates.overlap());
    if progress.since.is_some() && next(progress.since) == Step::Stay {
        return Ok(());
    }
    // Also before each step: a Secret that was made beside the last look may be of the stage before.
    if !progress.all_made(context).await? {
        progress.since = None;
        return Ok(());
    }
    match next(Some(*progress.since.get_or_insert_with(Instant::now))) {
        Step::Stay => return Ok(()),
        Step::Announce => authority.announce().await?,
        Step::Switch => authority.switch().await?,
        Step::Finish => authority.finish().await?,
    }
    tracing::info!(stage = ?authority.stage().0, authority = authority.fingerprint(), "one certificate authority follows another");
    Ok(())
}

impl Progress {
    /// Makes every certificate anew that is not of this stage, whoever uses it. Whether there was none that somebody has to wait for.
    async fn all_made(&mut self, context: &Context) -> Result<bool, CaError> {
        let mut all = true;
        for leaf in context.authority.leaves(&context.config.door_names).await? {
            let refusal = match context.authority.ensured(&leaf).await {
                Ok(ensured) if !ensured.made => continue,
                Ok(_) => None,
                // Its namespace is on its way out, say, or the Secret may not be written.
                Err(CaError::Kube(kube::Error::Api(status))) if (400..500).contains(&status.code) && status.code != 429 => {
                    Some(status.message)
                }
                Err(CaError::Certificate(error)) => Some(error.to_string()),
                Err(error) => return Err(error),
            };
            let tries = self.tries.entry((leaf.namespace.clone(), leaf.secret.clone())).or_default();
            *tries += 1;
            all &= *tries > TRIES_MAX;
            if refusal.is_some() || *tries > 1 {
                tracing::warn!(
                    namespace = leaf.namespace,
                    secret = leaf.secret,
                    tries = *tries,
                    refusal,
                    "a certificate that does not last"
                );
            }
        }
        Ok(all)
    }
}
