//! The idempotency key of a notebook's cell: it says which client sent the cell, and with which message.

use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::history::KEY_BYTES_MAX;

/// Before the client.
const PREFIX: &str = "jupyter-";
/// Characters that stand for a client's session of Jupyter's: always as many, so that a key is read in one way only.
const CLIENT_CHARS: usize = 32;

/// What stands in keys for the client of this session of Jupyter's.
pub(super) fn client_of(session: &str) -> String {
    let mut client = sha256_hex(session.as_bytes());
    client.truncate(CLIENT_CHARS);
    client
}

/// The key of the cell that a client's message runs. `None`: the message's id is too long for one.
pub(super) fn key_of(session: &str, message: &str) -> Option<String> {
    let bytes = PREFIX.len() + CLIENT_CHARS + 1 + message.len();
    (bytes <= KEY_BYTES_MAX).then(|| format!("{PREFIX}{}-{message}", client_of(session)))
}

/// The client, and the id of the message, that a cell was sent with under this key, if a notebook sent it.
pub(super) fn sender_of(key: &str) -> Option<(&str, &str)> {
    let (client, message) = key.strip_prefix(PREFIX)?.split_at_checked(CLIENT_CHARS)?;
    let is_client = client.bytes().all(|it| it.is_ascii_hexdigit());
    Some((client, message.strip_prefix('-')?)).filter(|_| is_client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_who_sent_a_cell_and_with_which_message() {
        let key = key_of("mine", "a-1").unwrap();
        assert_eq!(sender_of(&key), Some((client_of("mine").as_str(), "a-1")), "{key}");
        assert_ne!(key, key_of("yours", "a-1").unwrap());
        assert_ne!(key_of("a", "b-c"), key_of("a-b", "c"), "a session and a message are told apart");
        let longest = "x".repeat(KEY_BYTES_MAX - PREFIX.len() - CLIENT_CHARS - 1);
        assert_eq!(key_of("mine", &longest).map(|key| key.len()), Some(KEY_BYTES_MAX));
        assert_eq!(key_of(&"s".repeat(1000), &format!("{longest}x")), None);
        for other in ["another door's", "jupyter-a", "jupyter-äöäöäöäöäöäöäöäöäöäöäöäöäöäöäöäö-1", &key.replacen(PREFIX, "", 1)]
        {
            assert_eq!(sender_of(other), None, "{other}");
        }
    }
}
