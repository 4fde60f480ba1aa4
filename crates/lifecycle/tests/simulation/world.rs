//! One run: who acts next is drawn, and nobody knows what the others know.

use crate::{
    brokers::{self, Came},
    check::{Violation, must},
    collector::{self, Beside},
    mutant::{Lie, Mutant},
    outside::{Existence, Outside, Request},
    process::{End, Process},
    sweeper::{Eraser, Sweep},
};

/// Processes alive at most.
const PROCESSES_MAX: usize = 4;

/// Sweeps under way at most.
const SWEEPS_MAX: usize = 3;

/// Gateways, each with its own, older or newer, copy of the status.
const GATEWAYS: usize = 3;

/// Actions under faults.
const ACTIONS: usize = 260;

/// Actions after which the session is made at the latest.
const MADE_LATE_MAX: usize = 60;

/// Steps within which everything must come to rest once faults have stopped.
const QUIET_STEPS_MAX: usize = 2_000;

/// The record that routes: which process, under which epoch.
#[derive(Clone, Copy, Default)]
struct Status {
    version: u64,
    epoch: u64,
    boot: Option<u64>,
    /// What processes have told of, with some delay.
    anchor: Option<(u64, u64)>,
}

/// A write of status under way. Its request may have left already.
struct Patch {
    gateway: usize,
    /// What the gateway had read.
    seen: Status,
    boot: u64,
    request: Request,
    /// Whether the process began under the claim.
    claimed: bool,
}

/// What a run came to.
#[derive(Debug, Default, Clone)]
pub struct Summary {
    pub acked: usize,
    pub effects: usize,
    pub swept: (u64, u64),
    pub epochs: u64,
    pub segments: usize,
    pub erased: bool,
    pub litter: bool,
    /// Objects of it that were collected.
    pub collected: u64,
    /// Whether it was in the archive.
    pub archived: bool,
    /// Claims that were confirmed and withdrawn.
    pub claims: (u64, u64),
    pub calls: Came,
    pub cut: std::collections::BTreeSet<&'static str>,
    pub version: (u64, u64),
}

struct World {
    out: Outside,
    status: Status,
    gateways: [Status; GATEWAYS],
    processes: Vec<Process>,
    patches: Vec<Patch>,
    claims: (u64, u64),
    boots: u64,
    eraser: Option<Eraser>,
    beside: Beside,
}

/// Runs one seed.
pub fn run(seed: u64, mutant: Option<Mutant>, lie: Option<Lie>) -> Result<Summary, Violation> {
    let mut world = World {
        out: Outside::new(seed, mutant, lie),
        status: Status::default(),
        gateways: [Status::default(); GATEWAYS],
        processes: Vec::new(),
        patches: Vec::new(),
        claims: (0, 0),
        boots: 0,
        eraser: None,
        beside: Beside::new(seed),
    };
    // Now and then an older version's session is there before anybody writes a name.
    if seed % 6 == 1 {
        collector::stores(&mut world.out);
    }
    collector::join(&mut world.out);
    let made = if seed % 5 == 3 { world.beside.random.below(MADE_LATE_MAX) } else { 0 };
    let deletes = seed.is_multiple_of(4);
    for action in 0..ACTIONS {
        if action == made {
            world.out.exists = Existence::Live;
        }
        if deletes && action == ACTIONS * 2 / 3 {
            world.out.exists = Existence::Deleting;
            world.eraser = Some(Eraser::default());
        }
        world.act()?;
        world.beside.step(&mut world.out)?;
    }
    world.come_to_rest()?;
    world.goes_back(seed)?;
    Ok(world.summary())
}

impl World {
    fn act(&mut self) -> Result<(), Violation> {
        match self.out.random.below(46) {
            0 => self.crash(),
            1 => drop(self.out.store.deliver_late(&mut self.out.random, &mut self.out.checks)?),
            2 => {
                let gateway = self.out.random.below(GATEWAYS);
                self.status.anchor = self.out.reported;
                self.gateways[gateway] = self.status;
            }
            3 | 4 => self.sweep()?,
            6 | 7 => self.erase()?,
            8..=14 => self.ask()?,
            15..=17 => self.patch()?,
            5 | 40..=45 => brokers::step(&mut self.out)?,
            _ => self.step_process()?,
        }
        Ok(())
    }

    fn crash(&mut self) {
        if !self.processes.is_empty() {
            let at = self.out.random.below(self.processes.len());
            let process = self.processes.swap_remove(at);
            self.out.cut.insert(process.step_name());
        }
    }

    /// The client sends something through some gateway.
    fn ask(&mut self) -> Result<(), Violation> {
        if self.out.exists == Existence::NotYet || self.out.checks.is_erased() {
            // There is no such object.
            return Ok(());
        }
        self.bring_back();
        if let Some(request) = self.out.client.sends(&mut self.out.random) {
            let gateway = self.out.random.below(GATEWAYS);
            self.route(gateway, request)?;
        }
        Ok(())
    }

    /// A gateway makes its object again, if it is in the archive.
    fn bring_back(&mut self) {
        if self.out.exists == Existence::Archived {
            self.out.exists = Existence::Live;
        }
    }

    fn route(&mut self, gateway: usize, request: Request) -> Result<(), Violation> {
        let known = self.gateways[gateway];
        let believed_lost = self.out.store.faults && self.out.random.one_in(12);
        // Who has said that the session is not there is not asked again under the same epoch.
        let here = |p: &Process| Some(p.boot) == known.boot && p.gone < known.epoch;
        let at = self.processes.iter().position(here).filter(|_| !believed_lost);
        if let Some(at) = at {
            self.processes[at].hears(known.anchor);
            self.processes[at].mailbox.push_back((request, known.epoch));
            // Whichever gateway wrote it, it is what was claimed.
            return self.processes[at].confirm(&mut self.out, known.epoch);
        }
        if self.patches.iter().any(|patch| patch.gateway == gateway) {
            // One at a time; the client asks again.
            return Ok(());
        }
        let (boot, epoch) = (self.place(), known.epoch + 1);
        let process = self.processes.iter_mut().find(|p| p.boot == boot).filter(|p| p.may_claim(epoch));
        let claimed = process.is_some();
        if let Some(process) = process {
            (process.epoch, process.claim) = (epoch, Some(epoch));
            process.hears(known.anchor);
            process.mailbox.push_back((request, epoch));
        }
        self.patches.push(Patch { gateway, seen: known, boot, request, claimed });
        Ok(())
    }

    /// The API server answers a write of status, or the gateway that waits for it dies.
    fn patch(&mut self) -> Result<(), Violation> {
        if self.patches.is_empty() {
            return Ok(());
        }
        let at = self.out.random.below(self.patches.len());
        let Patch { gateway, seen, boot, request, claimed } = self.patches.swap_remove(at);
        let dies = self.out.store.faults && self.out.random.one_in(6);
        let arrives = !dies || self.out.random.one_in(2);
        let patched = Status { version: self.status.version + 1, epoch: seen.epoch + 1, boot: Some(boot), anchor: self.status.anchor };
        let written = arrives && (self.status.version == seen.version || self.out.is(Mutant::StatusWithoutCas));
        if written {
            self.status = patched;
            self.out.checks.assign(boot, patched.epoch);
        }
        // Who lost follows; who died begins anew, and its connection to the process is cut off.
        self.gateways[gateway] = self.status;
        let Some(process) = self.processes.iter_mut().find(|p| p.boot == boot) else { return Ok(()) };
        match (written && !dies, claimed) {
            (true, true) => {
                self.claims.0 += 1;
                process.hears(patched.anchor);
                process.confirm(&mut self.out, patched.epoch)?;
            }
            (true, false) => {
                if process.is_idle() && matches!(process.phase, crate::process::Phase::Asleep) {
                    process.epoch = process.epoch.max(patched.epoch);
                }
                process.hears(patched.anchor);
                process.mailbox.push_back((request, patched.epoch));
                process.confirm(&mut self.out, patched.epoch)?;
            }
            (false, true) => {
                self.claims.1 += 1;
                process.withdraw(&mut self.out, patched.epoch);
            }
            (false, false) => {}
        }
        Ok(())
    }

    /// A process for the session: a new one, or one that had it before.
    fn place(&mut self) -> u64 {
        if self.processes.len() >= 2 && self.out.random.one_in(3) {
            let at = self.out.random.below(self.processes.len());
            return self.processes[at].boot;
        }
        if self.processes.len() >= PROCESSES_MAX {
            self.crash();
        }
        self.boots += 1;
        self.processes.push(Process::new(self.boots, 0));
        self.boots
    }

    fn step_process(&mut self) -> Result<(), Violation> {
        if self.processes.is_empty() {
            return Ok(());
        }
        let at = self.out.random.below(self.processes.len());
        self.step_at(at)
    }

    fn step_at(&mut self, at: usize) -> Result<(), Violation> {
        let process = &mut self.processes[at];
        if let End::Leaves = process.step(&mut self.out)? {
            // The process lives on without the session; asked again, it begins anew.
            let (boot, epoch) = (process.boot, process.epoch);
            self.processes[at] = Process::new(boot, epoch);
            self.processes[at].gone = epoch;
        }
        Ok(())
    }

    fn sweep(&mut self) -> Result<(), Violation> {
        if self.out.sweeps.len() < SWEEPS_MAX && self.out.random.one_in(6) {
            let sweep = Sweep::read(&mut self.out);
            self.out.sweeps.extend(sweep);
        }
        if self.out.sweeps.is_empty() {
            return Ok(());
        }
        let at = self.out.random.below(self.out.sweeps.len());
        let mut sweep = self.out.sweeps.swap_remove(at);
        if sweep.step(&mut self.out)? {
            self.out.sweeps.push(sweep);
        }
        Ok(())
    }

    fn erase(&mut self) -> Result<(), Violation> {
        let Some(mut eraser) = self.eraser.take() else { return Ok(()) };
        if self.out.store.faults && self.out.random.one_in(12) {
            self.out.cut.insert(eraser.step_name());
            eraser = Eraser::default();
        }
        if matches!(eraser, Eraser::Done) {
            // The finalizer goes, and the object with it.
            self.out.exists = Existence::Gone;
            return Ok(());
        }
        eraser.step(&mut self.out)?;
        self.eraser = Some(eraser);
        Ok(())
    }

    /// Faults stop: whatever is under way ends, a last owner finds everything, and nothing else is left.
    fn come_to_rest(&mut self) -> Result<(), Violation> {
        self.out.store.faults = false;
        while self.out.store.deliver_late(&mut self.out.random, &mut self.out.checks)? {}
        self.settle()?;
        self.settle_calls()?;
        self.beside.collects_once(&mut self.out)?;
        if self.out.checks.is_erased() {
            // Beside another cluster nobody knows whose it is.
            return if collector::are_alone(&self.out) { self.out.checks.nothing_is_left(&self.out.store.objects) } else { Ok(()) };
        }
        self.processes.clear();
        self.gateways[0] = self.status;
        let before = self.out.checks.acked();
        self.out.client = crate::outside::Client::after(&self.out.client);
        self.bring_back();
        self.ask_until_acked(before)?;
        self.settle()?;
        self.settle_calls()?;
        self.out.checks.nothing_is_left_over(&self.out.store.objects)
    }

    /// When all is well and told, somebody puts the head before the last one back, or takes the head away. The next owner must not go on from that.
    fn goes_back(&mut self, seed: u64) -> Result<(), Violation> {
        if self.out.checks.is_erased() {
            return Ok(());
        }
        self.status.anchor = self.out.reported;
        self.gateways[0] = self.status;
        self.processes.clear();
        self.out.store.go_back(&crate::outside::session().head(), seed.is_multiple_of(3));
        let before = self.out.checks.acked();
        self.out.client = crate::outside::Client::after(&self.out.client);
        if let Some(request) = self.out.client.sends(&mut self.out.random) {
            self.route(0, request)?;
        }
        self.settle()?;
        must(self.out.checks.acked() == before, "a rolled back head is not believed", || "a cell was acked".to_owned())
    }

    /// Until every call has ended.
    fn settle_calls(&mut self) -> Result<(), Violation> {
        for _ in 0..QUIET_STEPS_MAX {
            if self.out.brokers.are_idle() {
                return Ok(());
            }
            brokers::step(&mut self.out)?;
        }
        must(false, "every call ends when faults stop", || format!("{:?}", self.out.brokers.arriving))
    }

    fn ask_until_acked(&mut self, before: usize) -> Result<(), Violation> {
        for _ in 0..QUIET_STEPS_MAX {
            if self.out.checks.acked() > before {
                return Ok(());
            }
            if let Some(request) = self.out.client.sends(&mut self.out.random) {
                self.route(0, request)?;
            }
            self.settle()?;
        }
        must(false, "every session runs when faults stop", || "no cell is answered".to_owned())
    }

    /// Until nobody has anything to do.
    fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..QUIET_STEPS_MAX {
            let busy = self.processes.iter().position(|p| !p.is_idle());
            match busy {
                Some(at) => self.step_at(at)?,
                None if !self.patches.is_empty() => self.patch()?,
                None if !self.out.sweeps.is_empty() => self.sweep()?,
                None if self.eraser.is_some() => self.erase()?,
                None => return Ok(()),
            }
        }
        must(false, "everything comes to rest when faults stop", || "somebody is still busy".to_owned())
    }

    fn summary(self) -> Summary {
        let head = self.out.store.objects.get(&crate::outside::session().head());
        let head = head.and_then(|(bytes, _)| dormouse_lifecycle::Head::decode(bytes).ok());
        Summary {
            acked: self.out.checks.acked(),
            effects: self.out.checks.effects(),
            swept: self.out.swept,
            epochs: self.status.epoch,
            segments: head.as_ref().map_or(0, |head| head.segments.len()),
            erased: self.out.checks.is_erased(),
            litter: self.out.checks.left_litter(),
            collected: self.out.collected,
            archived: self.out.archived,
            claims: self.claims,
            calls: self.out.brokers.came,
            cut: self.out.cut,
            version: head.map_or((0, 0), |head| head.version()),
        }
    }
}
