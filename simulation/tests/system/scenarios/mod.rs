//! One promise each, and the schedule that puts it to the test.
//!
//! A scenario that is ignored says what it does not show yet: whoever mends that removes the line.

mod approvals;
mod calls;
mod cells;
mod contents;
mod migrations;
mod modes;
mod power;
mod rolled_back;
mod routing;
mod timers;
mod wedges;

use std::time::Duration;

use dormouse_crds::session::KernelSessionSpec;

use crate::{
    chaos::Rates,
    client::Client,
    world::{self, GatewayHandle, PodHandle, World},
};

/// What most scenarios begin with.
struct Stage {
    world: World,
    client: Client,
    gateway: GatewayHandle,
    pod: PodHandle,
}

/// A world with a pod, a broker, a gateway and a session `s` of this spec.
async fn stage(world: World, spec: &KernelSessionSpec) -> Stage {
    let pod = world.pod("p1").await;
    world.broker("b1");
    let gateway = world.gateway("g1");
    let client = Client::new(&world, "client");
    client.create(&gateway, "s", spec).await;
    Stage { world, client, gateway, pod }
}

/// Runs a scenario in a world where nothing fails but what it says.
fn scenario<F: Future<Output = ()>>(scenario: impl FnOnce(World) -> F + Send + 'static) {
    world::run(1, Rates::QUIET, None, |world| async move {
        let chaos = world.chaos.clone();
        let shown = Shown(chaos);
        scenario(world).await;
        std::mem::forget(shown);
    });
}

/// Prints what happened when a scenario fails, if that is wanted.
struct Shown(crate::chaos::Chaos);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::env::var_os("DORMOUSE_TRACE").is_some() {
            let trace = self.0.trace();
            eprintln!("{}", trace[trace.len().saturating_sub(200)..].join("\n"));
        }
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn millis(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
