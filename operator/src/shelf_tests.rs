use std::collections::BTreeSet;

use dormouse_control::session::Key;
use dormouse_store::Memory;

use super::*;

pub(crate) fn archived(name: &str, uid: &str) -> Archived {
    Archived {
        key: Key::new("team", name),
        uid: uid.to_owned(),
        labels: [("app".to_owned(), name.to_owned())].into(),
        annotations: Default::default(),
        created_time: Some("2026-01-01T00:00:00Z".to_owned()),
        archived_time: "2026-02-01T00:00:00Z".to_owned(),
        spec: Default::default(),
        status: Default::default(),
    }
}

fn shelf() -> Shelf {
    Shelf::new(Arc::new(Memory::new()), "p/", "here", "team")
}

/// All names, page by page, and how many pages there were.
async fn all(shelf: &Shelf, limit: usize) -> (Vec<String>, usize) {
    let (mut names, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = shelf.page(after.as_deref(), limit).await.unwrap();
        assert!(page.sessions.len() <= limit);
        names.extend(page.sessions.into_iter().map(|session| session.key.name));
        pages += 1;
        after = page.next;
        if after.is_none() {
            return (names, pages);
        }
    }
}

#[tokio::test]
async fn what_is_put_there_is_found_until_it_is_removed() {
    let shelf = shelf();
    assert_eq!(shelf.find("a").await.unwrap(), None);
    shelf.put(&archived("a", "u")).await.unwrap();
    shelf.put(&archived("a", "u")).await.unwrap();
    assert_eq!(shelf.find("a").await.unwrap(), Some(archived("a", "u")));
    assert!(matches!(shelf.put(&archived("a", "v")).await, Err(ShelfError::Refused(Refused::Taken))));
    shelf.remove("a", "v").await.unwrap();
    assert!(shelf.find("a").await.unwrap().is_some());
    shelf.remove("a", "u").await.unwrap();
    assert_eq!(shelf.find("a").await.unwrap(), None);
    shelf.clear().await.unwrap();
    assert!(shelf.store.list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn pages_tell_of_everybody_once() {
    let shelf = shelf();
    assert_eq!(all(&shelf, 10).await, (vec![], 1));
    let names: BTreeSet<String> = (0..300).map(|number| format!("s-{number}")).collect();
    for name in &names {
        shelf.put(&archived(name, name)).await.unwrap();
    }
    // Some in one group: a page may end in the middle of it.
    for limit in [1, 7, 64, 299, 300, 500] {
        let (told, pages) = all(&shelf, limit).await;
        assert_eq!((told.len(), told.into_iter().collect::<BTreeSet<_>>()), (300, names.clone()), "{limit}");
        assert!(pages >= 300 / limit, "{limit}");
    }
}

#[tokio::test]
async fn of_two_who_change_a_group_neither_loses() {
    let shelf = shelf();
    let same: Vec<String> = (0..100_000).map(|number| format!("s-{number}")).filter(|name| group_of(name) == "000").take(8).collect();
    assert_eq!(same.len(), 8);
    let puts = same.iter().map(|name| async { shelf.put(&archived(name, name)).await.unwrap() });
    futures::future::join_all(puts).await;
    assert_eq!(all(&shelf, 500).await.0, same.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_group_that_cannot_be_read_is_told_of() {
    let shelf = shelf();
    let key = shelf.key(&group_of("a"));
    shelf.store.put(&key, bytes::Bytes::from_static(b"?"), Condition::None).await.unwrap();
    let error = shelf.find("a").await.unwrap_err();
    assert!(error.to_string().contains(&key), "{error}");
    assert!(shelf.put(&archived("a", "u")).await.is_err(), "nothing is put over it");
}
