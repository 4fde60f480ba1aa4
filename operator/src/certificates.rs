//! Keeps certificates fresh that no object of a tenant is behind (the gateways' and the operator's own), and lets one authority follow another.

use std::{
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

/// Everybody's certificate is of the stage with this fingerprint, since then.
type Held = Option<(String, Instant)>;

/// Runs until `shutdown`. `own_due` is when the operator's own certificate is to be made anew.
pub(crate) async fn run(context: Arc<Context>, mut own_due: Timestamp, shutdown: CancellationToken) {
    let (mut own, mut held) = (context.authority.fingerprint(), None);
    loop {
        let every = if context.authority.stage().0 == Stage::Settled { EVERY } else { EVERY_ON_THE_WAY };
        if shutdown.run_until_cancelled(tokio::time::sleep(wait_until(own_due, every))).await.is_none() {
            return;
        }
        if let Err(error) = turn(&context, &mut held).await {
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

async fn turn(context: &Context, held: &mut Held) -> Result<(), CaError> {
    let authority = &context.authority;
    authority.refresh().await?;
    // The others follow.
    if !context.shard.is_first() {
        return Ok(());
    }
    authority.ensure_gateway(&context.config.door_names).await?;
    let (stage, is_due) = authority.stage();
    if stage == Stage::Settled && !is_due && held.as_ref().is_some_and(|(of, _)| *of == authority.fingerprint()) {
        return Ok(());
    }
    if authority.spread().await? > 0 {
        // Whoever was made anew is looked at once more: a Secret that was made beside this may be of the stage before.
        *held = None;
        return Ok(());
    }
    let of = authority.fingerprint();
    let since = match held.take() {
        Some((known, since)) if known == of => since,
        _ => Instant::now(),
    };
    *held = Some((of, since));
    match step(stage, is_due, Some(since.elapsed()), context.config.certificates.overlap()) {
        Step::Stay => return Ok(()),
        Step::Announce => authority.announce().await?,
        Step::Switch => authority.switch().await?,
        Step::Finish => authority.finish().await?,
    }
    tracing::info!(stage = ?authority.stage().0, authority = authority.fingerprint(), "one certificate authority follows another");
    Ok(())
}
