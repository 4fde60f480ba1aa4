use tokio::sync::oneshot;

use super::{
    cell::{begun, first, forward},
    *,
};
use crate::auth::loopback::Loopback;

fn client() -> (Client, Frames) {
    let (queue, receiver) = Queue::new();
    let review = Review::new(Arc::new(Loopback::default()), None);
    (Client { queue, framing: Framing::Ndjson, last_seq: 0, session: "s_1".to_owned(), review }, receiver)
}

fn lines(lines: &[&'static str]) -> Lines {
    let lines: Vec<_> = lines.iter().map(|line| Ok(Piece::Line(Bytes::from_static(line.as_bytes())))).collect();
    futures::stream::iter(lines).boxed()
}

#[tokio::test]
async fn a_stream_that_is_taken_up_again_repeats_nothing_and_loses_no_end() {
    let (mut client, mut frames) = client();
    let first = [r#"{"seq":1,"type":"log","payload":{}}"#, r#"{"seq":2,"type":"log","payload":{}}"#];
    assert!(matches!(forward(&mut lines(&first), &mut client, &mut None).await, Err(Broke::Kernel(KernelError::CutOff))));
    let second = [r#"{"seq":2,"type":"log","payload":{}}"#, r#"{"seq":2,"type":"final","payload":{"ok":true}}"#];
    assert!(forward(&mut lines(&second), &mut client, &mut None).await.is_ok());
    drop(client);
    let mut seen = Vec::new();
    while let Some(frame) = frames.recv().await {
        let head = Head::read(&frame.bytes).unwrap();
        seen.push((head.seq, head.type_));
    }
    assert_eq!(seen, [(1, "log".to_owned()), (2, "log".to_owned()), (2, "final".to_owned())]);
}

#[tokio::test]
async fn a_cell_that_runs_again_is_shown_anew_from_its_first_event() {
    let (mut client, mut frames) = client();
    let mut begin = None;
    let first = [r#"{"seq":5,"type":"log","payload":{"text":"a"}}"#, r#"{"seq":6,"type":"log","payload":{"text":"b"}}"#];
    assert!(forward(&mut lines(&first), &mut client, &mut begin).await.is_err());
    assert_eq!(begin, Some(5), "behind the event before it is where all of it can be read");
    // Its process begins it again for those who wait, under a number that they have seen.
    let again = [
        r#"{"seq":4,"type":"restarted","payload":{}}"#,
        r#"{"seq":5,"type":"log","payload":{"text":"c"}}"#,
        r#"{"seq":6,"type":"final","payload":{"ok":true}}"#,
    ];
    assert!(forward(&mut lines(&again), &mut client, &mut begin).await.is_ok());
    drop(client);
    let mut seen = Vec::new();
    while let Some(frame) = frames.recv().await {
        let head = Head::read(&frame.bytes).unwrap();
        seen.push((head.seq, head.type_));
    }
    let wanted = [(5, "log"), (6, "log"), (4, "restarted"), (5, "log"), (6, "final")];
    assert_eq!(seen, wanted.map(|(seq, kind)| (seq, kind.to_owned())));
}

#[tokio::test]
async fn an_error_that_means_elsewhere_is_not_the_clients() {
    let (mut client, mut frames) = client();
    let gone = [r#"{"seq":1,"type":"error","payload":{"code":"SessionGone","message":"draining"}}"#];
    let broke = forward(&mut lines(&gone), &mut client, &mut None).await;
    assert!(matches!(broke, Err(Broke::Kernel(KernelError::Refused(refusal))) if refusal.code == ErrorCode::SessionGone));
    drop(client);
    assert!(frames.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_in_which_nothing_happens_says_so_at_most_every_15_seconds() {
    let (mut client, mut frames) = client();
    let began = tokio::time::Instant::now();
    let events = [r#"{"seq":7,"type":"log","payload":{}}"#, r#"{"seq":8,"type":"final","payload":{"ok":true}}"#];
    let slow = futures::stream::iter(events).then(|line| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Piece::Line(Bytes::from_static(line.as_bytes())))
    });
    let forwarding = tokio::spawn(async move { forward(&mut slow.boxed(), &mut client, &mut None).await.is_ok() });
    let (mut last, mut beats, mut kinds) = (began, 0, Vec::new());
    while let Some(frame) = frames.recv().await {
        let now = tokio::time::Instant::now();
        assert!(now - last <= Duration::from_secs(15), "{:?}", now - last);
        last = now;
        let head = Head::read(&frame.bytes).unwrap();
        if head.type_ == "heartbeat" {
            beats += 1;
            assert_eq!(head.seq, if kinds.is_empty() { 0 } else { 7 }, "it repeats the last position");
        } else {
            kinds.push(head.type_);
        }
    }
    assert!(forwarding.await.unwrap() && beats >= 8, "{beats}");
    assert_eq!(kinds, ["log", "final"]);
}

/// Nothing comes of it after this time.
async fn full_after(seconds: u64) -> Result<(), ApiError> {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Err(ApiError::new(ErrorCode::CapacityExhausted, "no room"))
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_first_event_has_heartbeats_too() {
    for (seconds, is_run, beats) in [(9, false, None), (60, false, Some(6)), (60, true, None)] {
        let ((mut client, frames), (tell, told)) = (client(), oneshot::channel());
        let opening = tokio::spawn(async move { first(&mut client, tell, full_after(seconds)).await.is_none() });
        let (mut kinds, began) = (Vec::new(), tokio::time::Instant::now());
        match begun(frames, told, is_run).await {
            Err(error) => assert!(error.code == ErrorCode::CapacityExhausted && beats.is_none(), "a status tells it, after {seconds} s"),
            Ok(mut frames) => {
                assert!(began.elapsed() <= Duration::from_secs(15));
                while let Some(frame) = frames.recv().await {
                    let head = Head::read(&frame.bytes).unwrap();
                    kinds.push((head.type_, head.payload.code));
                }
                assert_eq!(kinds.pop(), Some(("error".to_owned(), Some(ErrorCode::CapacityExhausted))), "the stream tells it");
                assert!(kinds.iter().all(|(kind, _)| kind == "heartbeat") && Some(kinds.len() + 1) == beats, "{kinds:?}");
            }
        }
        assert!(opening.await.unwrap());
    }
}

#[tokio::test]
async fn who_leaves_before_the_first_event_is_not_waited_for() {
    let ((mut client, frames), (tell, told)) = (client(), oneshot::channel());
    let opening = tokio::spawn(async move { first(&mut client, tell, std::future::pending::<Result<(), ApiError>>()).await.is_none() });
    drop(begun(frames, told, false));
    assert!(opening.await.unwrap());
}

fn long(seq: u64, end: bool) -> Lines {
    let begin =
        format!(r#"{{"protocolVersion":1,"sessionId":"s_1","seq":{seq},"type":"final","payload":{{"text":"{}"#, "x".repeat(300_000));
    let mut pieces = vec![Ok(Piece::Begin(begin.into())), Ok(Piece::More(Bytes::from_static(b"\"}}")))];
    pieces.extend(end.then_some(Ok(Piece::End)));
    futures::stream::iter(pieces).boxed()
}

/// What a client sees that reads to the end.
async fn read(mut frames: Frames) -> Vec<u8> {
    let mut seen = Vec::new();
    while let Some(frame) = frames.recv().await {
        seen.extend_from_slice(&frame.bytes);
    }
    seen
}

#[tokio::test]
async fn a_long_line_arrives_as_it_left() {
    let (mut client, frames) = client();
    let reading = tokio::spawn(read(frames));
    assert!(forward(&mut long(3, true), &mut client, &mut None).await.is_ok());
    assert_eq!(client.last_seq, 3);
    drop(client);
    let seen = reading.await.unwrap();
    assert!(seen.ends_with(b"xx\"}}\n"));
    assert_eq!(Head::read(seen.trim_ascii_end()).unwrap().type_, "final");
}

#[tokio::test]
async fn a_long_line_that_breaks_ends_the_stream() {
    let (mut client, frames) = client();
    tokio::spawn(read(frames));
    assert!(matches!(forward(&mut long(3, false), &mut client, &mut None).await, Err(Broke::Closed)));
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_sent_so_many_bytes_and_no_more() {
    let (mut client, mut frames) = client();
    let line = vec![b'x'; QUEUED_BYTES_MAX / 4];
    let mut sent = 0;
    while futures::FutureExt::now_or_never(client.send(sent, &line)).is_some() {
        sent += 1;
    }
    assert_eq!(sent, 3, "lines, each with its newline");
    drop(frames.recv().await);
    assert!(futures::FutureExt::now_or_never(client.send(sent, &line)).is_some());
}

#[test]
fn sse_frames_carry_the_sequence_as_their_id() {
    assert_eq!(frame(Framing::Sse, 7, b"{}"), "id: 7\ndata: {}\n\n");
}
