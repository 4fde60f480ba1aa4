//! Images that were damaged or made up: a restore refuses them or takes them, and never panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::LazyLock;

use dormouse_conformance::session::{Session, engine, settings};
use dormouse_engine::{EngineError, Image, PAGE_BYTES, Page};
use proptest::{prelude::*, test_runner::Config};

const CASES: u32 = 300;

/// A session with something of everything in its heap.
static GOOD: LazyLock<Image> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let mut session = Session::new(settings()).unwrap();
        session
            .begin("var a = [1, { b: new Map([[1, 2]]) }]; function* g() { yield 1 } var it = g(); setTimeout(() => a, 5); it.next()")
            .await
            .unwrap();
        session.instance.image().await
    })
});

#[derive(Debug, Clone)]
enum Damage {
    Size(u32),
    Global(String, u64),
    NoGlobals,
    Page(u32, u8),
    FlipBit(prop::sample::Index, usize),
    DropPage(prop::sample::Index),
    Host(u64, u64, f64, String),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        prop_oneof![any::<u32>(), (0..4096u32).prop_map(|n| n * 16)].prop_map(Damage::Size),
        ("[a-z_]{0,16}", any::<u64>()).prop_map(|(name, bits)| Damage::Global(name, bits)),
        any::<u64>().prop_map(|bits| Damage::Global("__stack_pointer".to_owned(), bits)),
        Just(Damage::NoGlobals),
        (any::<u32>(), any::<u8>()).prop_map(|(number, byte)| Damage::Page(number, byte)),
        (any::<prop::sample::Index>(), 0..PAGE_BYTES * 8).prop_map(|(page, bit)| Damage::FlipBit(page, bit)),
        any::<prop::sample::Index>().prop_map(Damage::DropPage),
        (any::<u64>(), any::<u64>(), any::<f64>(), ".{0,40}")
            .prop_map(|(ticks, blocks, began, name)| Damage::Host(ticks, blocks, began, name)),
    ]
}

fn apply(image: &mut Image, damage: &Damage) {
    let numbers: Vec<u32> = image.pages.keys().copied().collect();
    match damage {
        Damage::Size(pages) => image.memory_pages = *pages,
        Damage::Global(name, bits) => {
            image.globals.insert(name.clone(), *bits);
        }
        Damage::NoGlobals => image.globals.clear(),
        Damage::Page(number, byte) => {
            image.pages.insert(*number, Page::new([*byte; PAGE_BYTES]));
        }
        Damage::FlipBit(page, bit) if !numbers.is_empty() => {
            let number = page.get(&numbers);
            let mut bytes = *image.pages[number];
            bytes[bit / 8] ^= 1 << (bit % 8);
            image.pages.insert(*number, Page::new(bytes));
        }
        Damage::DropPage(page) if !numbers.is_empty() => {
            image.pages.remove(page.get(&numbers));
        }
        Damage::FlipBit(..) | Damage::DropPage(_) => {}
        Damage::Host(ticks, blocks, began, name) => {
            image.host.ticks = *ticks;
            image.host.entropy_blocks = *blocks;
            image.host.cell_began_ms = *began;
            image.host.cell_filename.clone_from(name);
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_damaged_image_is_refused_or_laid_back_as_it_is(all in prop::collection::vec(damage(), 1..4)) {
        let mut image = GOOD.clone();
        for damage in &all {
            apply(&mut image, damage);
        }
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            match engine().unwrap().restore(&image, &settings()).await {
                Err(EngineError::Image(why)) => prop_assert!(!why.is_empty()),
                Err(other) => prop_assert!(matches!(other, EngineError::Create(_)), "{other}"),
                Ok(mut instance) => {
                    let again = instance.image().await;
                    prop_assert_eq!(again.memory_pages, image.memory_pages);
                    // A page that equals the base image is not in an image: laid back, it is gone from the list.
                    for (number, page) in &again.pages {
                        prop_assert_eq!(Some(page), image.pages.get(number), "page {}", number);
                    }
                }
            }
            Ok(())
        })?;
    }
}
