//! Heaps that were damaged on purpose: laid back, they run whatever they are made of, and nothing of the host is theirs.

use std::{sync::LazyLock, time::Duration};

use dormouse_engine::{Budget, CellSource, EngineError, Image, OpResult, PAGE_BYTES, Page};

use super::bytes::Bytes;
use crate::session::{Session, engine, settings};

/// Changes to one heap.
const CHANGES_MAX: usize = 64;

const BUDGET: Budget = Budget { wall: Duration::from_millis(20), ticks: 2000, output_bytes: 1 << 16, pending_operations: 16 };

/// A session with something of everything in its heap.
static GOOD: LazyLock<Option<Image>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
    runtime.block_on(async {
        let mut session = Session::new(settings()).ok()?;
        session
            .begin("var a = [1, { b: new Map([[1, 2]]) }]; function* g() { yield 1 } var it = g(); setTimeout(() => a, 5); it.next()")
            .await
            .ok()?;
        Some(session.instance.image().await)
    })
});

/// Changes, then a cell and an answer. Only typed errors come of it.
pub(super) fn image(data: &[u8]) {
    let Some(mut image) = GOOD.clone() else { return };
    let mut data = Bytes(data);
    for _ in 0..CHANGES_MAX {
        if data.is_empty() {
            break;
        }
        change(&mut image, &mut data);
    }
    let Ok(engine) = engine() else { return };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    runtime.block_on(async {
        let Ok(mut instance) = engine.restore(&image, &settings()).await else { return };
        let cell =
            CellSource { code: "globalThis.a?.push?.(it?.next?.()); [a, 1 + 1]".to_owned(), filename: "f.js".to_owned(), is_async: false };
        let answers = [instance.eval(&cell, &BUDGET).await, instance.deliver(1, &OpResult::Fired, &BUDGET).await];
        let lost = answers.iter().any(Result::is_err);
        let [_, after] = answers;
        assert!(!lost || matches!(after, Err(EngineError::Poisoned)) || after.is_err(), "a lost instance goes on");
        let (delta, image) = (instance.delta().await, instance.image().await);
        assert!(!lost || (delta.pages.is_empty() && image.pages.is_empty()), "a lost instance has pages");
    });
}

fn change(image: &mut Image, data: &mut Bytes<'_>) {
    match data.u8() {
        0 => image.memory_pages = data.u32(),
        1 => {
            let (name, bits) = (String::from_utf8_lossy(data.counted()).into_owned(), data.u64());
            image.globals.insert(name, bits);
        }
        2 => image.host.ticks = data.u64(),
        3 => image.host.entropy_blocks = data.u64(),
        4 => image.host.cell_began_ms = f64::from_bits(data.u64()),
        5 => image.host.heap_bytes = data.u64(),
        6 => {
            image.pages.insert(data.u32(), Page::new([data.u8(); PAGE_BYTES]));
        }
        7 => {
            let number = nth(image, data.u16());
            image.pages.remove(&number);
        }
        kind => {
            let number = nth(image, data.u16());
            let (at, xor) = (usize::from(data.u16()) % PAGE_BYTES, data.u32().to_le_bytes());
            let mut page = image.pages.get(&number).map_or([0; PAGE_BYTES], |page| **page);
            for (byte, xor) in page.iter_mut().skip(at).zip(xor.iter().take(1 + usize::from(kind) % xor.len())) {
                *byte ^= xor;
            }
            image.pages.insert(number, Page::new(page));
        }
    }
}

fn nth(image: &Image, number: u16) -> u32 {
    image.pages.keys().nth(usize::from(number) % image.pages.len().max(1)).copied().unwrap_or(0)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        vec![8, 3, 0, 40, 0, 1, 2, 3, 4],
        vec![0, 0, 0, 0, 0],
        vec![7, 2, 0, 6, 9, 0, 0, 0, 255],
        [&[1, 15, 0][..], b"__stack_pointer", &[1; 8]].concat(),
    ]
}
