//! Bodies over time.

use prometheus::IntCounter;
use serde_json::json;

use super::*;

fn streams() -> Streams {
    Streams::new(IntGauge::new("open", "bodies").unwrap())
}

fn reader(body: Vec<u8>) -> Reader {
    Reader::new(reqwest::Response::from(http::Response::new(body)), IntCounter::new("received", "bytes").unwrap())
}

fn call(uid: &str, number: u64) -> ToolCall {
    serde_json::from_value(json!({
        "namespace": "a", "session": "s", "sessionUid": uid, "epoch": 1, "call": number, "tool": "fetch", "args": {}, "settledBelow": 0,
    }))
    .unwrap()
}

async fn read(streams: &Streams, stream: u64, part: u64, epoch: u64) -> Result<BodyAnswer, ErrorCode> {
    let call = BodyCall { namespace: "a".into(), session_uid: "u".into(), epoch, stream, part };
    streams.read(&call).await.map_err(|error| error.code)
}

fn part(bytes: usize, last: bool) -> BodyAnswer {
    BodyAnswer::Part { bytes: base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes]), last }
}

#[tokio::test]
async fn parts_come_in_order_and_the_last_one_again() {
    let streams = streams();
    streams.open(&call("u", 1), reader(vec![b'x'; PART_BYTES_MAX + 5])).unwrap();
    assert_eq!(read(&streams, 1, 1, 1).await, Ok(BodyAnswer::Lost {}), "not yet");
    assert_eq!(read(&streams, 1, 0, 1).await, Ok(part(PART_BYTES_MAX, false)));
    assert_eq!(read(&streams, 1, 0, 1).await, Ok(part(PART_BYTES_MAX, false)), "its answer may have been lost");
    assert_eq!(read(&streams, 1, 1, 2).await, Ok(part(5, true)), "a later owner goes on");
    assert_eq!(read(&streams, 1, 1, 1).await, Err(ErrorCode::SessionGone), "and the one before is over");
    assert_eq!(read(&streams, 1, 0, 2).await, Ok(BodyAnswer::Lost {}), "what is behind is gone");
    assert_eq!(read(&streams, 1, 2, 2).await, Ok(BodyAnswer::Lost {}));
    assert_eq!(read(&streams, 2, 0, 2).await, Ok(BodyAnswer::Lost {}), "there is no such stream");
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_closed() {
    let streams = streams();
    let key = ("u".to_owned(), 1);
    streams.open(&call("u", 1), reader(vec![b'x'; PART_BYTES_MAX * 2])).unwrap();
    let opened = lock(&streams.open)[&key].last_read;
    assert_eq!(streams.look(&key, opened), Some(opened + UNREAD_MAX));
    assert_eq!(read(&streams, 1, 0, 1).await, Ok(part(PART_BYTES_MAX, false)));
    let read_at = lock(&streams.open)[&key].last_read;
    assert_eq!(streams.look(&key, opened + UNREAD_MAX - Duration::from_nanos(1)), Some(read_at + UNREAD_MAX));

    let body = lock(&streams.open)[&key].body.clone();
    let waiting = body.lock().await;
    let late = read_at + UNREAD_MAX;
    assert_eq!(streams.look(&key, late), Some(late + UNREAD_MAX), "a part is being waited for");
    drop(waiting);
    assert_eq!(streams.look(&key, late + UNREAD_MAX), None);
    assert_eq!(streams.gauge.get(), 0);
    assert_eq!(read(&streams, 1, 1, 1).await, Ok(BodyAnswer::Lost {}));
}

#[tokio::test]
async fn so_many_bodies_may_be_open() {
    let streams = streams();
    for number in 0..SESSION_OPEN_MAX as u64 {
        streams.open(&call("u", number), reader(vec![0])).unwrap();
    }
    assert_eq!(streams.open(&call("u", 1_000), reader(vec![0])).unwrap_err().code, ErrorCode::QuotaExceeded);
    streams.close(&CloseCall { namespace: "a".into(), session_uid: "u".into(), epoch: 1, call: 0 });
    streams.open(&call("u", 1_000), reader(vec![0])).unwrap();
    for number in SESSION_OPEN_MAX as u64..OPEN_MAX as u64 {
        streams.open(&call(&format!("other-{number}"), 1), reader(vec![0])).unwrap();
    }
    assert_eq!(streams.open(&call("last", 1), reader(vec![0])).unwrap_err().code, ErrorCode::QuotaExceeded);
}

#[tokio::test]
async fn a_body_that_was_read_to_its_end_makes_room() {
    let streams = streams();
    for number in 0..SESSION_OPEN_MAX as u64 {
        streams.open(&call("u", number), reader(vec![b'x'; 3])).unwrap();
    }
    for number in [7, 3] {
        assert_eq!(read(&streams, number, 0, 1).await, Ok(part(3, true)));
    }
    streams.open(&call("u", 1_000), reader(vec![0])).unwrap();
    assert_eq!(read(&streams, 7, 0, 1).await, Ok(BodyAnswer::Lost {}), "it was over for longest");
    assert_eq!(read(&streams, 3, 0, 1).await, Ok(part(3, true)), "its last part may be asked for again");
    streams.open(&call("u", 1_001), reader(vec![0])).unwrap();
    assert_eq!(streams.open(&call("u", 1_002), reader(vec![0])).unwrap_err().code, ErrorCode::QuotaExceeded);
}

#[tokio::test]
async fn an_owner_that_is_over_closes_nothing() {
    let streams = streams();
    streams.open(&call("u", 1), reader(vec![b'x'; 3])).unwrap();
    assert_eq!(read(&streams, 1, 0, 5).await, Ok(part(3, true)));
    let close = |epoch| CloseCall { namespace: "a".into(), session_uid: "u".into(), epoch, call: 1 };
    streams.close(&close(4));
    assert_eq!(streams.gauge.get(), 1);
    streams.close(&close(5));
    assert_eq!(streams.gauge.get(), 0);
}
