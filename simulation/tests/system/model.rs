//! What a session may be, to a client that sends one thing after another: the set of states that fit everything that was answered.

use std::collections::{BTreeMap, BTreeSet};

/// What a session holds, as far as a client can look.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct State {
    pub log: Vec<String>,
    /// What is in which file, by the id of who wrote it.
    pub files: BTreeMap<String, String>,
}

/// What a cell or an upload changes, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Push(String),
    Write(String, String),
}

impl State {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Push(id) => self.log.push(id.clone()),
            Step::Write(file, id) => drop(self.files.insert(file.clone(), id.clone())),
        }
    }

    fn after(&self, steps: &[Step]) -> Self {
        let mut state = self.clone();
        steps.iter().for_each(|step| state.apply(step));
        state
    }
}

fn pushed(steps: &[Step]) -> impl Iterator<Item = String> {
    steps.iter().filter_map(|step| if let Step::Push(id) = step { Some(id.clone()) } else { None })
}

/// A cell awaits between its steps.
fn after_an_await(steps: &[Step]) -> impl Iterator<Item = String> {
    pushed(steps).skip(1)
}

/// The states that fit.
#[derive(Debug, Clone)]
pub struct Model {
    possible: BTreeSet<State>,
    /// Every state that was answered before it was durable: what a lost process may take back.
    ahead: Vec<BTreeSet<State>>,
    /// What cells pushed whose end was answered before it was durable, while an earlier sending of them was given up.
    sent_twice: BTreeSet<String>,
    /// What cells pushed after an await, whose end was answered before it was durable: what is stored may have them under way.
    under_way: BTreeSet<String>,
    /// What may be done at any time, once, since an end was lost with its process: by a sending that was given up, or by a cell that is under way again.
    late: BTreeSet<String>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            possible: BTreeSet::from([State::default()]),
            ahead: Vec::new(),
            sent_twice: BTreeSet::new(),
            under_way: BTreeSet::new(),
            late: BTreeSet::new(),
        }
    }
}

impl Model {
    /// All of it was done.
    pub fn done(&mut self, steps: &[Step], durable: bool) {
        if durable {
            self.ahead.clear();
            self.sent_twice.clear();
            self.under_way.clear();
        } else {
            let stored = |steps| self.possible.iter().map(|state| state.after(steps)).collect();
            self.ahead.push(stored(&[]));
            // Where it awaited, what was stored is what it had done before.
            self.ahead.extend((steps.len() > 1).then(|| stored(&steps[..1])));
            self.under_way.extend(after_an_await(steps));
        }
        self.possible = self.possible.iter().map(|state| state.after(steps)).collect();
    }

    /// Some first part of it was done, or nothing.
    pub fn cut_short(&mut self, steps: &[Step]) {
        let possible = std::mem::take(&mut self.possible);
        for state in possible {
            for length in 0..=steps.len() {
                self.possible.insert(state.after(&steps[..length]));
            }
        }
    }

    /// The process that answered may have been replaced: some first part of it was done, or nothing, and what is left may be done at any time.
    pub fn done_by_whoever(&mut self, steps: &[Step]) {
        // With what it told, its key is lost, and an earlier sending of it may come.
        self.late.append(&mut self.sent_twice);
        self.cut_short(steps);
        self.late.extend(after_an_await(steps));
    }

    /// An earlier sending of a cell with these steps was given up, and its end is not durable: nothing but its process knows of it.
    pub fn may_come_again(&mut self, steps: &[Step]) {
        self.sent_twice.extend(pushed(steps));
    }

    /// A process was lost, and with it what was answered ahead of its commit.
    pub fn process_lost(&mut self) {
        self.late.append(&mut self.sent_twice);
        self.late.append(&mut self.under_way);
        for earlier in std::mem::take(&mut self.ahead) {
            self.possible.extend(earlier);
        }
    }

    /// The session was taken back to what `then` could be.
    pub fn went_back(&mut self, then: &Self, certainly: bool) {
        self.ahead.clear();
        if certainly {
            self.possible.clone_from(&then.possible);
        } else {
            self.possible.extend(then.possible.iter().cloned());
        }
    }

    /// The log is this. False when that cannot be.
    pub fn saw_log(&mut self, log: &[String]) -> bool {
        let late = &self.late;
        let fits = |state: &State| {
            let of_then = |id: &&String| state.log.contains(id) || !late.contains(*id);
            let once = log.iter().filter(|id| !of_then(id)).collect::<BTreeSet<_>>().len() + state.log.len() == log.len();
            once && log.iter().filter(of_then).eq(&state.log)
        };
        let possible = std::mem::take(&mut self.possible).into_iter().filter(fits);
        self.possible = possible.map(|state| State { log: log.to_vec(), ..state }).collect();
        !self.possible.is_empty()
    }

    /// Whether the file may hold what this id wrote.
    pub fn may_hold(&self, file: &str, id: &str) -> bool {
        self.possible.iter().any(|state| state.files.get(file).is_some_and(|held| held == id))
    }

    /// The file holds what this id wrote; `None`: there is none. False when that cannot be.
    pub fn saw_file(&mut self, file: &str, id: Option<&str>) -> bool {
        self.possible.retain(|state| state.files.get(file).map(String::as_str) == id);
        !self.possible.is_empty()
    }

    /// What it could be, for a person.
    pub fn show(&self) -> String {
        self.possible.iter().take(4).map(|state| format!("{} {:?}", state.log.join(","), state.files)).collect::<Vec<_>>().join(" or ")
    }
}
