//! Streams of what changes in a session's own server: lists of tools, prompts and resources, resources that its cells say have changed, and tasks. What
//! is stored is compared with what was, whenever a cell has ended; so nothing is missed, whichever process the session is in, and nothing wakes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use dormouse_protocol::{
    ApiError,
    event::{Event, EventBody},
    file::FileList,
    kernel::McpCatalog,
};
use serde_json::{Value, json};

use super::{SCHEME, registered, runs, tasks, told::Told};
use crate::{
    audit::Act,
    directory::Key,
    doors::{
        desk::Desk,
        lines::{AGAIN, Events},
    },
};

/// Ends of cells that follow each other within this are looked at together.
const TOGETHER: Duration = Duration::from_millis(20);
/// Resources of one subscription.
const URIS_MAX: usize = 256;
/// Tasks of one subscription: as many as a session has runs.
const TASKS_MAX: usize = 64;
/// How a task is told of.
const TASK: &str = "notifications/tasks";
/// In what is told on a subscription: which.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a client wants to hear of.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wanted {
    /// What one request of the stateless revision has named.
    Named { id: Value, tools: bool, prompts: bool, resources: bool, uris: BTreeSet<String>, tasks: BTreeSet<String>, asks: bool },
    /// All lists, and what a client of an earlier revision has subscribed to.
    OfClient(String),
}

impl Wanted {
    /// What the parameters of `subscriptions/listen` name.
    pub(super) fn named(id: &Value, params: &Value) -> Self {
        let named = params.get("notifications").cloned().unwrap_or_default();
        let is = |name: &str| named.get(name).and_then(Value::as_bool).unwrap_or(false);
        let texts = |name: &str, max: usize| -> BTreeSet<String> {
            let all = named.get(name).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).take(max).collect()
        };
        let (uris, tasks) = (texts("resourceSubscriptions", URIS_MAX), texts("taskIds", TASKS_MAX));
        let (tools, prompts, resources) = (is("toolsListChanged"), is("promptsListChanged"), is("resourcesListChanged"));
        Self::Named { id: id.clone(), tools, prompts, resources, uris, tasks, asks: runs::can_be_asked(params) }
    }

    /// Whether it names tasks, of which only who knows them is told.
    pub(super) fn has_tasks(&self) -> bool {
        matches!(self, Self::Named { tasks, .. } if !tasks.is_empty())
    }

    /// Leaves out tasks that there are not.
    fn without_unknown(mut self, seen: &Seen) -> Self {
        if let Self::Named { tasks, .. } = &mut self {
            tasks.retain(|task| seen.tasks.contains_key(task));
        }
        self
    }

    /// What the client is told that it will hear of.
    fn acknowledged(&self) -> Option<Value> {
        let Self::Named { tools, prompts, resources, uris, tasks, .. } = self else { return None };
        let mut honored = json!({});
        for (name, wanted) in [("toolsListChanged", tools), ("promptsListChanged", prompts), ("resourcesListChanged", resources)] {
            if *wanted {
                honored[name] = json!(true);
            }
        }
        for (name, wanted) in [("resourceSubscriptions", uris), ("taskIds", tasks)] {
            if !wanted.is_empty() {
                honored[name] = json!(wanted);
            }
        }
        Some(json!({ "notifications": honored }))
    }

    fn uris(&self, catalog: &McpCatalog) -> BTreeSet<String> {
        match self {
            Self::Named { uris, .. } => uris.clone(),
            Self::OfClient(id) => catalog.clients.get(id).into_iter().flat_map(|client| client.uris.iter().cloned()).collect(),
        }
    }
}

/// What a client is answered at the end, which the server has brought about.
pub(super) fn over(id: &Value) -> Value {
    json!({ "resultType": "complete", "_meta": { SUBSCRIPTION: id } })
}

/// What was there when it was looked at last.
struct Seen {
    catalog: McpCatalog,
    files: FileList,
    /// Tasks, by id.
    tasks: BTreeMap<String, Value>,
}

/// A client that is told.
pub(super) struct Listener {
    desk: Desk,
    key: Key,
    wanted: Wanted,
    events: Events,
    seen: Seen,
}

impl Listener {
    /// Begins: whatever changes from here on is told.
    ///
    /// # Errors
    /// The session cannot be read, or is no more.
    pub(super) async fn begin(desk: Desk, key: Key, wanted: Wanted) -> Result<Self, ApiError> {
        let frames = desk.audited(Act::Read, &key, "events", desk.coming_events(&key)).await?;
        let events = Events::looking(&desk, frames);
        let seen = look(&desk, &key, &wanted, None).await?;
        Ok(Self { desk, key, wanted: wanted.without_unknown(&seen), events, seen })
    }

    /// Tells the client of what changes, as long as it is there.
    ///
    /// # Errors
    /// As of [`Self::begin`].
    pub(super) async fn follow(mut self, told: &Told) -> Result<(), ApiError> {
        if let Some(acknowledged) = self.wanted.acknowledged() {
            tell(told, &self.wanted, "notifications/subscriptions/acknowledged", acknowledged).await;
        }
        // A task may be another than when its client saw it last.
        for task in self.seen.tasks.values() {
            tell(told, &self.wanted, TASK, task.clone()).await;
        }
        loop {
            let change = tokio::select! {
                () = told.left() => return Ok(()),
                change = change(&mut self.events) => change?,
            };
            if change == Change::Over {
                tokio::time::sleep(AGAIN).await;
                self.events = Events::looking(&self.desk, self.desk.coming_events(&self.key).await?);
            }
            // To look at files wakes a session, which only one that has just run a cell needs not.
            let files = (change != Change::Ended).then(|| self.seen.files.clone());
            let now = look(&self.desk, &self.key, &self.wanted, files).await?;
            for (method, params) in differences(&self.key, &self.wanted, &self.seen, &now) {
                tell(told, &self.wanted, method, params).await;
            }
            self.seen = now;
        }
    }
}

async fn tell(told: &Told, wanted: &Wanted, method: &str, mut params: Value) {
    if let Wanted::Named { id, .. } = wanted {
        params["_meta"] = json!({ SUBSCRIPTION: id });
    }
    told.notify(method, params).await;
}

/// What may have changed something.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    /// A cell has ended.
    Ended,
    /// The session sleeps, or is somewhere else.
    Moved,
    /// The events are over: follow them again.
    Over,
}

async fn change(events: &mut Events) -> Result<Change, ApiError> {
    let mut change = next_change(events).await?;
    let together = tokio::time::sleep(TOGETHER);
    tokio::pin!(together);
    loop {
        match change {
            Change::Over => return Ok(Change::Over),
            Change::Ended | Change::Moved => {
                let more = tokio::select! {
                    () = &mut together => return Ok(change),
                    more = next_change(events) => more?,
                };
                if change == Change::Moved || more == Change::Over {
                    change = more;
                }
            }
        }
    }
}

async fn next_change(events: &mut Events) -> Result<Change, ApiError> {
    loop {
        let Some(line) = events.next().await else { return Ok(Change::Over) };
        match serde_json::from_slice::<Event>(&line).map(|event| event.body) {
            Ok(EventBody::Final { .. }) => return Ok(Change::Ended),
            Ok(EventBody::State { .. }) => return Ok(Change::Moved),
            Ok(EventBody::Error { code, message }) => return Err(ApiError::new(code, message)),
            _ => {}
        }
    }
}

async fn look(desk: &Desk, key: &Key, wanted: &Wanted, before: Option<FileList>) -> Result<Seen, ApiError> {
    let catalog = registered::catalog(desk, key).await?;
    let tasks = look_at_tasks(desk, key, wanted).await?;
    if let Some(files) = before {
        return Ok(Seen { catalog, files, tasks });
    }
    let of_files = wanted.uris(&catalog).iter().any(|uri| uri.starts_with(SCHEME));
    let files = if of_files { desk.files_to_look(key, "/", true).await? } else { FileList::default() };
    Ok(Seen { catalog, files, tasks })
}

async fn look_at_tasks(desk: &Desk, key: &Key, wanted: &Wanted) -> Result<BTreeMap<String, Value>, ApiError> {
    let mut seen = BTreeMap::new();
    let Wanted::Named { tasks, asks, .. } = wanted else { return Ok(seen) };
    if tasks.is_empty() {
        return Ok(seen);
    }
    let (all, before) = (desk.runs_to_look(key).await?, format!("{}/{}/", key.namespace, key.name));
    for id in tasks {
        if let Some(task) = id.strip_prefix(&before)
            && let Ok(shown) = tasks::show(desk, key, task, *asks, &all).await
        {
            seen.insert(id.clone(), shown);
        }
    }
    Ok(seen)
}

/// A task without the time of it.
fn standing(task: &Value) -> Value {
    let mut task = task.clone();
    task["lastUpdatedAt"] = Value::Null;
    task
}

fn differences(key: &Key, wanted: &Wanted, before: &Seen, now: &Seen) -> Vec<(&'static str, Value)> {
    let (tools, prompts, resources) = match wanted {
        Wanted::Named { tools, prompts, resources, .. } => (*tools, *prompts, *resources),
        Wanted::OfClient(_) => (true, true, true),
    };
    let (was, is) = (&before.catalog, &now.catalog);
    let mut told = Vec::new();
    for (differs, method) in [
        (tools && was.tools != is.tools, "notifications/tools/list_changed"),
        (prompts && was.prompts != is.prompts, "notifications/prompts/list_changed"),
        (resources && was.resources != is.resources, "notifications/resources/list_changed"),
    ] {
        if differs {
            told.push((method, json!({})));
        }
    }
    let base = format!("{SCHEME}{}/{}", key.namespace, key.name);
    for uri in wanted.uris(is) {
        let differs = match uri.strip_prefix(&base) {
            Some(path) => {
                let file = |of: &Seen| of.files.items.iter().find(|file| file.path == path).cloned();
                wanted.uris(was).contains(&uri) && file(before) != file(now)
            }
            None => is.updated.get(&uri).is_some_and(|number| was.updated.get(&uri) != Some(number)),
        };
        if differs {
            told.push(("notifications/resources/updated", json!({ "uri": uri })));
        }
    }
    let others = now.tasks.iter().filter(|(id, task)| before.tasks.get(*id).map(standing) != Some(standing(task)));
    told.extend(others.map(|(_, task)| (TASK, task.clone())));
    told
}

#[cfg(test)]
mod tests {
    use dormouse_protocol::kernel::{McpClient, McpPrompt, McpTool};

    use super::*;

    fn seen(catalog: McpCatalog) -> Seen {
        Seen { catalog, files: FileList::default(), tasks: BTreeMap::new() }
    }

    #[test]
    fn a_client_hears_of_what_it_asked_for() {
        let key = Key::new("ns", "s");
        let params = json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["a://b"] } });
        let wanted = Wanted::named(&json!(7), &params);
        assert_eq!(wanted.acknowledged(), Some(params));
        let mut now = McpCatalog::default();
        now.tools.insert("t".to_owned(), McpTool::default());
        now.prompts.insert("p".to_owned(), McpPrompt::default());
        now.updated.insert("a://b".to_owned(), 2);
        now.updated.insert("a://c".to_owned(), 1);
        let was = seen(McpCatalog::default());
        let told = differences(&key, &wanted, &was, &seen(now.clone()));
        let updated = ("notifications/resources/updated", json!({ "uri": "a://b" }));
        assert_eq!(told, [("notifications/tools/list_changed", json!({})), updated]);
        assert_eq!(differences(&key, &wanted, &seen(now.clone()), &seen(now.clone())), []);

        let wanted = Wanted::OfClient("e-1".to_owned());
        now.clients.insert("e-1".to_owned(), McpClient { level: None, uris: vec!["a://c".to_owned()] });
        let methods: Vec<_> = differences(&key, &wanted, &was, &seen(now)).into_iter().map(|(method, _)| method).collect();
        let lists = ["notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/updated"];
        assert_eq!(methods, lists);
        let nothing = Wanted::named(&json!(7), &json!({}));
        assert_eq!(nothing.acknowledged(), Some(json!({ "notifications": {} })));
    }

    #[test]
    fn a_client_hears_of_its_tasks_that_there_are() {
        let key = Key::new("ns", "s");
        let of = |status: &str, at: &str| {
            let task = json!({ "taskId": "ns/s/r_1", "status": status, "lastUpdatedAt": at });
            Seen { tasks: [("ns/s/r_1".to_owned(), task)].into_iter().collect(), ..seen(McpCatalog::default()) }
        };
        let wanted = Wanted::named(&json!(7), &json!({ "notifications": { "taskIds": ["ns/s/r_1", "ns/s/r_2"] } }));
        assert!(wanted.has_tasks() && !Wanted::named(&json!(7), &json!({})).has_tasks());
        let wanted = wanted.without_unknown(&of("working", "1"));
        assert_eq!(wanted.acknowledged(), Some(json!({ "notifications": { "taskIds": ["ns/s/r_1"] } })));
        assert_eq!(differences(&key, &wanted, &of("working", "1"), &of("working", "2")), []);
        let told = differences(&key, &wanted, &of("working", "1"), &of("completed", "2"));
        assert_eq!((told[0].0, &told[0].1["status"], told.len()), ("notifications/tasks", &json!("completed"), 1));
    }
}
