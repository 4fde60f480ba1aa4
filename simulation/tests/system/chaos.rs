//! Decides what becomes of every message: by a scenario's own word, else by the seed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

use crate::{mutant::Mutant, random::Random};

/// A message, or what a store or a status is asked.
#[derive(Debug, Clone)]
pub struct Act {
    pub from: String,
    pub to: String,
    pub verb: &'static str,
    /// A key or a path.
    pub name: String,
    pub bytes: usize,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives after `before` milliseconds, and its answer `after` milliseconds later.
    Arrives { before: u64, after: u64 },
    /// It never arrives; its sender learns so much later.
    RequestLost,
    /// It arrives, and nobody learns of it.
    ReplyLost { before: u64 },
    /// Its sender gives it up, and then it arrives.
    ArrivesLate { after: u64 },
    /// It is refused for now.
    Busy,
    /// Another one is under way.
    Conflict,
    /// It is refused, and always will be.
    Refused,
}

/// A scenario's word about the acts that it knows.
pub type Rule = Box<dyn FnMut(&Act) -> Option<Fate> + Send>;

/// How often what happens, in a thousand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    pub request_lost: u64,
    pub reply_lost: u64,
    pub late: u64,
    pub busy: u64,
    pub conflict: u64,
    pub delay_ms_max: u64,
}

impl Rates {
    /// Nothing fails, and everything takes a little.
    pub const QUIET: Self = Self { request_lost: 0, reply_lost: 0, late: 0, busy: 0, conflict: 0, delay_ms_max: 6 };
}

#[derive(Clone)]
pub struct Chaos {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    seed: u64,
    rates: Rates,
    rules: Vec<Rule>,
    seen: HashMap<(String, String, &'static str), u64>,
    trace: Vec<String>,
    mutant: Option<Mutant>,
    begun: Instant,
}

impl Chaos {
    pub fn new(seed: u64, rates: Rates, mutant: Option<Mutant>) -> Self {
        let inner = Inner { seed, rates, rules: Vec::new(), seen: HashMap::new(), trace: Vec::new(), mutant, begun: Instant::now() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What every chance comes from.
    pub fn seed(&self) -> u64 {
        self.lock().seed
    }

    /// Whether this is wrong.
    pub fn is(&self, mutant: Mutant) -> bool {
        self.lock().mutant == Some(mutant)
    }

    /// Adds a scenario's word; what it says nothing about is left to earlier ones, and to the seed.
    pub fn rule(&self, rule: impl FnMut(&Act) -> Option<Fate> + Send + 'static) {
        self.lock().rules.insert(0, Box::new(rule));
    }

    /// The same for the first `times` acts that fit.
    pub fn first(&self, times: u32, fits: impl Fn(&Act) -> bool + Send + 'static, fate: Fate) {
        let mut left = times;
        self.rule(move |act| {
            if left == 0 || !fits(act) {
                return None;
            }
            left -= 1;
            Some(fate)
        });
    }

    /// Forgets every rule and every fault.
    pub fn calm(&self) {
        let mut inner = self.lock();
        inner.rules.clear();
        inner.rates = Rates::QUIET;
    }

    /// Forgets every rule.
    pub fn forget_rules(&self) {
        self.lock().rules.clear();
    }

    pub fn decide(&self, act: &Act) -> Fate {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let said = inner.rules.iter_mut().find_map(|rule| rule(act));
        let counter = inner.seen.entry((act.from.clone(), act.to.clone(), act.verb)).or_default();
        *counter += 1;
        let mut random = Random::of(inner.seed, &(&act.from, &act.to, act.verb, *counter));
        // A probe is sixty requests, and has to be made again when one of them fails: it is not what is looked at here.
        let probes = act.name.contains("/probe/");
        let rates = if probes { Rates::QUIET } else { inner.rates };
        let fate = said.unwrap_or_else(|| draw(&mut random, &rates));
        if probes {
            return fate;
        }
        let at = inner.begun.elapsed().as_millis();
        inner.trace.push(format!("{at:>9} {} -> {} {} {} {fate:?}", act.from, act.to, act.verb, act.name));
        fate
    }

    /// Writes something into the trace.
    pub fn note(&self, text: impl std::fmt::Display) {
        let mut inner = self.lock();
        let at = inner.begun.elapsed().as_millis();
        inner.trace.push(format!("{at:>9} {text}"));
    }

    pub fn trace(&self) -> Vec<String> {
        self.lock().trace.clone()
    }
}

fn draw(random: &mut Random, rates: &Rates) -> Fate {
    let (before, after) = (random.between(1, rates.delay_ms_max.max(1)), random.between(0, rates.delay_ms_max));
    let mut left = random.below(1_000);
    let mut is = |rate: u64| {
        let hit = left < rate;
        left = left.saturating_sub(rate);
        hit && rate > 0
    };
    if is(rates.request_lost) {
        Fate::RequestLost
    } else if is(rates.reply_lost) {
        Fate::ReplyLost { before }
    } else if is(rates.late) {
        Fate::ArrivesLate { after: before * 200 }
    } else if is(rates.busy) {
        Fate::Busy
    } else if is(rates.conflict) {
        Fate::Conflict
    } else {
        Fate::Arrives { before, after }
    }
}
