//! Calls of a session's functions: a cell runs the function until it ends or asks its client something, and another cell brings the answer. In between
//! the call is in the session's heap, so it sleeps and moves with it, and the client may come back through any replica.
//!
//! In the stateless revision what is asked is the answer, with a state that names the call, and the client sends its request again. Before it, what
//! is asked are requests in the stream of the call, which the client answers by messages of their own, to any replica.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use dormouse_protocol::{
    ApiError, ErrorCode,
    event::{Event, EventBody},
};
use serde_json::{Map, Value, json};

use super::{
    Failure,
    cells::{Cell, KEY, Outcome, Questions, hold, requests, said, serving, short},
    code, runs, told,
    told::Told,
};
use crate::{
    audit,
    directory::Key,
    doors::{
        desk::Desk,
        lines::{AGAIN, Events},
    },
};

/// What a function may be.
const KINDS: [&str; 3] = ["tool", "prompt", "resource"];
/// Longest id of a request whose stream can be gone on with, in bytes.
const ID_BYTES_MAX: usize = 256;
/// Before the id of a request to a client.
const ASKED: &str = "dormouse";
/// Said to a client that began a call as one that knows tasks, and goes on as one that does not.
const NO_TASK: &str = "the call is a task from here on: say among your capabilities that you know tasks, as you did when it began";

/// What becomes of a call whose function neither asks nor ends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Becomes {
    /// Its client waits.
    Answer,
    /// It is a task from the beginning.
    Task,
    /// It is a task behind what it asks before.
    LaterTask,
}

impl Becomes {
    /// What becomes of a call that is a task. `before`: whether it asks something before that.
    pub(super) fn of_task(before: bool) -> Self {
        if before { Self::LaterTask } else { Self::Task }
    }
}

/// What a request brings for a call: which one, how often it has asked, and answers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Brought {
    state: Option<(String, u64)>,
    answers: Map<String, Value>,
}

impl Brought {
    /// What a request of the stateless revision brings.
    pub(super) fn of(params: &Value) -> Result<Self, Failure> {
        let invalid = |message: &str| Failure::new(code::INVALID_PARAMS, message);
        let answers = match params.get("inputResponses") {
            None => Map::new(),
            Some(Value::Object(answers)) => answers.clone(),
            Some(_) => return Err(invalid("inputResponses: write an object")),
        };
        if let Some((name, _)) = answers.iter().find(|(_, answer)| !answer.is_object()) {
            return Err(invalid(&format!("inputResponses.{name}: write an object")));
        }
        let Some(state) = params.get("requestState") else { return Ok(Self { state: None, answers }) };
        let parts = state.as_str().and_then(|state| state.split_once('.'));
        let state = parts.and_then(|(call, round)| Some((call.to_owned(), round.parse().ok()?)));
        Ok(Self { state: Some(state.ok_or_else(|| invalid("requestState: send back what you were given"))?), answers })
    }
}

/// A call of a function.
pub(super) struct Call<'a> {
    pub(super) desk: &'a Desk,
    pub(super) key: &'a Key,
    /// One of [`KINDS`].
    pub(super) of: &'static str,
    /// The id of its request.
    pub(super) id: &'a Value,
    /// What its client can be asked.
    pub(super) can: &'a Value,
    pub(super) told: Option<&'a Told>,
    /// Whether its client answers by the same request again.
    pub(super) stateless: bool,
    pub(super) becomes: Becomes,
}

impl Call<'_> {
    /// Runs what a request asks for, or goes on with it.
    pub(super) async fn run(&self, name: &str, args: &Value, brought: Brought) -> Result<Outcome, ApiError> {
        let begin = json!({ "of": self.of, "name": name, "args": args, "by": self.desk.caller.user });
        let is_new = brought.state.is_none();
        let (call, round) = match brought.state {
            Some(state) => state,
            None => (self.desk.app.router.ids().next().simple().to_string(), 0),
        };
        let task = self.becomes != Becomes::Answer;
        let mut request = json!({ "call": call, "round": round, "begin": begin, "can": self.can, "task": task, "given": brought.answers });
        if self.becomes == Becomes::Task && is_new {
            return self.task(&call, round, &request).await;
        }
        if self.stateless {
            return match self.cell(&call, round, &request, &brought.answers).await?.0 {
                Cell::Asks(round, asks) => Ok(Outcome::Asks(required(&call, round, asks))),
                Cell::Begins(round) if task => self.task(&call, round, &json!({ "call": call, "next": true })).await,
                Cell::Begins(_) => Ok(Outcome::Refused(NO_TASK.to_owned())),
                Cell::Ended(outcome) => Ok(outcome),
            };
        }
        let Some(told) = self.told else {
            // Nobody can be asked who takes no stream.
            request["can"] = json!({});
            return Ok(match self.cell(&call, round, &request, &brought.answers).await?.0 {
                Cell::Ended(outcome) => outcome,
                Cell::Asks(..) | Cell::Begins(_) => Outcome::Refused("the function asks a client that cannot be asked".to_owned()),
            });
        };
        told.prime(self.mark(&call, round)).await;
        self.converse(told, &call, request).await
    }

    /// Has the call go on as a task. Answers when it is stored that it will.
    async fn task(&self, call: &str, round: u64, request: &Value) -> Result<Outcome, ApiError> {
        let run = self.desk.accept_run(self.key, serving(request, Some(format!("{KEY}{call}-{round}")))).await?;
        Ok(Outcome::Task(runs::created(self.key, &runs::of_call(call), &run)))
    }

    /// Goes on with a call whose stream has broken, behind what its client has seen last.
    pub(super) async fn resume(&self, mark: &Mark) -> Result<Outcome, ApiError> {
        let Some(told) = self.told else { return Ok(Outcome::Refused("the call has no stream".to_owned())) };
        self.converse(told, &mark.call, json!({ "call": mark.call, "round": mark.round })).await
    }

    fn mark(&self, call: &str, round: u64) -> Option<String> {
        Mark { session: self.key.name.clone(), of: self.of, id: self.id.clone(), call: call.to_owned(), round }.write()
    }

    async fn converse(&self, told: &Told, call: &str, mut request: Value) -> Result<Outcome, ApiError> {
        let mut asked = BTreeSet::new();
        let mut round = request["round"].as_u64().unwrap_or_default();
        loop {
            let (cell, seq) = self.cell(call, round, &request, &Map::new()).await?;
            let asks = match cell {
                Cell::Ended(outcome) => return Ok(outcome),
                Cell::Asks(next, asks) => {
                    round = next;
                    asks
                }
                Cell::Begins(_) => return Ok(Outcome::Refused(NO_TASK.to_owned())),
            };
            let waits: Vec<String> = asks.keys().map(|name| answer_key(call, name)).collect();
            for (name, question) in asks {
                if asked.insert(question.number) {
                    let id = asked_id(self.key, call, &name);
                    told.ask(self.mark(call, round), &id, &question.method, question.params).await;
                }
            }
            tokio::select! {
                () = told.left() => {
                    return Err(ApiError::new(ErrorCode::Interrupted, "the client has left, and the call waits for it"));
                }
                came = self.answer(&waits, seq) => came?,
            }
            request = json!({ "call": call, "round": round });
        }
    }

    /// Returns when one of these answers may have come, behind an event. Whether one has, the session knows.
    async fn answer(&self, waits: &[String], after: u64) -> Result<(), ApiError> {
        let mut events = Events::looking(self.desk, self.desk.events_to_look(self.key, Some(after), true).await?);
        while let Some(line) = events.next().await {
            let Ok(Event { body, .. }) = serde_json::from_slice::<Event>(&line) else { continue };
            match body {
                EventBody::Final { result }
                    if result.idempotency_key.as_ref().is_some_and(|key| waits.iter().any(|it| key.starts_with(it))) =>
                {
                    return Ok(());
                }
                EventBody::Error { code, message } => return Err(ApiError::new(code, message)),
                _ => {}
            }
        }
        tokio::time::sleep(AGAIN).await;
        Ok(())
    }

    /// One cell of a call.
    async fn cell(&self, call: &str, round: u64, request: &Value, answers: &Map<String, Value>) -> Result<(Cell, u64), ApiError> {
        let mut key = format!("{KEY}{call}-{round}");
        // Another answer is another cell; the same one, sent again, is the same.
        if !answers.is_empty() {
            key = format!("{key}-{}", short("answers", &Value::from(answers.clone())));
        }
        let (result, seq) = told::eval(self.desk, self.key, serving(request, Some(key)), self.told).await?;
        Ok((said(result)?, seq))
    }
}

/// What a request is answered whose function asks its client.
fn required(call: &str, round: u64, asks: Questions) -> Value {
    json!({ "resultType": "input_required", "inputRequests": requests(asks), "requestState": format!("{call}.{round}") })
}

/// What the idempotency key of an answer's cell begins with.
fn answer_key(call: &str, name: &str) -> String {
    format!("{KEY}{call}-answer-{}-", short(name, &Value::Null))
}

/// The id of a request to a client: any replica knows by it whose answer comes.
fn asked_id(key: &Key, call: &str, name: &str) -> String {
    format!("{ASKED}/{}/{call}/{name}", key.name)
}

/// An event of a call's stream, behind which its client may go on: what any replica has to know for it.
#[derive(Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) session: String,
    pub(super) of: &'static str,
    /// The id of the request that is answered.
    pub(super) id: Value,
    call: String,
    round: u64,
}

impl Mark {
    fn write(&self) -> Option<String> {
        let id = self.id.to_string();
        let letter = self.of.get(..1)?;
        let written = || format!("{}/{}/{}/{letter}/{}", self.session, self.call, self.round, URL_SAFE_NO_PAD.encode(&id));
        (id.len() <= ID_BYTES_MAX).then(written)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let [session, call, round, of, id] = text.split('/').collect::<Vec<_>>().try_into().ok()?;
        let of = KINDS.into_iter().find(|kind| kind.get(..1) == Some(of))?;
        let id = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
        Some(Self { session: session.to_owned(), of, id, call: call.to_owned(), round: round.parse().ok()? })
    }
}

/// Takes in what a client answers to a request that it was asked. `None`: it was asked no such thing.
pub(super) async fn answered(desk: &Desk, id: &Value, result: Option<Value>, error: Option<Value>) -> Option<Result<(), ApiError>> {
    let parts: Vec<&str> = id.as_str()?.split('/').collect();
    let [ASKED, session, call, name] = parts.as_slice() else { return None };
    let answer = match (result, error) {
        (_, Some(error)) => json!({ "error": error }),
        (result, None) => result.unwrap_or_default(),
    };
    let key = match desk.key(session) {
        Ok(key) => key,
        Err(error) => return Some(Err(error)),
    };
    let held = json!({ "call": call, "hold": { *name: answer } });
    let idempotency_key = format!("{}{}", answer_key(call, name), short("answer", &held));
    let holding = async {
        let gone = hold(desk, &key, &held, idempotency_key).await?;
        gone.map_or(Ok(()), |gone| Err(ApiError::new(ErrorCode::InvalidRequest, gone)))
    };
    Some(desk.logged(("answer", &key, ""), holding, |held| Some(audit::done(held))).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_names_a_call_and_answers_are_objects() {
        let brought = Brought::of(&json!({ "requestState": "ab.2", "inputResponses": { "q": { "action": "accept" } } })).unwrap();
        assert_eq!(brought.state, Some(("ab".to_owned(), 2)));
        assert_eq!(Brought::of(&json!({})).unwrap(), Brought::default());
        for wrong in [
            json!({ "requestState": 7 }),
            json!({ "requestState": "ab" }),
            json!({ "requestState": "ab.x" }),
            json!({ "inputResponses": null }),
            json!({ "inputResponses": { "q": 12 } }),
        ] {
            assert_eq!(Brought::of(&wrong).unwrap_err().code, code::INVALID_PARAMS, "{wrong}");
        }
    }

    #[test]
    fn an_events_id_names_a_call() {
        let mark = |id: Value| Mark { session: "a.b".to_owned(), of: "prompt", id, call: "0123".to_owned(), round: 3 };
        for id in [json!(7), json!("a/b")] {
            assert_eq!(Mark::read(&mark(id.clone()).write().unwrap()), Some(mark(id)));
        }
        assert_eq!(mark(json!("x".repeat(ID_BYTES_MAX))).write(), None);
        for wrong in ["", "a/b/1/p", "a/b/x/p/Nw", "a/b/1/q/Nw", "a/b/1/p/!", "a/b/1/p/Nw/x"] {
            assert_eq!(Mark::read(wrong), None, "{wrong}");
        }
    }
}
