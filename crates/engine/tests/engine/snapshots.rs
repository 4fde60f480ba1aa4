//! What a restore brings back.

use dormouse_engine::{EngineError, Image, OpKind, OpResult, PAGE_BYTES};
use serde_json::json;

use crate::support::{ENGINE, Session, real, restore, seeded};

const SETUP: &[&str] = &[
    "var x=41",
    "function mk(){let n=10; return ()=>++n}; var c=mk(); c(); c()",
    "function* g(){ let i=0; while(true) { try { yield i++ } finally {} } }; var it=g(); it.next(); it.next().value",
    "var p=new Promise(r=>{globalThis.res=r}); globalThis.got=null; (async()=>{ let a=await p; for (const k of [1,2]) a+=await Promise.resolve(k); globalThis.got=a; console.log('async done '+a) })(); 1",
    "var A=class A { #s=5; get s(){return this.#s} inc(){this.#s++} }; var a=new A(); a.inc(); var m=new Map([[a,'k']]); var w=new WeakRef(a); var ws=new WeakMap([[a,9]]); m.size",
    "var ta=new Float64Array(1000).map((_, i)=>Math.sqrt(i)); var big=2n**200n; var re=/(\\d+)-(?<y>\\w+)/g; var s=Symbol('q'); var o={[s]:1}; ta[999]",
    "var garbage=[]; for(let i=0;i<20000;i++) garbage.push({i, s:'str'+i}); garbage.length=100; garbage.length",
];

const AFTER: &[(&str, &str)] = &[
    ("x+1", "42"),
    ("c()", "13"),
    ("it.next().value", "2"),
    ("res(100); 0", "0"),
    ("got", "103"),
    ("a.s + m.get(a) + (w.deref()===a) + ws.get(a)", "\"6ktrue9\""),
    ("ta[4]+String(big).length + re.exec('12-ab 34-cd').groups.y", "\"63ab\""),
    ("o[s] + s.description", "\"1q\""),
    ("garbage[99].s", "\"str99\""),
    ("x='é😀'+x; x", "\"é😀41\""),
];

async fn set_up(settings: dormouse_engine::Settings) -> Session {
    let mut session = Session::new(settings);
    for code in SETUP {
        let cell = session.cell(code).await;
        assert!(cell.ok, "{code}: {:?}", cell.error);
    }
    session
}

#[tokio::test]
async fn everything_alive_is_alive_after_a_restore() {
    let mut session = set_up(real()).await.hibernate().await;
    for (code, expected) in AFTER {
        assert_eq!(session.value(code).await.to_string(), *expected, "{code}");
    }
}

#[tokio::test]
async fn a_seed_gives_byte_identical_memory_also_across_a_restore() {
    let mut first = set_up(seeded(7)).await;
    let mut second = set_up(seeded(7)).await;
    assert_eq!(first.instance.image().await, second.instance.image().await);
    second = second.hibernate().await;
    for (code, _) in AFTER.iter().chain(&[("[Math.random(), Date.now(), crypto.randomUUID()]", "")]) {
        assert_eq!(first.value(code).await, second.value(code).await, "{code}");
    }
    assert_eq!(first.instance.image().await, second.instance.image().await);
    let mut other = set_up(seeded(8)).await;
    assert_ne!(first.value("Math.random()").await, other.value("Math.random()").await);
}

/// A pod gives the room of a session that has left to the next one.
#[tokio::test]
async fn whoever_comes_next_finds_no_byte_of_who_was_there_before() {
    let first = set_up(seeded(7)).await.instance.image().await;
    for other in 0..4 {
        let mut before = Session::new(seeded(other));
        let length = before.value("var kept = new Uint8Array(24 << 20).fill(0xa5), text = 'who was here'.repeat(1e6); kept.length").await;
        assert_eq!(length, json!(24 << 20));
        assert!(before.instance.image().await.page_bytes() > 24 << 20);
        drop(before);
        let mut next = set_up(seeded(7)).await;
        assert!(next.instance.image().await == first, "byte by byte as the first was");
        assert_eq!(next.value("new Uint8Array(32 << 20).some(Boolean)").await, json!(false));
    }
}

/// What the work came to, and how often others had a turn meanwhile.
async fn with_turns<T>(work: impl Future<Output = T>) -> (T, usize) {
    let (mut work, mut turns) = (std::pin::pin!(work), 0);
    let done = std::future::poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        turns += usize::from(polled.is_pending());
        polled
    });
    (done.await, turns)
}

/// A large heap once held a thread, and everybody who waited for it, until all its pages were gone through.
#[tokio::test]
async fn whatever_goes_through_many_pages_lets_others_go_on_in_between() {
    const TURNS_MIN: usize = 20;
    let mut session = Session::new(real());
    session.value("var kept = new Uint8Array(24 << 20).fill(7); kept.length").await;
    let (delta, turns) = with_turns(session.instance.delta()).await;
    assert!(turns >= TURNS_MIN, "{turns} for {} bytes", delta.page_bytes());
    let (image, turns) = with_turns(session.instance.image()).await;
    assert!(turns >= TURNS_MIN, "{turns} for {} bytes", image.page_bytes());
    let (mut again, turns) = with_turns(restore(&image, &real())).await;
    assert!(turns >= TURNS_MIN, "{turns} for {} bytes", image.page_bytes());
    assert_eq!(again.image().await, image);
}

#[tokio::test]
async fn without_a_seed_two_restores_draw_different_numbers() {
    let mut session = Session::new(real());
    session.cell("Math.random()").await;
    let image = session.instance.image().await;
    let mut draws = Vec::new();
    for _ in 0..2 {
        let mut again = Session { instance: restore(&image, &real()).await, settings: real(), budget: session.budget };
        draws.push(again.value("[Math.random(), crypto.randomUUID()]").await);
    }
    assert_ne!(draws[0][0], draws[1][0]);
    assert_ne!(draws[0][1], draws[1][1]);
}

#[tokio::test]
async fn timers_and_tool_calls_wait_across_a_restore() {
    let mut session = Session::new(real());
    let turn = session.turn("await sleep(7 * 24 * 3600 * 1000); var r = await callTool('getWidget', {id: 'w1'}); r.name", true).await;
    assert_eq!(turn.cell, None);
    assert_eq!(crate::support::timer(&turn.ops[0]), 604_800_000.0);
    let mut session = session.hibernate().await;
    let turn = session.deliver(turn.ops[0].id, OpResult::Fired).await;
    assert_eq!(turn.ops[0].kind, OpKind::Tool { name: "getWidget".to_owned(), args: json!({"id": "w1"}), reference: None });
    assert!(turn.ops[0].id > 1);
    let mut session = session.hibernate().await;
    let turn = session.deliver(turn.ops[0].id, OpResult::Ok(json!({"name": "Widget"}))).await;
    assert_eq!(turn.cell.unwrap().value, Some(json!("Widget")));
    assert_eq!(session.value("r.name").await, json!("Widget"));
}

#[tokio::test]
async fn deltas_add_up_to_the_image() {
    let mut session = Session::new(real());
    let mut kept: Option<Image> = None;
    for code in ["var a = 1", "var list = Array.from({length: 5000}, (_, i) => ({i}))", "list.length = 10; a = 2"] {
        session.cell(code).await;
        let delta = session.instance.delta().await;
        session.instance.mark_committed();
        match &mut kept {
            Some(image) => image.apply(delta),
            None => {
                let mut image = session.instance.image().await;
                image.pages.clear();
                image.apply(delta);
                kept = Some(image);
            }
        }
    }
    let kept = kept.unwrap();
    let mut again = Session { instance: restore(&kept, &real()).await, settings: real(), budget: session.budget };
    assert_eq!(again.instance.image().await, session.instance.image().await);
    assert_eq!(again.value("[a, list.length, list[9].i]").await, json!([2, 10, 9]));
}

#[tokio::test]
async fn a_small_change_is_a_small_delta() {
    let mut session = Session::new(real());
    session.cell("var counter = 0; var table = Array.from({length: 10000}, (_, i) => ({i}))").await;
    session.instance.delta().await;
    session.instance.mark_committed();
    assert!(session.instance.delta().await.pages.is_empty());
    session.cell("counter += 1").await;
    let pages = session.instance.delta().await.pages.len();
    assert!(pages * PAGE_BYTES <= 200_000, "{pages} pages");
    let all = session.instance.image().await.pages.len();
    assert!(pages * 4 < all, "{pages} of {all} pages");
}

#[tokio::test]
async fn hostile_images_are_refused() {
    let good = Session::new(real()).instance.image().await;
    let bad = [
        Image { memory_pages: 16, ..good.clone() },
        Image { memory_pages: good.memory_pages + 1, ..good.clone() },
        Image { memory_pages: u32::MAX - 15, ..good.clone() },
        Image { globals: [("__stack_pointer".to_owned(), 64)].into(), ..good.clone() },
        Image { globals: Default::default(), ..good.clone() },
        Image { pages: [(good.memory_pages, std::sync::Arc::new([1; PAGE_BYTES]))].into(), ..good.clone() },
    ];
    for image in &bad {
        assert!(matches!(ENGINE.restore(image, &real()).await, Err(EngineError::Image(_))));
    }
    ENGINE.restore(&good, &real()).await.unwrap();
}

#[tokio::test]
async fn an_image_of_noise_harms_only_its_own_instance() {
    let mut session = Session::new(real());
    session.cell("var a = [1, 2, 3]").await;
    let mut image = session.instance.image().await;
    let noise = std::sync::Arc::new([0xa5; PAGE_BYTES]);
    let pages: Vec<u32> = image.pages.keys().copied().collect();
    image.pages.extend(pages.into_iter().map(|number| (number, noise.clone())));
    let mut broken = restore(&image, &real()).await;
    let cell = dormouse_engine::CellSource { code: "a.length".to_owned(), ..Default::default() };
    let first = broken.eval(&cell, &session.budget).await;
    if first.is_err() {
        assert!(matches!(broken.eval(&cell, &session.budget).await, Err(EngineError::Poisoned)));
    }
    assert_eq!(session.value("a.length").await, json!(3));
}
