//! Engines of earlier builds: their sessions go on.

use dormouse_engine::{EngineError, EngineOptions, Engines};
use serde_json::json;

use crate::support::{Session, real};

#[tokio::test]
async fn a_session_of_an_earlier_engine_goes_on_in_it() {
    let engines = Engines::new(EngineOptions::default()).unwrap();
    let digests: Vec<String> = engines.earlier().collect();
    assert!(!digests.is_empty(), "no earlier engine is kept");
    for digest in digests {
        assert!(engines.loaded(&digest).is_none_or(|engine| engine.digest() == engines.current().digest()));
        let engine = engines.get(&digest).unwrap();
        assert_eq!(engine.digest().as_str(), digest);
        let mut session = Session { instance: engine.create(&real()).unwrap(), ..Session::new(real()) };
        session.cell("var counter = (() => { let n = 40; return () => ++n })(); counter()").await;
        let image = session.instance.image();
        let mut again = Session { instance: engines.get(&digest).unwrap().restore(&image, &real()).unwrap(), ..session };
        assert_eq!(again.value("counter()").await, json!(42), "{digest}");
        assert_eq!(again.instance.engine().digest().as_str(), digest);
        assert!(engines.loaded(&digest).is_some());
    }
}

#[test]
fn an_unknown_engine_is_a_typed_error() {
    let engines = Engines::new(EngineOptions::default()).unwrap();
    let unknown = "0".repeat(64);
    assert!(matches!(engines.get(&unknown), Err(EngineError::UnknownEngine { digest }) if digest == unknown));
    // A known beginning is not a known digest.
    let earlier = engines.earlier().next().unwrap();
    let other = format!("{}{}", &earlier[..16], "0".repeat(48));
    assert!(matches!(engines.get(&other), Err(EngineError::UnknownEngine { .. })));
}
