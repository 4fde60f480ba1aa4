//! One client of one session: a cell after the other, each sent until it is answered, wherever the session is by then.

use std::sync::Arc;
use std::time::Duration;

use dormouse_protocol::eval::{EvalRequest, EvalResult};
use dormouse_protocol::kernel::EvalCall;
use dormouse_protocol::{ErrorBody, ErrorCode};
use http::Method;
use tokio::sync::{mpsc, watch};

use super::kernel::{Cluster, PATIENCE, Target};

/// Appends a random number to the session's log and answers it.
pub const CELL: &str = "{ const token = Math.random(); (globalThis.log ??= []).push(token); token }";

/// How long a client waits for one attempt before it looks whether the session has moved.
const ATTEMPT: Duration = Duration::from_millis(100);

/// See the module.
pub struct Client {
    cluster: Arc<Cluster>,
    pub uid: String,
    /// What it sends, again and again. It answers a number that no other cell does.
    code: &'static str,
    /// The answers, in order.
    pub tokens: Vec<f64>,
    /// Requests that ended without an answer.
    pub broken: u64,
    /// Answers that came after the client had asked somebody else.
    pub late: u64,
}

/// What came of one attempt.
enum Attempt {
    Answer(f64),
    Refused,
    /// It was answered long before the session's last answer: only an attempt that was left behind may hear that.
    Known,
    Broken,
    /// No connection.
    Nobody,
}

impl Client {
    pub fn new(cluster: &Arc<Cluster>, number: usize, code: &'static str) -> Self {
        Self { cluster: Arc::clone(cluster), uid: format!("u{number}"), code, tokens: Vec::new(), broken: 0, late: 0 }
    }

    pub fn acked(&self) -> u64 {
        self.tokens.len() as u64
    }

    /// Until it is told to stop.
    pub async fn run(mut self, mut at: watch::Receiver<Option<Target>>, stop: watch::Receiver<bool>, acked: watch::Sender<u64>) -> Self {
        let (tell_late, mut hear_late) = mpsc::unbounded_channel();
        while !*stop.borrow() {
            let Some(token) = self.answer(&mut at, &stop, &tell_late).await else { break };
            self.tokens.push(token);
            acked.send_modify(|acked| *acked += 1);
        }
        drop(tell_late);
        // Attempts that were left behind in a stopped process are answered, refused or broken by now or soon.
        while let Some((number, token)) = tokio::time::timeout(PATIENCE, hear_late.recv()).await.expect("a stale attempt ends") {
            self.late += 1;
            let number: usize = number;
            if let Some(known) = self.tokens.get(number) {
                assert_eq!(*known, token, "a stale ack of cell {number} of {}", self.uid);
            }
        }
        self
    }

    /// Sends the next cell until it is answered.
    async fn answer(
        &mut self,
        at: &mut watch::Receiver<Option<Target>>,
        stop: &watch::Receiver<bool>,
        tell_late: &mpsc::UnboundedSender<(usize, f64)>,
    ) -> Option<f64> {
        let number = self.tokens.len();
        loop {
            let Some(target) = at.borrow_and_update().clone() else {
                at.changed().await.ok()?;
                continue;
            };
            let mut attempt = tokio::spawn(send(Arc::clone(&self.cluster), target.clone(), self.uid.clone(), self.code, number));
            let ended = tokio::select! {
                ended = &mut attempt => Some(ended.expect("an attempt does not panic")),
                () = moved(at, &target) => None,
            };
            match ended {
                Some(Attempt::Answer(token)) => return Some(token),
                Some(Attempt::Refused | Attempt::Nobody) if *stop.borrow() => return None,
                Some(Attempt::Refused) => {}
                // It is being killed, or has been: whoever says where the session is will say so.
                Some(Attempt::Nobody) => drop(tokio::time::timeout(ATTEMPT, at.changed()).await),
                Some(Attempt::Known) => panic!("cell {number} of {} was acked to nobody", self.uid),
                Some(Attempt::Broken) => self.broken += 1,
                // The session is elsewhere now. What this attempt still says must not differ.
                None => drop(tokio::spawn(report_late(attempt, number, tell_late.clone()))),
            }
        }
    }

    /// What the session holds in the end.
    pub async fn value(&self, target: &Target, code: &str) -> serde_json::Value {
        eval(&self.cluster, target, &self.uid, code, &format!("the end of {code}")).await.unwrap().expect("the session runs").value.unwrap()
    }

    /// What the session holds is what was answered, and nothing else but a cell whose answer nobody heard.
    pub async fn check(&self, target: &Target) {
        let log: Vec<f64> = serde_json::from_value(self.value(target, "log").await).unwrap();
        assert_eq!(log[..self.tokens.len()], self.tokens, "{}", self.uid);
        assert!(log.len() <= self.tokens.len() + 1, "{}: {} cells for {} answers", self.uid, log.len(), self.tokens.len());
    }
}

/// Ends when the session is somewhere else than `target`, and an attempt has had its time.
async fn moved(at: &mut watch::Receiver<Option<Target>>, target: &Target) {
    let elsewhere = at.wait_for(|now| now.as_ref().is_some_and(|now| now != target)).await.is_ok();
    if !elsewhere {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(ATTEMPT).await;
}

async fn report_late(attempt: tokio::task::JoinHandle<Attempt>, number: usize, tell: mpsc::UnboundedSender<(usize, f64)>) {
    if let Ok(Attempt::Answer(token)) = attempt.await {
        let _ = tell.send((number, token));
    }
}

async fn send(cluster: Arc<Cluster>, target: Target, uid: String, code: &'static str, number: usize) -> Attempt {
    match eval(&cluster, &target, &uid, code, &format!("{uid}-{number}")).await {
        Ok(Ok(result)) => Attempt::Answer(result.value.and_then(|value| value.as_f64()).expect("a number")),
        Ok(Err(ErrorCode::Conflict)) => Attempt::Known,
        Ok(Err(code)) => {
            assert!(code.retryable(), "cell {number} of {uid} is refused: {code}");
            Attempt::Refused
        }
        Err(error) if error.is_connect() => Attempt::Nobody,
        Err(_) => Attempt::Broken,
    }
}

/// Sends one cell. The inner error is the process's own.
pub async fn eval(
    cluster: &Cluster,
    target: &Target,
    uid: &str,
    code: &str,
    key: &str,
) -> Result<Result<EvalResult, ErrorCode>, reqwest::Error> {
    let eval = EvalRequest { code: code.to_owned(), idempotency_key: Some(key.to_owned()), ..EvalRequest::default() };
    let call = EvalCall { assignment: target.assignment(uid), eval, request_id: String::new(), run: false, lost: false };
    let request = cluster.client.request(Method::POST, &target.peer, &target.address, "/v1/eval").json(&call);
    let answer = request.timeout(PATIENCE).send().await?;
    if answer.status().is_success() {
        return Ok(Ok(answer.json().await?));
    }
    Ok(Err(answer.json::<ErrorBody>().await?.error.code))
}
