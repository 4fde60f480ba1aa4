//! Engines of earlier builds: their sessions go on.

use dormouse_engine::{Engine, EngineError, EngineOptions, Engines};
use serde_json::json;

use crate::support::{ENGINE, Session, real};

fn engines() -> Engines {
    Engines::with_earlier(ENGINE.clone(), vec![Engine::twin(1).unwrap()])
}

#[tokio::test]
async fn a_session_of_an_earlier_engine_goes_on_in_it() {
    let engines = engines();
    let earlier = Engine::twin(1).unwrap();
    let digest = earlier.digest().as_str();
    assert_ne!(engines.current().digest(), earlier.digest());
    let mut session = Session { instance: engines.get(digest).unwrap().create(&real()).unwrap(), ..Session::new(real()) };
    session.cell("var counter = (() => { let n = 40; return () => ++n })(); counter()").await;
    let image = session.instance.image().await;
    let mut again = Session { instance: engines.loaded(digest).unwrap().restore(&image, &real()).await.unwrap(), ..session };
    assert_eq!(again.value("counter()").await, json!(42));
    assert_eq!(again.instance.engine().digest(), earlier.digest());
}

/// What every node downloads and every process compiles.
#[test]
fn the_engine_is_no_larger_than_it_may_be() {
    const ENGINE_BYTES_MAX: u64 = 8_000_000;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/engine");
    let current = std::fs::read_to_string(format!("{folder}/current.rs")).unwrap();
    let bytes = std::fs::metadata(format!("{folder}/{}", current.split('"').nth(1).unwrap())).unwrap().len();
    assert!(bytes <= ENGINE_BYTES_MAX, "{bytes} bytes");
}

/// A release that may be gone back to has no newer engine.
#[tokio::test]
async fn new_sessions_may_begin_with_an_earlier_engine_beside_those_of_the_newest() {
    let (newest, kept) = (ENGINE.digest().as_str(), Engines::digests().last().unwrap());
    assert_eq!(Engines::digests().next().as_deref(), Some(newest));
    assert_ne!(kept, newest);
    let engines = Engines::beginning_with(&kept, EngineOptions::for_user()).unwrap();
    assert_eq!(engines.current().digest().as_str(), kept);
    let mut session = Session { instance: engines.current().create(&real()).unwrap(), ..Session::new(real()) };
    assert_eq!(session.value("40 + 2").await, json!(42));
    assert_eq!(engines.get(newest).unwrap().digest().as_str(), newest);
    let unknown = "0".repeat(64);
    assert!(matches!(Engines::beginning_with(&unknown, EngineOptions::for_user()), Err(EngineError::UnknownEngine { .. })));
}

#[test]
fn an_unknown_engine_is_a_typed_error() {
    let engines = engines();
    let unknown = "0".repeat(64);
    assert!(matches!(engines.get(&unknown), Err(EngineError::UnknownEngine { digest }) if digest == unknown));
    // A known beginning is not a known digest.
    let other = format!("{}{}", &engines.current().digest().as_str()[..16], "0".repeat(48));
    assert!(matches!(engines.get(&other), Err(EngineError::UnknownEngine { .. })));
}
