//! Everything around a kernel process: the store, the brokers, the client, and who watches.

use dormouse_lifecycle::SessionKey;

use crate::{
    brokers::Brokers,
    check::Checks,
    heap::Cells,
    mutant::{Lie, Mutant},
    random::Random,
    store::Store,
    sweeper::Sweep,
};

/// The uid of the one session of a run.
const UID: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";
/// The uid of another cluster's session, in the same store.
pub const OTHER_UID: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e02";

/// The one session of a run.
pub fn session() -> SessionKey {
    SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: UID.into(), name: "n".into() }
}

/// Another cluster's session: an object of it at most.
pub fn another() -> SessionKey {
    SessionKey { uid: OTHER_UID.into(), ..session() }
}

/// What the API server knows of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    NotYet,
    Live,
    /// It is in the archive: nobody knows its uid.
    Archived,
    Deleting,
    Gone,
}

/// A cell to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub cell: u64,
    /// A request with a key is sent until it is answered; one without is sent once.
    pub key: Option<u64>,
}

/// One client: it begins a cell when the last one is answered or given up.
#[derive(Default)]
pub struct Client {
    next: u64,
    current: Option<Request>,
    sent: bool,
}

impl Client {
    /// A client that goes on where `other` was, with nothing under way.
    pub fn after(other: &Self) -> Self {
        Self { next: other.next, current: None, sent: false }
    }

    /// What to send now, if anything.
    pub fn sends(&mut self, random: &mut Random) -> Option<Request> {
        match self.current {
            Some(request) if request.key.is_some() => Some(request),
            // Sent once: after a while, whoever waits goes on to something else.
            Some(_) if self.sent => {
                self.current = self.current.filter(|_| !random.one_in(4));
                None
            }
            _ => {
                self.next += 1;
                let key = (!random.one_in(4)).then_some(self.next);
                let request = Request { cell: self.next, key };
                (self.current, self.sent) = (Some(request), true);
                Some(request)
            }
        }
    }

    /// An answer has arrived.
    pub fn hears(&mut self, request: Request, ok: bool) {
        if self.current == Some(request) && (ok || request.key.is_none()) {
            self.current = None;
        }
    }
}

/// See the module.
pub struct Outside {
    pub random: Random,
    pub store: Store,
    pub checks: Checks,
    pub cells: Cells,
    pub client: Client,
    pub brokers: Brokers,
    pub sweeps: Vec<Sweep>,
    /// Sweeps that listed, and keys that they deleted.
    pub swept: (u64, u64),
    pub mutant: Option<Mutant>,
    /// Steps that a crash has cut off.
    pub cut: std::collections::BTreeSet<&'static str>,
    /// What the API server knows of the session.
    pub exists: Existence,
    /// Whether it has been in the archive: then no object has its uid any more.
    pub archived: bool,
    /// Objects of sessions that are gone, which were collected.
    pub collected: u64,
    /// The newest version that a process has told of.
    pub reported: Option<(u64, u64)>,
    puts: u64,
}

impl Outside {
    pub fn new(seed: u64, mutant: Option<Mutant>, lie: Option<Lie>) -> Self {
        Self {
            random: Random::new(seed),
            store: Store::new(lie),
            checks: Checks::default(),
            cells: Cells::new(seed),
            client: Client::default(),
            brokers: Brokers::default(),
            sweeps: Vec::new(),
            swept: (0, 0),
            mutant,
            cut: std::collections::BTreeSet::new(),
            exists: Existence::NotYet,
            archived: false,
            collected: 0,
            reported: None,
            puts: 0,
        }
    }

    /// Whether the protocol is wrong in this way.
    pub fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// An id that no other attempt has.
    pub fn put_id(&mut self) -> String {
        self.puts += 1;
        self.puts.to_string()
    }

    /// A process answers. The answer may be lost.
    pub fn answer(&mut self, request: Request, ok: bool) {
        if ok {
            self.checks.ack(request.cell);
        }
        if !self.store.faults || !self.random.one_in(8) {
            self.client.hears(request, ok);
        }
    }
}
