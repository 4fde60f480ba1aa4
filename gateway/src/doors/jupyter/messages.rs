//! Messages of Jupyter's protocol, version 5.3, in the JSON form that WebSockets carry.

use serde::Deserialize;
use serde_json::{Value, json};

/// The name under which the kernel's own small cells run.
pub(super) const COMPLETION_NAME: &str = "completion";

/// A message of a client.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Request {
    pub(super) header: Header,
    /// The channel: the shell, where a client names none, as jupyter_server's own does not.
    #[serde(default = "shell")]
    pub(super) channel: String,
    #[serde(default)]
    pub(super) content: Value,
}

/// Its head, as it is repeated in every answer.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Header {
    pub(super) msg_id: String,
    pub(super) msg_type: String,
    #[serde(default)]
    pub(super) session: String,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

fn shell() -> String {
    "shell".to_owned()
}

impl Request {
    /// No more of a message than an answer to it needs: for one for which there is no room.
    pub(super) fn head_of(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            header: Names,
            #[serde(default = "shell")]
            channel: String,
        }
        #[derive(Deserialize)]
        struct Names {
            msg_id: String,
            msg_type: String,
            #[serde(default)]
            session: String,
        }
        let Head { header: Names { msg_id, msg_type, session }, channel } = serde_json::from_str(text)?;
        Ok(Self { header: Header { msg_id, msg_type, session, rest: serde_json::Map::new() }, channel, content: Value::Null })
    }

    /// The message of this id that asked for a cell, for a client of this session of Jupyter's: as much of it as its answers repeat.
    pub(super) fn of_message(msg_id: &str, session: &str) -> Self {
        let (msg_id, msg_type) = (msg_id.to_owned(), "execute_request".to_owned());
        let header = Header { msg_id, msg_type, session: session.to_owned(), rest: serde_json::Map::new() };
        Self { header, channel: shell(), content: Value::Null }
    }

    fn parent(&self) -> Value {
        let mut parent = self.header.rest.clone();
        parent.insert("msg_id".to_owned(), json!(self.header.msg_id));
        parent.insert("msg_type".to_owned(), json!(self.header.msg_type));
        parent.insert("session".to_owned(), json!(self.header.session));
        Value::Object(parent)
    }

    /// A text of the content.
    pub(super) fn text(&self, field: &str) -> &str {
        self.content.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// A flag of the content.
    pub(super) fn flag(&self, field: &str) -> bool {
        self.content.get(field).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether the cells that wait behind this one are not to run where it fails. A client that says nothing of it means that.
    pub(super) fn stops_on_error(&self) -> bool {
        let said = self.content.get("stop_on_error").and_then(Value::as_bool);
        said.unwrap_or(true) && !self.flag("silent")
    }

    /// What everybody sees.
    pub(super) fn publish(&self, msg_type: &str, content: Value) -> Value {
        self.message("iopub", msg_type, content)
    }

    /// What the sender gets, on its channel.
    pub(super) fn reply(&self, content: Value) -> Value {
        let msg_type = self.header.msg_type.replace("_request", "_reply");
        self.message(&self.channel, &msg_type, content)
    }

    fn message(&self, channel: &str, msg_type: &str, content: Value) -> Value {
        let id = uuid::Uuid::new_v4().to_string();
        json!({
            "channel": channel,
            "header": {
                "msg_id": id, "msg_type": msg_type, "username": "dormouse", "session": self.header.session, "version": "5.3",
                "date": jiff::Timestamp::now().to_string(),
            },
            "msg_id": id, "msg_type": msg_type, "parent_header": self.parent(), "metadata": {}, "content": content, "buffers": [],
        })
    }
}

/// What the kernel is.
pub(super) fn kernel_info() -> Value {
    json!({
        "status": "ok", "protocol_version": "5.3", "implementation": "dormouse", "implementation_version": env!("CARGO_PKG_VERSION"),
        "banner": "Dormouse: a TypeScript session that lives for ever", "help_links": [], "supported_features": [],
        "language_info": {
            "name": "typescript", "version": "5", "mimetype": "application/typescript", "file_extension": ".ts", "codemirror_mode": "javascript",
            "pygments_lexer": "typescript",
        },
    })
}

/// The path of names that ends at `cursor`, in characters: where it begins, what is before its last dot, and what follows that.
pub(super) fn path_at(code: &str, cursor: usize) -> Option<(usize, String, String)> {
    let before: Vec<char> = code.chars().take(cursor).collect();
    let is_part = |it: &char| it.is_alphanumeric() || matches!(it, '_' | '$' | '.');
    let begin = before.len() - before.iter().rev().take_while(|it| is_part(it)).count();
    let path: String = before.get(begin..)?.iter().collect();
    let (object, name) = path.rsplit_once('.').map_or((None, path.as_str()), |(object, name)| (Some(object), name));
    let is_name = |part: &str| !part.is_empty() && !part.starts_with(|first: char| first.is_ascii_digit());
    // What a dot follows that is no name, such as a call, would have to be run to be looked at.
    let fits = object.is_none_or(|object| object.split('.').all(is_name));
    fits.then(|| (before.len() - name.chars().count(), object.unwrap_or_default().to_owned(), name.to_owned()))
}

/// A cell that lists the names of `object`, or the globals, that begin with `name`. It calls nothing of the user's.
pub(super) fn completion(object: &str, name: &str) -> String {
    let of = if object.is_empty() { "globalThis" } else { object };
    let prefix = json!(name);
    format!(
        "(() => {{ const found = new Set(); try {{ for (let at = Object({of}), depth = 0; at !== null && depth < 8; at = Object.getPrototypeOf(at), depth++) \
         for (const name of Object.getOwnPropertyNames(at)) if (name.startsWith({prefix}) && /^[\\p{{L}}_$][\\p{{L}}\\p{{N}}_$]*$/u.test(name)) found.add(name) }} \
         catch {{}} return [...found].sort().slice(0, 500) }})()"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_no_channel_is_answered_on_the_shell() {
        let request: Request = serde_json::from_value(json!({ "header": { "msg_id": "1", "msg_type": "kernel_info_request" } })).unwrap();
        assert_eq!(request.reply(json!({}))["channel"], "shell");
    }

    #[test]
    fn of_a_message_without_room_no_more_is_read_than_its_answer_needs() {
        let header = json!({ "msg_id": "1", "msg_type": "execute_request", "session": "s", "username": [[1], {}] });
        let text = json!({ "header": header, "channel": "shell", "content": { "code": [1, 2] } }).to_string();
        let head = Request::head_of(&text).unwrap();
        assert!(head.content.is_null() && head.header.rest.is_empty());
        let reply = head.reply(json!({}));
        assert_eq!((&reply["msg_type"], &reply["parent_header"]["msg_id"]), (&json!("execute_reply"), &json!("1")));
        assert!(Request::head_of("{}").is_err());
    }

    #[test]
    fn a_cell_that_fails_stops_those_behind_it_unless_it_is_silent_or_says_otherwise() {
        let request = |content: Value| Request { content, ..Request::of_message("1", "s") };
        for (content, stops) in [
            (json!({ "code": "1" }), true),
            (json!({ "silent": false, "stop_on_error": true }), true),
            (json!({ "stop_on_error": false }), false),
            (json!({ "silent": true, "stop_on_error": true }), false),
        ] {
            assert_eq!(request(content.clone()).stops_on_error(), stops, "{content}");
        }
    }

    #[test]
    fn what_stands_before_the_cursor_is_completed() {
        let path = |object: &str, name: &str, begin| Some((begin, object.to_owned(), name.to_owned()));
        assert_eq!(path_at("let x = foo.ba", 14), path("foo", "ba", 12));
        assert_eq!(path_at("foo.bar.", 8), path("foo.bar", "", 8));
        assert_eq!(path_at("cons", 4), path("", "cons", 0));
        assert_eq!(path_at("äö.länge", 8), path("äö", "länge", 3));
        assert_eq!(path_at("1.x", 3), None, "a number is no name");
        assert_eq!(path_at("f().x", 5), None);
        assert_eq!(path_at("", 0), path("", "", 0));
    }
}
