//! Functions of a session whose calls are tasks of MCP clients: they ask, go on after a kill, are cancelled, and end as the call would have.

use dormouse_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::{
    mcp::{Client, Stream, register_documented},
    support::Dev,
};

/// Functions that are tasks. `began` counts how often `order` was begun.
const FUNCTIONS: &str = "let began = 0; const form = (name) => ({ type: 'object', properties: { [name]: { type: 'string' } }, required: [name] }); \
    const ask = (key, message) => mcp.elicit({ key, message, requestedSchema: form('said') }).then(({ action, content }) => content?.said ?? action); \
    mcp.tool('order', { task: 'optional' }, async () => { began += 1; \
      const [who, what] = await Promise.all([ask('who', 'Who?'), ask('what', 'What?')]); return { began, who, what, sure: await ask('who', 'Sure?') } }); \
    mcp.tool('ahead', { task: 'optional', before: () => ask('who', 'Who?') }, async (args, who) => ({ who, more: await ask('more', 'More?') })); \
    mcp.tool('must', { task: 'required' }, () => { throw new Error('no luck') }); \
    mcp.tool('lacks', { task: 'optional' }, () => mcp.sample({ messages: [], maxTokens: 5 })); \
    mcp.tool('fits', { task: 'optional' }, () => 'x'.repeat(8000 - 2)); \
    mcp.tool('large', { task: 'optional' }, () => 'x'.repeat(20000)); \
    mcp.tool('slow', { task: 'optional' }, () => new Promise((done) => setTimeout(done, 600000))); \
    [0, 'sometimes'].map((task) => { try { mcp.tool('none', { task }, () => 1) } catch (error) { return error.name } }).join()";

fn knows() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

fn accept(said: &str) -> Value {
    json!({ "action": "accept", "content": { "said": said } })
}

/// A task of a client.
struct Task<'a> {
    client: &'a Client,
    id: Value,
}

impl<'a> Task<'a> {
    /// That of a call.
    async fn of(client: &'a Client, name: &str) -> Self {
        let created = client.result("tools/call", json!({ "name": name })).await;
        assert_eq!((&created["resultType"], created.get("result")), (&json!("task"), None), "{created}");
        Self { client, id: created["taskId"].clone() }
    }

    async fn get(&self) -> Value {
        self.client.result("tasks/get", json!({ "taskId": self.id })).await
    }

    /// It, once it has this status.
    async fn is(&self, status: &str) -> Value {
        eventually(status, async || self.get().await["status"] == status).await;
        self.get().await
    }

    /// The names of what it asks.
    async fn asks(&self) -> Vec<String> {
        let asks = self.is("input_required").await["inputRequests"].clone();
        asks.as_object().unwrap().keys().cloned().collect()
    }

    async fn update(&self, responses: Value) -> Value {
        self.client.ask("tasks/update", json!({ "taskId": self.id, "inputResponses": responses })).await.1
    }

    async fn answers(&self, responses: Value) {
        let acknowledged = self.update(responses).await;
        assert_eq!(acknowledged["result"], json!({ "resultType": "complete" }), "{acknowledged}");
    }

    async fn cancel(&self) {
        let acknowledged = self.client.result("tasks/cancel", json!({ "taskId": self.id })).await;
        assert_eq!(acknowledged, json!({ "resultType": "complete" }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_asks_its_client_and_goes_on_where_it_asked_after_kills() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval(FUNCTIONS), "'TypeError,TypeError'", "a word that is none is refused");
    let client = Client::new(&dev, knows());
    let id = Task::of(&client, "order").await.id;
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    let client = Client::new(&dev, knows());
    let task = Task { client: &client, id: id.clone() };
    assert_eq!(task.asks().await, ["what", "who"]);
    assert_eq!(task.get().await["inputRequests"]["who"]["params"]["message"], "Who?");
    assert_eq!(dev.eval("began"), "1", "who is asked holds up nobody");
    for wrong in [json!({ "who": 7 }), json!({ "who": { "action": "perhaps" } }), json!({ "who": { "action": "accept", "content": {} } })] {
        assert_eq!(task.update(wrong.clone()).await["error"]["code"], -32602, "{wrong}");
    }
    task.answers(json!({ "other": { "action": "accept" }, "approval-a_9-1": { "action": "accept" } })).await;
    assert_eq!(task.asks().await, ["what", "who"], "what is no answer to it changes nothing");
    task.answers(json!({ "who": accept("A") })).await;
    let (status, left) = (task.get().await["status"].clone(), task.asks().await);
    assert_eq!((status, left), (json!("input_required"), vec!["what".to_owned()]), "the other question is open still");
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    let client = Client::new(&dev, knows());
    let task = Task { client: &client, id };
    assert_eq!(task.asks().await, ["what"]);
    task.answers(json!({ "what": { "action": "decline" } })).await;
    eventually("it asks again", async || task.asks().await != ["what"]).await;
    let [again]: [String; 1] = task.asks().await.try_into().unwrap();
    assert_ne!(again, "who", "a name is one question's only");
    task.answers(json!({ "who": accept("late") })).await;
    task.answers(json!({ again: accept("B") })).await;
    let done = task.is("completed").await;
    let expected = json!({ "began": 1, "who": "A", "what": "decline", "sure": "B" });
    assert_eq!((&done["result"]["structuredContent"], &done["result"]["isError"]), (&expected, &json!(false)), "{done}");
    task.cancel().await;
    task.answers(json!({ "what": accept("late") })).await;
    assert_eq!(task.get().await, done, "what has ended stays as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_task_only_of_who_knows_tasks_and_behind_what_it_asks_before() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval(FUNCTIONS);
    let plain = Client::new(&dev, json!({ "elicitation": {} }));
    let asked = plain.result("tools/call", json!({ "name": "order" })).await;
    assert_eq!((&asked["resultType"], asked.get("taskId")), (&json!("input_required"), None), "{asked}");
    let (status, refused) = plain.ask("tools/call", json!({ "name": "must" })).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32021)), "{refused}");
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));

    let client = Client::new(&dev, knows());
    let call = |asked: &Value, who: &str| json!({ "name": "ahead", "inputResponses": { "who": accept(who) }, "requestState": asked["requestState"] });
    let asked = client.result("tools/call", json!({ "name": "ahead" })).await;
    assert_eq!((&asked["resultType"], asked.get("taskId")), (&json!("input_required"), None), "{asked}");
    assert_eq!(plain.ask("tools/call", call(&asked, "A")).await.1["error"]["code"], -32602, "who does not say it any more gets no task");
    let asked = client.result("tools/call", json!({ "name": "ahead" })).await;
    let created = client.result("tools/call", call(&asked, "A")).await;
    let again = client.result("tools/call", call(&asked, "A")).await;
    assert_eq!((&created["resultType"], &created["taskId"]), (&json!("task"), &again["taskId"]), "{created}");
    let task = Task { client: &client, id: created["taskId"].clone() };
    assert_eq!(task.asks().await, ["more"]);
    task.answers(json!({ "more": accept("B") })).await;
    assert_eq!(task.is("completed").await["result"]["structuredContent"], json!({ "who": "A", "more": "B" }));
    // To others it is a call that asks twice.
    let asked = plain.result("tools/call", json!({ "name": "ahead" })).await;
    let asked = plain.result("tools/call", call(&asked, "A")).await;
    assert_eq!((&asked["resultType"], asked["inputRequests"]["more"].is_object()), (&json!("input_required"), true), "{asked}");
    assert_eq!(
        dev.eval("const said = await mcp.call('must').catch((error) => error.message); said"),
        "'no luck'",
        "a cell calls it as ever"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_ends_as_its_call_would_have_or_is_cancelled() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval(FUNCTIONS);
    let client = Client::new(&dev, knows());
    let failed = Task::of(&client, "must").await.is("completed").await;
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    assert!(failed["result"]["content"][0]["text"].as_str().unwrap().contains("no luck"), "{failed}");
    let lacks = Task::of(&client, "lacks").await.is("failed").await;
    assert_eq!((&lacks["error"]["code"], lacks.get("result")), (&json!(-32021), None), "{lacks}");
    assert_eq!(lacks["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));
    let fits = Task::of(&client, "fits").await.is("completed").await;
    assert_eq!((&fits["result"]["isError"], fits["result"]["content"][0]["text"].as_str().map(str::len)), (&json!(false), Some(7998)));
    let large = Task::of(&client, "large").await.is("completed").await;
    assert!(large["result"]["content"][0]["text"].as_str().unwrap().contains("too large to be kept"), "{large}");

    let slow = Task::of(&client, "slow").await;
    slow.cancel().await;
    slow.is("cancelled").await;
    let asks = Task::of(&client, "order").await;
    asks.is("input_required").await;
    asks.cancel().await;
    asks.is("cancelled").await;
    asks.answers(json!({ "who": accept("late"), "what": accept("late") })).await;
    assert_eq!(asks.get().await["status"], "cancelled");
    // The oldest of too many calls that wait makes room, and its task has failed.
    let oldest = Task::of(&client, "order").await;
    oldest.is("input_required").await;
    let plain = Client::new(&dev, json!({ "elicitation": {} }));
    for _ in 0..64 {
        plain.result("tools/call", json!({ "name": "order" })).await;
    }
    oldest.answers(json!({ "who": accept("A"), "what": accept("B") })).await;
    let failed = oldest.is("failed").await;
    assert!(failed["error"]["message"].as_str().unwrap().contains("no call waits"), "{failed}");
    for unknown in ["default/s/call-", "default/s/call-0"] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let refused = client.ask(method, json!({ "taskId": unknown })).await.1;
            assert_eq!(refused["error"]["code"], -32602, "{method} {unknown}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_listens_is_told_how_its_tasks_stand() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval(FUNCTIONS);
    let client = Client::new(&dev, knows());
    let task = Task::of(&client, "order").await;
    let params = json!({ "notifications": { "taskIds": [task.id, "default/s/call-0", "default/other/r_0"] } });
    let (status, refused) = Client::new(&dev, json!({ "elicitation": {} })).ask("subscriptions/listen", params.clone()).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32021)), "{refused}");
    let mut listening = Stream::of(client.stateless("subscriptions/listen", params).await);
    let acknowledged = listening.until("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged["notifications"], json!({ "taskIds": [task.id] }), "of those that there are");
    let mut told = async |status: &str| {
        loop {
            let told = listening.until("notifications/tasks").await;
            if told["status"] == status {
                break told;
            }
        }
    };
    let asks = told("input_required").await;
    assert_eq!((&asks["taskId"], asks["inputRequests"]["who"].is_object()), (&task.id, true), "{asks}");
    assert!(asks["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number(), "{asks}");
    task.answers(json!({ "who": accept("A"), "what": accept("B") })).await;
    eventually("it asks again", async || task.asks().await.len() == 1).await;
    task.cancel().await;
    told("cancelled").await;
    let slow = Task::of(&client, "large").await;
    slow.is("completed").await;
    let params = json!({ "notifications": { "taskIds": [slow.id] } });
    let mut listening = Stream::of(client.stateless("subscriptions/listen", params).await);
    let told = listening.until("notifications/tasks").await;
    assert_eq!(told["status"], "completed", "whoever comes late is told at once: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_functions_of_the_docs_are_tasks() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    register_documented(&dev);
    let client = Client::new(&dev, knows());
    let agreed = json!({ "action": "accept" });
    let digest = Task::of(&client, "digest").await;
    let [question]: [String; 1] = digest.asks().await.try_into().unwrap();
    digest.answers(json!({ question: agreed })).await;
    assert_eq!(digest.is("completed").await["result"]["content"][0]["text"], "sent");
    let asked = client.result("tools/call", json!({ "name": "report" })).await;
    let question = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let again = json!({ "name": "report", "inputResponses": { question: agreed }, "requestState": asked["requestState"] });
    let id = client.result("tools/call", again).await["taskId"].clone();
    let report = Task { client: &client, id }.is("completed").await;
    assert_eq!(report["result"]["content"][0]["text"], "written: accept");
}
