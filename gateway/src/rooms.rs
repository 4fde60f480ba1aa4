//! Room for what is large and read whole: bodies and frames of clients, and answers that doors shape. All else passes through in pieces.

use axum::{
    extract::{Request, State},
    http::request::Parts,
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
    bodies: Room,
    answers: Room,
}

impl Rooms {
    pub(crate) fn within(memory: &Memory) -> Self {
        Self { bodies: Room::within(memory.clone(), BODIES_BYTES_MAX), answers: Room::within(memory.clone(), ANSWERS_BYTES_MAX) }
    }

    /// What this user's frame takes.
    pub(crate) fn body_of(&self, user: &str) -> Holding {
        let holding = self.bodies.holding();
        holding.count_for(user);
        holding
    }

    /// What an answer to this user takes.
    pub(crate) fn answer_to(&self, user: &str) -> Holding {
        let holding = self.answers.holding();
        holding.count_for(user);
        holding
    }

    /// The holding of the request whose task this is; where there is none, one that ends with the reading.
    pub(crate) fn of_task(&self, user: &str) -> Holding {
        Holding::current().unwrap_or_else(|| self.answer_to(user))
    }
}

/// What a request's body holds.
#[derive(Debug, Clone)]
pub(crate) struct OfBody(pub(crate) Holding);

/// Counts what a request holds as this user's, who has a part of each room.
pub(crate) fn count_for(request: &Parts, user: &str) {
    if let Some(OfBody(body)) = request.extensions.get() {
        body.count_for(user);
    }
    if let Some(answer) = Holding::current() {
        answer.count_for(user);
    }
}

/// Middleware: what a large body takes is held until there is an answer, and what an answer takes that was read whole until it has left.
pub(crate) async fn held(State(rooms): State<Rooms>, mut request: Request, next: Next) -> Response {
    let (body, answer) = (rooms.bodies.holding(), rooms.answers.holding());
    request.extensions_mut().insert(OfBody(body.clone()));
    let response = answer.clone().around(next.run(request)).await;
    drop(body);
    answer.until_sent(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_user_is_answered_and_sends_takes_a_part_of_the_room() {
        const LARGE: usize = 9 << 20;
        let rooms = Rooms::within(&Memory::unlimited());
        let (mut request, ()) = axum::http::Request::new(()).into_parts();
        let body = rooms.bodies.holding();
        request.extensions.insert(OfBody(body.clone()));
        let task = rooms.answers.holding();
        task.clone()
            .around(async {
                count_for(&request, "her");
                rooms.of_task("her").grow_to(LARGE).await.unwrap();
                body.grow_to(LARGE).await.unwrap();
            })
            .await;
        for hers in [rooms.answer_to("her"), rooms.body_of("her"), rooms.of_task("her")] {
            assert!(hers.grow_to(LARGE).await.is_err(), "a second one is too much of one user");
        }
        for his in [rooms.answer_to("him"), rooms.body_of("him")] {
            his.grow_to(LARGE).await.unwrap();
        }
        drop((task, body, request));
        rooms.of_task("her").grow_to(LARGE).await.unwrap();
    }
}
