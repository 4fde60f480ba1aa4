//! Answers of a server that may be newer than this client.
//!
//! What it says beyond what this client knows is as if it had not said it: a field of an object that has no others, a value that is none of a
//! closed set, an entry of a list that is of no kind known here. The field then has its default, and the list is an entry shorter.

use std::fmt::{self, Display, Formatter};

use serde::{
    Deserializer,
    de::{
        self, DeserializeOwned, DeserializeSeed, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;

/// Values that one answer may have which this client does not know. Each has it read once more.
const UNKNOWN_MAX: usize = 1_000;

/// Reads an answer.
///
/// # Errors
/// It is none of this kind, or says by a value that is not known here what it is as a whole.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, Refusal> {
    // Of a server of the same release there is nothing to leave out.
    if let Ok(known) = serde_json::from_slice(json) {
        return Ok(known);
    }
    let mut value: Value = serde_json::from_slice(json).map_err(de::Error::custom)?;
    let mut left_out = 0;
    loop {
        match T::deserialize(Json(&value)) {
            Err(refusal) if refusal.unknown && left_out < UNKNOWN_MAX && remove(&mut value, &refusal.path) => left_out += 1,
            other => return other,
        }
    }
}

/// Why an answer cannot be read.
#[derive(Debug)]
pub(crate) struct Refusal {
    reason: String,
    /// Only because it has a value that is not known here.
    unknown: bool,
    /// Where, from the innermost step outwards.
    path: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Field(String),
    Item(usize),
}

impl Refusal {
    /// Whether the answer as a whole is of a kind that is not known here.
    pub(crate) fn is_of_unknown_kind(&self) -> bool {
        self.unknown && self.path.is_empty()
    }

    fn within(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}

impl de::Error for Refusal {
    fn custom<T: Display>(reason: T) -> Self {
        Self { reason: reason.to_string(), unknown: false, path: Vec::new() }
    }

    fn unknown_variant(variant: &str, _: &'static [&'static str]) -> Self {
        Self { unknown: true, ..Self::custom(format_args!("`{variant}` is not known here")) }
    }
}

/// Takes away what lies there. Whether something did.
fn remove(value: &mut Value, path: &[Step]) -> bool {
    let Some((last, above)) = path.split_first() else { return false };
    let within = above.iter().rev().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Item(at) => value.get_mut(at),
    });
    match (within, last) {
        (Some(Value::Object(fields)), Step::Field(name)) => fields.remove(name).is_some(),
        (Some(Value::Array(items)), Step::Item(at)) if *at < items.len() => {
            items.remove(*at);
            true
        }
        _ => false,
    }
}

/// JSON that says where it has a value that is not known here, and only the fields that are.
struct Json<'a>(&'a Value);

impl<'a> Json<'a> {
    /// The fields of an object, in the order of their names. `known`: only those.
    fn fields(&self, known: Option<&[&str]>) -> Option<Fields<'a>> {
        let Value::Object(fields) = self.0 else { return None };
        let is_known = |name: &str| known.is_none_or(|known| known.contains(&name));
        let mut left: Vec<_> = fields.iter().filter(|(name, _)| is_known(name)).map(|(name, value)| (name.as_str(), value)).collect();
        left.reverse();
        Some(Fields { left, next: None })
    }
}

impl<'de> Deserializer<'de> for Json<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (_, _, number) => visitor.visit_f64(number.unwrap_or_default()),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items { items, at: 0 }),
            Value::Object(_) => visitor.visit_map(self.fields(None).unwrap_or_default()),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, known: &'static [&'static str], visitor: V) -> Result<V::Value, Refusal> {
        match self.fields(Some(known)) {
            Some(fields) => visitor.visit_map(fields),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Refusal> {
        match (self.0, self.fields(None)) {
            (Value::String(text), _) => visitor.visit_enum(text.as_str().into_deserializer()),
            (_, Some(fields)) => visitor.visit_enum(MapAccessDeserializer::new(fields)),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

#[derive(Default)]
struct Fields<'a> {
    /// From the last one to the first.
    left: Vec<(&'a str, &'a Value)>,
    next: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        self.next = self.left.pop();
        self.next.map(|(name, _)| seed.deserialize(StrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let Some((name, value)) = self.next.take() else { return Err(de::Error::custom("there is no value without its name")) };
        seed.deserialize(Json(value)).map_err(|refusal| refusal.within(Step::Field(name.to_owned())))
    }
}

struct Items<'a> {
    items: &'a [Value],
    at: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refusal> {
        let Some(item) = self.items.get(self.at) else { return Ok(None) };
        let read = seed.deserialize(Json(item)).map_err(|refusal| refusal.within(Step::Item(self.at)))?;
        self.at += 1;
        Ok(Some(read))
    }
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::{Durability, OperatingMode};
    use dormouse_protocol::{
        ErrorBody, ErrorCode,
        approval::{ApprovalList, ApprovalState},
        eval::{EvalResult, Woke},
        event::{Event, EventBody},
        file::{FileKind, FileList},
        history::{ChangeKind, Difference, JournalBody, JournalPage},
        key::{KeyList, KeyVerb},
        run::{RunList, RunState},
        session::{SessionList, State},
    };
    use serde_json::json;

    use super::*;

    fn of<T: DeserializeOwned>(value: &Value) -> T {
        read(value.to_string().as_bytes()).unwrap_or_else(|refusal| panic!("{refusal}: {value}"))
    }

    #[test]
    fn a_session_of_a_newer_release_is_listed_with_what_is_known_of_it() {
        let mut session = json!({
            "name": "a", "namespace": "team", "id": "s_1", "state": "Pondering", "url": "/v1", "placed": {"in": "orbit"},
            "spec": {
                "pool": "large", "operatingMode": "Eager", "durability": "Quorum", "idleSeconds": 7, "mood": "good",
                "limits": {"toolCalls": 3, "thoughts": 9}, "checkpoints": {"keep": 2, "where": ["here"]},
            },
            "status": {"conditions": [
                {"type": "Pondered", "status": "Perhaps", "reason": "Mood", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "by": 1},
            ]},
        });
        let newer = session.clone();
        session["name"] = json!("b");
        session["state"] = json!("Idle");
        let sessions: SessionList = of(&json!({"items": [newer, session], "continue": "c", "of": 2}));
        let [a, b] = &sessions.items[..] else { panic!("{sessions:?}") };
        assert_eq!((a.state, b.state, sessions.continue_token.as_deref()), (State::Unknown, State::Idle, Some("c")));
        let spec = &a.spec;
        assert_eq!((spec.pool.as_str(), spec.idle_seconds, spec.limits.tool_calls, spec.checkpoints.keep), ("large", 7, 3, 2));
        assert_eq!((spec.operating_mode, spec.durability), (OperatingMode::default(), Durability::default()));
        assert_eq!(a.status.conditions[0].type_, "Pondered");
    }

    #[test]
    fn an_error_of_a_newer_release_keeps_its_message_and_whether_to_try_again() {
        let body: ErrorBody = of(&json!({"error": {"code": "MoodBad", "message": "cheer it up", "retryable": true, "mood": -1}}));
        assert_eq!((body.error.code, body.error.message.as_str(), body.error.retryable), (ErrorCode::Unknown, "cheer it up", true));
    }

    fn result() -> Value {
        json!({
            "ok": false, "valueType": "undefined", "preview": "", "console": [], "cell": 1, "sequence": 2, "durable": true,
            "error": {"code": "MoodBad", "name": "MoodError", "message": "no"},
            "stats": {"durationMs": 1.5, "cpuMs": 1, "ticks": 1, "heapBytes": 1, "committedBytes": 1, "toolCalls": 0, "woke": "orbit"},
        })
    }

    #[test]
    fn the_answer_of_a_cell_arrives_whatever_its_error_and_wherever_it_came_from() {
        let told: EvalResult = of(&result());
        assert_eq!((told.error.map(|error| error.code), told.stats.woke), (Some(ErrorCode::Unknown), Woke::Unknown));
    }

    #[test]
    fn of_an_event_only_its_kind_may_be_one_that_nobody_knows() {
        let event =
            |kind: &str, payload: Value| json!({"protocolVersion": 1, "sessionId": "s_1", "seq": 4, "type": kind, "payload": payload});
        for payload in [json!({}), json!({"deep": ["thought"]}), json!(null)] {
            let refusal = read::<Event>(event("pondered", payload).to_string().as_bytes()).unwrap_err();
            assert!(refusal.is_of_unknown_kind(), "{refusal:?}");
        }
        for (kind, payload) in [("final", json!({"ok": true})), ("log", json!({"level": 1, "text": "a"}))] {
            let refusal = read::<Event>(event(kind, payload).to_string().as_bytes()).unwrap_err();
            assert!(!refusal.is_of_unknown_kind(), "{refusal:?}");
        }
        let last: Event = of(&event("final", result()));
        assert!(matches!(&last.body, EventBody::Final { result } if result.stats.woke == Woke::Unknown), "{last:?}");
        let state: Event = of(&event("state", json!({"state": "Pondering"})));
        assert_eq!(state.body, EventBody::State { state: State::Unknown });
        let failed: Event = of(&event("error", json!({"code": "MoodBad", "message": "no"})));
        assert_eq!(failed.body, EventBody::Error { code: ErrorCode::Unknown, message: "no".to_owned() });
    }

    #[test]
    fn a_journal_is_read_without_the_entries_that_nobody_knows() {
        let entry = |seq: u64, more: Value| {
            let mut entry = json!({"seq": seq, "time": "2026-01-01T00:00:00Z", "epoch": 1});
            entry.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
            entry
        };
        let cell = json!({"kind": "cell", "cell": 1, "source": "1", "sourceBytes": 1, "sourceDigest": "d", "language": "lisp"});
        let page: JournalPage = of(&json!({
            "entries": [
                entry(1, json!({"kind": "pondered", "about": [1]})),
                entry(2, json!({"kind": "hibernated"})),
                entry(3, cell),
                entry(4, json!({"kind": "woke", "from": "orbit"})),
                entry(5, json!({"kind": "result", "cell": 1, "ok": false, "digest": "d", "error": "MoodBad"})),
            ],
            "next": 5, "last": 9,
        }));
        assert_eq!(page.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [2, 4, 5], "{page:?}");
        assert_eq!(page.entries[1].body, JournalBody::Woke { from: Woke::Unknown });
        assert!(matches!(page.entries[2].body, JournalBody::Result { error: Some(ErrorCode::Unknown), .. }), "{page:?}");
        assert_eq!((page.next, page.last), (Some(5), 9));
    }

    #[test]
    fn a_key_has_the_verbs_that_are_known() {
        let key = json!({"name": "k", "namespace": "team", "verbs": ["ponder", "get", "dream"], "createdAt": "", "createdBy": ""});
        let keys: KeyList = of(&json!({"items": [key, key]}));
        assert_eq!(keys.items.iter().map(|key| &key.verbs[..]).collect::<Vec<_>>(), [[KeyVerb::Get], [KeyVerb::Get]]);
    }

    #[test]
    fn states_and_kinds_that_nobody_knows_say_so() {
        let run = json!({"id": "r_1", "state": "Pondering", "idempotencyKey": "k", "createdAt": ""});
        assert_eq!(of::<RunList>(&json!({"items": [run]})).items[0].state, RunState::Unknown);
        let approval = json!({
            "id": "1", "toolName": "pay", "args": {"n": 1}, "callId": "1", "epoch": 1, "createdAt": "", "expiresAt": "", "editable": false,
            "state": "Pondered",
        });
        assert_eq!(of::<ApprovalList>(&json!({"items": [approval]})).items[0].state, ApprovalState::Unknown);
        let file = json!({"path": "/a", "kind": "dream", "size": 1, "modified": ""});
        assert_eq!(of::<FileList>(&json!({"items": [file]})).items[0].kind, FileKind::Other);
        let checkpoint = json!({"id": "c", "sequence": 1, "time": "", "bytes": 1});
        let difference: Difference = of(&json!({
            "from": checkpoint, "to": checkpoint, "globals": [{"name": "a", "change": "dreamt"}], "files": [{"path": "/a", "change": "dreamt"}],
        }));
        assert_eq!((difference.globals[0].change, difference.files[0].change), (ChangeKind::Unknown, ChangeKind::Unknown));
    }

    #[test]
    fn what_is_no_answer_of_this_kind_is_refused() {
        for bad in ["", "{", "[]", "7", r#"{"items": 1}"#, r#"{"items": [{"name": "a"}]}"#] {
            assert!(!read::<SessionList>(bad.as_bytes()).unwrap_err().is_of_unknown_kind(), "{bad}");
        }
        let key = json!({"name": "k", "namespace": "team", "verbs": vec!["ponder"; UNKNOWN_MAX + 1], "createdAt": "", "createdBy": ""});
        read::<KeyList>(json!({"items": [key]}).to_string().as_bytes()).unwrap_err();
    }
}
