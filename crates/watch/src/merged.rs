//! Several watches as one.
//!
//! Whoever reads a watch takes the list between `Init` and `InitDone` for all that there is. So the lists of all watches are one list here, and when one
//! of them begins anew, all of them do: that is seldom, and then nothing has to be remembered of what each had told.

use std::collections::VecDeque;

use futures::{Stream, StreamExt as _, stream, stream::BoxStream, stream::SelectAll};
use kube::runtime::watcher::{self, Event};

type Watch<K> = BoxStream<'static, watcher::Result<Event<K>>>;
type Numbered<K> = BoxStream<'static, (usize, watcher::Result<Event<K>>)>;

struct Merged<K, B> {
    begin: B,
    watches: SelectAll<Numbered<K>>,
    /// Which of them have told their list.
    listed: Vec<bool>,
    /// Which of them have told some of it.
    told: Vec<bool>,
    next: VecDeque<watcher::Result<Event<K>>>,
}

/// The events of the watches that `begin` begins.
pub(crate) fn merged<K, B>(begin: B) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static
where
    K: Send + 'static,
    B: Fn() -> Vec<Watch<K>> + Send + 'static,
{
    let mut merged = Merged { begin, watches: SelectAll::new(), listed: Vec::new(), told: Vec::new(), next: VecDeque::new() };
    merged.begin_anew();
    stream::unfold(merged, |mut merged| async move {
        loop {
            if let Some(event) = merged.next.pop_front() {
                return Some((event, merged));
            }
            let (number, event) = merged.watches.next().await?;
            merged.take(number, event);
        }
    })
}

impl<K, B> Merged<K, B>
where
    K: Send + 'static,
    B: Fn() -> Vec<Watch<K>> + Send + 'static,
{
    fn begin_anew(&mut self) {
        let watches = (self.begin)();
        self.listed = vec![false; watches.len()];
        self.told = self.listed.clone();
        let numbered = watches.into_iter().enumerate().map(|(number, watch)| watch.map(move |event| (number, event)).boxed());
        self.watches = stream::select_all(numbered);
        self.next.push_back(Ok(Event::Init));
    }

    fn take(&mut self, number: usize, event: watcher::Result<Event<K>>) {
        let all_listed = self.listed.iter().all(|listed| *listed);
        match event {
            Ok(Event::Init) => {
                if [&self.listed, &self.told].iter().any(|of| of.get(number) == Some(&true)) {
                    self.begin_anew();
                }
            }
            Ok(Event::InitApply(object)) => {
                if let Some(told) = self.told.get_mut(number) {
                    *told = true;
                }
                self.next.push_back(Ok(Event::InitApply(object)));
            }
            Ok(Event::InitDone) => {
                if let Some(listed) = self.listed.get_mut(number) {
                    *listed = true;
                }
                if self.listed.iter().all(|listed| *listed) {
                    self.next.push_back(Ok(Event::InitDone));
                }
            }
            // Of a watch whose list is complete, while another's is on its way: it belongs to the list.
            Ok(Event::Apply(object)) if !all_listed => self.next.push_back(Ok(Event::InitApply(object))),
            // What the list has told already cannot be taken back.
            Ok(Event::Delete(_)) if !all_listed => self.begin_anew(),
            other => self.next.push_back(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    type Told = Vec<Vec<Event<u32>>>;

    /// What is read of watches that tell this, each time that they are begun; then of the next.
    async fn read(times: Vec<Told>) -> Vec<String> {
        let times = Arc::new(Mutex::new(VecDeque::from(times)));
        let begin = move || {
            let told = times.lock().unwrap().pop_front().unwrap_or_default();
            told.into_iter().map(|events| stream::iter(events.into_iter().map(Ok)).boxed()).collect::<Vec<Watch<u32>>>()
        };
        merged(begin).map(|event| format!("{:?}", event.unwrap())).collect().await
    }

    fn list(objects: &[u32]) -> Vec<Event<u32>> {
        let objects = objects.iter().copied().map(Event::InitApply);
        [Event::Init].into_iter().chain(objects).chain([Event::InitDone]).collect()
    }

    #[tokio::test]
    async fn the_lists_of_all_are_one_list() {
        let mut first = list(&[1]);
        first.push(Event::Apply(2));
        let told = read(vec![vec![first, list(&[7])]]).await;
        assert_eq!(told.first().map(String::as_str), Some("Init"));
        let done = told.iter().position(|event| event == "InitDone").unwrap();
        let objects = ["(1)", "(2)", "(7)"].map(|object| told.iter().filter(|event| event.contains(object)).count());
        assert_eq!(objects, [1, 1, 1], "{told:?}");
        assert!(told.iter().position(|event| event.contains("(7)")).unwrap() < done, "the list ends after all lists: {told:?}");
    }

    #[tokio::test]
    async fn a_change_after_the_list_is_one_and_one_before_its_end_belongs_to_it() {
        let mut changed = list(&[1]);
        changed.extend([Event::Apply(2), Event::Delete(2)]);
        assert_eq!(read(vec![vec![changed]]).await, ["Init", "InitApply(1)", "InitDone", "Apply(2)", "Delete(2)"]);
    }

    #[tokio::test]
    async fn when_one_begins_anew_all_do() {
        let mut again = list(&[1]);
        again.extend(list(&[3]));
        let told = read(vec![vec![again], vec![list(&[3])]]).await;
        assert_eq!(told, ["Init", "InitApply(1)", "InitDone", "Init", "InitApply(3)", "InitDone"]);
    }

    #[tokio::test]
    async fn one_that_fails_before_it_has_told_anything_keeps_the_others() {
        let mut late = vec![Event::Init];
        late.extend(list(&[2]));
        assert_eq!(read(vec![vec![late, list(&[])]]).await, ["Init", "InitApply(2)", "InitDone"]);
    }

    #[tokio::test]
    async fn what_goes_before_the_list_is_whole_is_not_in_it() {
        let mut gone = list(&[1]);
        gone.push(Event::Delete(1));
        let never = vec![Event::Init];
        let told = read(vec![vec![gone, never], vec![list(&[]), list(&[7])]]).await;
        assert_eq!(told, ["Init", "InitApply(1)", "Init", "InitApply(7)", "InitDone"]);
    }
}
