//! Room for what is large and read whole: bodies and frames of clients, and answers that doors shape. All else passes through in pieces.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use dormouse_service::{
    memory::Memory,
    room::{Holding, Room},
};

/// Bytes of large bodies and frames at one time.
pub const BODIES_BYTES_MAX: u64 = 32 << 20;
/// Bytes of large answers that doors read whole, at one time. One that is as large as may be takes all of it.
pub const ANSWERS_BYTES_MAX: u64 = 32 << 20;

/// Both. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Rooms {
    pub(crate) bodies: Room,
    pub(crate) answers: Room,
}

impl Rooms {
    pub(crate) fn within(memory: &Memory) -> Self {
        Self { bodies: Room::within(memory.clone(), BODIES_BYTES_MAX), answers: Room::within(memory.clone(), ANSWERS_BYTES_MAX) }
    }

    /// The holding of the request whose task this is; where there is none, one that ends with the reading.
    pub(crate) fn of_answer(&self) -> Holding {
        Holding::current().unwrap_or_else(|| self.answers.holding())
    }
}

/// What a request's body holds.
#[derive(Debug, Clone)]
pub(crate) struct OfBody(pub(crate) Holding);

/// Middleware: what a large body takes is held until there is an answer, and what an answer takes that was read whole until it has left.
pub(crate) async fn held(State(rooms): State<Rooms>, mut request: Request, next: Next) -> Response {
    let (body, answer) = (rooms.bodies.holding(), rooms.answers.holding());
    request.extensions_mut().insert(OfBody(body.clone()));
    let response = answer.clone().around(next.run(request)).await;
    drop(body);
    answer.until_sent(response)
}
