//! Which pages a commit finds: what the page tables and the faults of an armed memory say, against every page.

use std::collections::BTreeMap;

use dormouse_engine::{Image, Page, Settings};
use serde_json::json;

use crate::support::{Session, real, restore, seeded};

/// Lays deltas over each other, as a store does.
struct Stored(Image);

impl Stored {
    async fn of(session: &mut Session) -> Self {
        let mut image = session.instance.image().await;
        image.pages = BTreeMap::new();
        let mut stored = Self(image);
        stored.commit(session).await;
        stored
    }

    async fn commit(&mut self, session: &mut Session) -> usize {
        let delta = session.instance.delta().await;
        session.instance.mark_committed();
        let pages = delta.pages.len();
        self.0.apply(delta);
        pages
    }

    /// The image without the pages that went back to the base.
    fn image(&self) -> Image {
        let differs = |page: &Page| page.iter().any(|byte| *byte != 0);
        let pages = self.0.pages.iter().filter(|(_, page)| differs(page)).map(|(number, page)| (*number, page.clone())).collect();
        Image { pages, ..self.0.clone() }
    }
}

/// Large enough to be armed, with room to grow.
const LARGE: &str = "var x = 0; var bytes = new Uint8Array(6e6).fill(7); var list = Array.from({ length: 20000 }, (_, i) => ({ i }))";

#[tokio::test]
async fn deltas_of_an_armed_memory_add_up_to_all_of_it() {
    let mut session = Session::new(real());
    session.cell(LARGE).await;
    let mut stored = Stored::of(&mut session).await;
    let cells = [
        "x++",
        "for (let i = 0; i < 6e6; i += 500000) bytes[i] = i",
        "list[7].i = 'seven'; list.length = 10000",
        "var more = new Uint8Array(9e6).fill(1)",
        "bytes.fill(3)",
        "more = null; bytes = null; list = null; x = 'small'",
        "var again = Array.from({ length: 5000 }, (_, i) => 'string ' + i); again.length",
    ];
    for code in cells {
        session.cell(code).await;
        stored.commit(&mut session).await;
        assert_eq!(stored.image(), session.instance.image().await, "after {code}");
    }
    let mut session = Session { instance: restore(&stored.image(), &real()).await, ..session };
    assert_eq!(session.value("[x, again[4999]]").await, json!(["small", "string 4999"]));
    session.cell("again[4999] = 1").await;
    stored.commit(&mut session).await;
    assert_eq!(stored.image(), session.instance.image().await);
}

#[tokio::test]
async fn one_changed_variable_in_a_large_heap_is_a_small_delta() {
    let mut session = Session::new(real());
    session.cell(LARGE).await;
    let mut stored = Stored::of(&mut session).await;
    session.cell("x++").await;
    stored.commit(&mut session).await;
    session.cell("x++").await;
    let pages = stored.commit(&mut session).await;
    assert!(pages <= 40, "{pages} pages");
    assert_eq!(session.value("x").await, json!(2));
}

#[tokio::test]
async fn more_writes_than_an_armed_memory_notes_one_by_one_are_all_found() {
    let mut session = Session::new(Settings { heap_bytes: 128 << 20, determinism: None });
    session.cell("var bytes = new Uint8Array(40e6).fill(1)").await;
    let mut stored = Stored::of(&mut session).await;
    // One byte in each chunk: more chunks than are opened one by one.
    for code in ["for (let i = 0; i < 40e6; i += 65536) bytes[i] = 2", "bytes[39e6] = 9", "bytes[0] = 9"] {
        session.cell(code).await;
        stored.commit(&mut session).await;
    }
    assert_eq!(stored.image(), session.instance.image().await);
}

#[tokio::test]
async fn a_delta_that_was_not_committed_is_found_again() {
    let mut session = Session::new(real());
    session.cell(LARGE).await;
    let mut stored = Stored::of(&mut session).await;
    session.cell("bytes[1000000] = 1").await;
    session.instance.delta().await;
    session.cell("bytes[5000000] = 1").await;
    stored.commit(&mut session).await;
    assert_eq!(stored.image(), session.instance.image().await);
}

#[tokio::test]
async fn pages_are_differences_to_the_base_image() {
    let mut session = Session::new(real());
    session.cell("var x = 1").await;
    let image = session.instance.image().await;
    let changed: usize = image.pages.values().map(|page| page.iter().filter(|byte| **byte != 0).count()).sum();
    assert!(changed * 10 < image.pages.len() * dormouse_engine::PAGE_BYTES, "{changed} bytes in {} pages", image.pages.len());
}

#[tokio::test]
async fn memory_that_was_given_back_is_missed_by_nobody() {
    let (mut giving, mut keeping) = (Session::new(seeded(3)), Session::new(seeded(3)));
    let mut stored = Stored::of(&mut giving).await;
    let cells = [
        "var x = 0; function f(n) { return n ? f(n - 1) + 1 : x++ }; f(200)",
        LARGE,
        "bytes.fill(0); list = null; f(3)",
        "bytes = new Uint8Array(9e6).fill(1); 0",
        "bytes = null; f(1)",
    ];
    for (number, code) in cells.into_iter().enumerate() {
        assert_eq!(giving.cell(code).await, keeping.cell(code).await, "{code}");
        // Also when the last changes are not committed yet.
        if number % 2 == 0 {
            stored.commit(&mut giving).await;
        }
        // Where the system does not say which pages are the instance's own, none are given back.
        assert_eq!(giving.instance.give_back() > 0, cfg!(all(target_os = "linux", not(feature = "portable"))), "after {code}");
        assert_eq!(giving.instance.give_back(), 0, "after {code}");
        assert_eq!(giving.instance.image().await, keeping.instance.image().await, "after {code}");
        stored.commit(&mut giving).await;
        assert_eq!(stored.image(), giving.instance.image().await, "after {code}");
    }
}

/// A memory too small to be armed: which of its pages are its own is read again only after a fault.
#[tokio::test(flavor = "multi_thread")]
async fn deltas_of_a_small_memory_add_up_to_all_of_it_wherever_its_code_has_run() {
    let mut session = Session::new(real());
    session.cell("var x = 0, kept = []").await;
    let mut stored = Stored::of(&mut session).await;
    for round in 0..60 {
        let code = match round % 6 {
            // Pages that were never written; in slices, which may be on several threads.
            1 => format!("kept.push(new Uint8Array(20000).fill({round})); for (let i = 0; i < 300000; i++) x += i % 3; x"),
            3 => "function f(n) { return n ? f(n - 1) + 1 : x++ }; f(150)".to_owned(),
            5 => "kept.shift(); kept.length".to_owned(),
            // Those that it has, again.
            _ => "x++".to_owned(),
        };
        let session_of_task = session;
        session = tokio::spawn(async move {
            let mut session = session_of_task;
            session.cell(&code).await;
            session
        })
        .await
        .unwrap();
        stored.commit(&mut session).await;
        assert_eq!(stored.image(), session.instance.image().await, "after {round}");
        if round % 20 == 19 {
            session.instance.give_back();
            let instance = restore(&stored.image(), &real()).await;
            session = Session { instance, ..session };
        }
    }
}
