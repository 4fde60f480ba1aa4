//! Pods, gateways, sessions and the operator of a region, and what happens to them next.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use dormouse_control::{
    placement::Loads,
    pool::scale::{Demand, Size, replicas},
    session::Urgency,
    writes::Writes,
};
use dormouse_testkit::random::Random;

use crate::status::{Told, Urgencies};

/// `kernel.statusIntervalMs` of the chart.
const STATUS_INTERVAL: Duration = Duration::from_secs(60);
/// How long a pod that is replaced takes to let its sessions go.
const LEAVES_AFTER: Duration = Duration::from_secs(10);

/// How large it is, and what happens there.
pub struct Region {
    pub slots: u32,
    pub pools: usize,
    pub gateways: usize,
    pub sessions: u64,
    /// Requests for sessions that sleep.
    pub wakes_per_second: u64,
    /// How long a session that was woken stays awake, in the mean.
    pub awake: Duration,
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    pub wakes: u64,
    pub in_place: u64,
    pub moves: u64,
    /// Pods that had less room than was believed.
    pub refused: u64,
    pub without_room: u64,
    pub asked: u64,
    /// The most pods that one move has asked.
    pub asked_max: u64,
    /// Writes of placements,
    pub placed: u64,
    /// of statuses that somebody may wait for,
    pub settled: u64,
    /// of what a process told last,
    pub last: u64,
    /// of statuses that can wait,
    pub busy: u64,
    /// and of placements on processes that are gone.
    pub cleared: u64,
    /// How often the operator has looked at a session.
    pub looks: u64,
    late: Vec<Duration>,
}

impl Counts {
    /// Of what somebody may wait for, how late this hundredth was written.
    pub fn late_ms(&self, hundredth: usize) -> u128 {
        let mut late = self.late.clone();
        late.sort();
        late.get((late.len() * hundredth / 100).min(late.len().saturating_sub(1))).map_or(0, Duration::as_millis)
    }
}

pub struct Pod {
    pub uid: String,
    pool: usize,
    pub used: u32,
    pub draining: bool,
    gone: bool,
    /// Whoever was placed there, some of whom are elsewhere by now.
    pub placed: Vec<usize>,
}

pub struct Session {
    pub pool: usize,
    pub pod: Option<usize>,
    pub epoch: u64,
    awake: bool,
    told: Told,
    written: Told,
    /// When something was told that somebody may wait for.
    settled_at: Duration,
    /// When the operator looks at it next.
    look_at: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake,
    Sleep(usize),
    Look(usize),
    Replace(usize),
    Gone(usize),
}

pub struct World<'a> {
    pub region: &'a Region,
    pub start: Instant,
    pub now: Duration,
    pub random: Random,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    events_made: u64,
    pub pods: Vec<Pod>,
    /// The pods of each pool that are not gone.
    pub pools: Vec<Vec<usize>>,
    pub sessions: Vec<Session>,
    pub gateways: Vec<Loads>,
    writes: Writes,
    urgencies: Urgencies,
    pub counts: Counts,
}

impl<'a> World<'a> {
    /// Every session sleeps on a pod of its pool. A quarter of all is one pool.
    pub fn new(region: &'a Region) -> Self {
        let share = |number: usize, of: u64| if number == 0 { of / 4 } else { (of - of / 4) / (region.pools as u64 - 1) };
        let mut world = Self {
            region,
            start: Instant::now(),
            now: Duration::ZERO,
            random: Random::new(1),
            events: BinaryHeap::new(),
            events_made: 0,
            pods: Vec::new(),
            pools: vec![Vec::new(); region.pools],
            sessions: Vec::new(),
            gateways: std::iter::repeat_with(Loads::default).take(region.gateways).collect(),
            writes: Writes::default(),
            urgencies: Urgencies::new(),
            counts: Counts::default(),
        };
        let awake = region.wakes_per_second * region.awake.as_secs();
        for pool in 0..region.pools {
            let size = Size { current: 0, warm: 1, max: u32::MAX, slots: region.slots, spare: 0 };
            let live = u32::try_from(share(pool, awake)).unwrap();
            (0..replicas(Demand { size, live, blocked: 0, unread: false, certain: true })).for_each(|_| world.add_pod(pool));
            for number in 0..share(pool, region.sessions) as usize {
                let pod = world.pools[pool][number % world.pools[pool].len()];
                world.pods[pod].placed.push(world.sessions.len());
                let (told, written) = (Told::ASLEEP, Told::ASLEEP);
                let zero = Duration::ZERO;
                world.sessions.push(Session {
                    pool,
                    pod: Some(pod),
                    epoch: 1,
                    awake: false,
                    told,
                    written,
                    settled_at: zero,
                    look_at: None,
                });
            }
        }
        world
    }

    pub fn pods(&self) -> usize {
        self.pools.iter().map(Vec::len).sum()
    }

    pub fn awake(&self) -> usize {
        self.sessions.iter().filter(|session| session.awake).count()
    }

    pub fn fullest(&self) -> u32 {
        self.pools.iter().flatten().map(|pod| self.pods[*pod].used).max().unwrap_or(0)
    }

    /// Until as many are awake as there will be, and status has told of it what it can.
    pub fn warm_up(&mut self) {
        self.push(Duration::ZERO, Event::Wake);
        self.run(self.region.awake * 10, None);
    }

    /// Goes on for so long. All pods are replaced meanwhile, one after the other, if it is said how long that takes.
    pub fn run(&mut self, time: Duration, replaced_in: Option<Duration>) -> Counts {
        self.counts = Counts::default();
        if let Some(all) = replaced_in {
            let pods: Vec<usize> = self.pools.iter().flatten().copied().collect();
            let (begin, each) = (self.now, all / u32::try_from(pods.len()).unwrap());
            for (number, pod) in (0_u32..).zip(pods) {
                self.push(begin + each * number, Event::Replace(pod));
            }
        }
        let end = self.now + time;
        while self.events.peek().is_some_and(|Reverse((at, _, _))| *at < end) {
            let Reverse((at, _, event)) = self.events.pop().unwrap();
            self.now = at;
            match event {
                Event::Wake => self.wake(),
                Event::Sleep(session) => self.sleep(session),
                Event::Look(session) if self.sessions[session].look_at == Some(at) => self.look(session),
                Event::Look(_) => {}
                Event::Replace(pod) => self.replace(pod),
                Event::Gone(pod) => self.gone(pod),
            }
        }
        self.now = end;
        std::mem::take(&mut self.counts)
    }

    fn push(&mut self, at: Duration, event: Event) {
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, event)));
    }

    /// A time whose mean this is, of what happens by chance at any moment.
    fn some(&mut self, mean: Duration) -> Duration {
        const PARTS: u64 = 1 << 32;
        let part = (self.random.below(PARTS) + 1) as f64 / PARTS as f64;
        mean.mul_f64(-part.ln())
    }

    fn add_pod(&mut self, pool: usize) {
        let number = self.pods.len();
        let uid = format!("pod-{number}");
        self.pods.push(Pod { uid, pool, used: 0, draining: false, gone: false, placed: Vec::new() });
        self.pools[pool].push(number);
    }

    fn wake(&mut self) {
        let next = self.some(Duration::from_secs(1).div_f64(self.region.wakes_per_second as f64));
        self.push(self.now + next, Event::Wake);
        let mut number = self.random.below(self.sessions.len() as u64) as usize;
        while self.sessions[number].awake {
            number = self.random.below(self.sessions.len() as u64) as usize;
        }
        self.counts.wakes += 1;
        let at_home = self.sessions[number].pod.filter(|pod| {
            let pod = &self.pods[*pod];
            !pod.gone && !pod.draining && pod.used < self.region.slots
        });
        let pod = match at_home {
            Some(pod) => {
                self.counts.in_place += 1;
                pod
            }
            None => match self.place(number) {
                Some(pod) => pod,
                None => return,
            },
        };
        self.pods[pod].used += 1;
        let session = &mut self.sessions[number];
        (session.awake, session.told) = (true, session.told.woken());
        let asleep_after = self.some(self.region.awake);
        self.push(self.now + asleep_after, Event::Sleep(number));
        self.told(number);
    }

    fn sleep(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        if !std::mem::replace(&mut session.awake, false) {
            return;
        }
        session.told = session.told.asleep();
        let pod = session.pod.unwrap();
        self.pods[pod].used -= 1;
        self.told(number);
    }

    /// The operator hears of it.
    fn told(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        if self.urgencies.of(session.written, session.told) == Urgency::Now {
            session.settled_at = self.now;
        }
        self.look_at(number, self.now);
    }

    fn look_at(&mut self, number: usize, at: Duration) {
        if self.sessions[number].look_at.is_some_and(|earlier| earlier <= at) {
            return;
        }
        self.sessions[number].look_at = Some(at);
        self.push(at, Event::Look(number));
    }

    fn look(&mut self, number: usize) {
        self.counts.looks += 1;
        let now = self.start + self.now;
        let session = &mut self.sessions[number];
        session.look_at = None;
        let urgency = self.urgencies.of(session.written, session.told);
        let uid = format!("s{number}");
        if session.pod.is_some_and(|pod| self.pods[pod].gone) {
            // What its process told last, then that it is nowhere.
            self.counts.last += u64::from(urgency != Urgency::None);
            self.counts.cleared += 1;
            (session.written, session.pod) = (session.told, None);
            self.writes.caught_up(&uid);
            return;
        }
        let turn = match urgency {
            Urgency::None => return self.writes.caught_up(&uid),
            Urgency::Later => self.writes.busy(&uid, STATUS_INTERVAL, now),
            Urgency::Now => self.writes.settled(&format!("team-{}", session.pool), now),
        };
        if let Err(wait) = turn {
            return self.look_at(number, self.now + wait);
        }
        session.written = session.told;
        self.writes.caught_up(&uid);
        if urgency == Urgency::Now {
            self.counts.settled += 1;
            self.counts.late.push(self.now.saturating_sub(session.settled_at));
        } else {
            self.counts.busy += 1;
        }
    }

    /// Another takes its place; its sessions sleep, and are told of before it goes.
    fn replace(&mut self, pod: usize) {
        self.add_pod(self.pods[pod].pool);
        self.pods[pod].draining = true;
        for number in self.pods[pod].placed.clone() {
            if self.sessions[number].pod == Some(pod) && self.sessions[number].awake {
                self.sleep(number);
            }
        }
        self.push(self.now + LEAVES_AFTER, Event::Gone(pod));
    }

    fn gone(&mut self, pod: usize) {
        self.pods[pod].gone = true;
        let pool = self.pods[pod].pool;
        self.pools[pool].retain(|it| *it != pod);
        for number in std::mem::take(&mut self.pods[pod].placed) {
            if self.sessions[number].pod == Some(pod) {
                self.look_at(number, self.now);
            }
        }
    }
}
