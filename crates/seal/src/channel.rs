//! Encryption of what travels: two ends that have exchanged ephemeral keys seal what they say to each other, message by message.
//!
//! ECDH on P-256, HKDF-SHA-256 with a key for each direction, AES-256-GCM. The nonce is the message's number, which each end counts for itself: what
//! is repeated, left out, out of order or from the other direction does not open. The construction and its names are those of the streaming protocol's
//! clients, so they open it with what they have. It keeps what is said from whoever reads along. Who is at the other end, TLS and credentials say:
//! whoever may alter the exchange of keys is not kept out.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral},
    hkdf::{HKDF_SHA256, Salt},
    rand::{SystemRandom, fill},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use thiserror::Error;

/// Messages that one key seals. A connection that has said so much begins anew.
pub const MESSAGES_MAX: u64 = 1 << 30;
/// Bytes of randomness in a key's id.
const ID_BYTES: usize = 16;
/// What a key is for, from the client to the server, in the words of the protocol's clients.
const TO_SERVER: &[u8] = b"enclavejs-c2s-enc";
/// The same from the server to the client.
const TO_CLIENT: &[u8] = b"enclavejs-s2c-enc";

/// Why two ends have no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// It is no point of the curve, or no base64.
    #[error("the public key is no uncompressed point of P-256 (65 bytes) in base64")]
    PublicKey,
    /// The system gives no randomness, or the library fails.
    #[error("a key cannot be made now")]
    Failed,
}

/// Why a message was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChannelError {
    /// It names another key.
    #[error("it is sealed with another key")]
    OtherKey,
    /// It is not the next one.
    #[error("it is not the next message: it was repeated, left out or came out of order")]
    Sequence,
    /// It is not what was sealed.
    #[error("it was altered or cut off, or is sealed with another key")]
    Altered,
    /// The key has sealed as much as it may.
    #[error("the key has sealed {MESSAGES_MAX} messages: connect again")]
    Exhausted,
}

/// A sealed message, in base64 as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The key's id.
    pub key_id: String,
    /// The nonce, which is the message's number.
    pub nonce: String,
    /// The ciphertext and its tag.
    pub ciphertext: String,
}

/// What the server answers to a client's key.
pub struct Accepted {
    /// Its own ephemeral public key, as base64 of the uncompressed point.
    pub public_key: String,
    /// Names the keys of both directions.
    pub key_id: String,
    /// Seals what goes to the client.
    pub sealer: Sealer,
    /// Opens what comes from it.
    pub opener: Opener,
}

/// Takes a client's ephemeral public key, and makes the keys of both directions. `salt` tells one connection from another; without one it is the key's id.
///
/// # Errors
/// The key is none, or there is no randomness.
pub fn accept(client_key: &str, salt: Option<&str>) -> Result<Accepted, HandshakeError> {
    let client_key = BASE64_STANDARD.decode(client_key).map_err(|_| HandshakeError::PublicKey)?;
    let mut id = [0; ID_BYTES];
    fill(&mut id).map_err(|_| HandshakeError::Failed)?;
    let key_id = BASE64_STANDARD.encode(id);
    let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).map_err(|_| HandshakeError::Failed)?;
    let public_key = private.compute_public_key().map_err(|_| HandshakeError::Failed)?;
    let salt = salt.unwrap_or(&key_id).as_bytes();
    let peer = UnparsedPublicKey::new(&ECDH_P256, client_key);
    let (to_server, to_client) = agree_ephemeral(private, &peer, HandshakeError::PublicKey, |secret| {
        let derive = |info: &[u8]| {
            let (salt, info) = (Salt::new(HKDF_SHA256, salt), [info]);
            let key = salt.extract(secret);
            let okm = key.expand(&info, &AES_256_GCM).map_err(|_| HandshakeError::Failed)?;
            Ok(LessSafeKey::new(UnboundKey::from(okm)))
        };
        Ok((derive(TO_SERVER)?, derive(TO_CLIENT)?))
    })?;
    let sealer = Sealer { key: to_client, key_id: key_id.clone(), next: 0 };
    let opener = Opener { key: to_server, key_id: key_id.clone(), next: 0 };
    Ok(Accepted { public_key: BASE64_STANDARD.encode(public_key.as_ref()), key_id, sealer, opener })
}

fn nonce(number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    if let Some(low) = nonce.last_chunk_mut() {
        *low = number.to_be_bytes();
    }
    nonce
}

/// Seals one direction.
pub struct Sealer {
    key: LessSafeKey,
    key_id: String,
    next: u64,
}

impl Sealer {
    /// Seals the next message.
    ///
    /// # Errors
    /// The key is used up.
    pub fn seal(&mut self, message: &[u8]) -> Result<Message, ChannelError> {
        if self.next >= MESSAGES_MAX {
            return Err(ChannelError::Exhausted);
        }
        let nonce = nonce(self.next);
        self.next += 1;
        let mut sealed = message.to_vec();
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
            .map_err(|_| ChannelError::Exhausted)?;
        let (nonce, ciphertext) = (BASE64_STANDARD.encode(nonce), BASE64_STANDARD.encode(sealed));
        Ok(Message { key_id: self.key_id.clone(), nonce, ciphertext })
    }
}

/// Opens one direction.
pub struct Opener {
    key: LessSafeKey,
    key_id: String,
    next: u64,
}

impl Opener {
    /// Opens the next message. After an error nothing more is to be opened.
    ///
    /// # Errors
    /// It is not the next message of this key as it was sealed.
    pub fn open(&mut self, message: &Message) -> Result<Vec<u8>, ChannelError> {
        if message.key_id != self.key_id {
            return Err(ChannelError::OtherKey);
        }
        if self.next >= MESSAGES_MAX {
            return Err(ChannelError::Exhausted);
        }
        let expected = nonce(self.next);
        if BASE64_STANDARD.decode(&message.nonce).map_err(|_| ChannelError::Altered)? != expected {
            return Err(ChannelError::Sequence);
        }
        let mut sealed = BASE64_STANDARD.decode(&message.ciphertext).map_err(|_| ChannelError::Altered)?;
        let nonce = Nonce::assume_unique_for_key(expected);
        let opened = self.key.open_in_place(nonce, Aad::empty(), &mut sealed).map_err(|_| ChannelError::Altered)?;
        let length = opened.len();
        sealed.truncate(length);
        self.next += 1;
        Ok(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has keys with a client that is the same library: what it seals, this opener opens.
    fn pair() -> (Sealer, Opener, Opener) {
        let client = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
        let public = BASE64_STANDARD.encode(client.compute_public_key().unwrap().as_ref());
        let accepted = accept(&public, None).unwrap();
        let server = UnparsedPublicKey::new(&ECDH_P256, BASE64_STANDARD.decode(&accepted.public_key).unwrap());
        let key = |secret: &[u8], info: &[u8]| {
            let prk = Salt::new(HKDF_SHA256, accepted.key_id.as_bytes()).extract(secret);
            LessSafeKey::new(UnboundKey::from(prk.expand(&[info], &AES_256_GCM).unwrap()))
        };
        let keys = agree_ephemeral(client, &server, (), |secret| Ok((key(secret, TO_SERVER), key(secret, TO_CLIENT)))).unwrap();
        let sealer = Sealer { key: keys.0, key_id: accepted.key_id.clone(), next: 0 };
        let opener = Opener { key: keys.1, key_id: accepted.key_id.clone(), next: 0 };
        let mut server = accepted.sealer;
        let mut opener = opener;
        assert_eq!(opener.open(&server.seal(b"down").unwrap()).unwrap(), b"down");
        (sealer, accepted.opener, opener)
    }

    #[test]
    fn messages_open_once_and_in_their_order() {
        let (mut client, mut server, _) = pair();
        let [first, second, third] = [b"a", b"b", b"c"].map(|text| client.seal(text).unwrap());
        assert_ne!(first.ciphertext, second.ciphertext);
        assert_eq!(server.open(&first).unwrap(), b"a");
        assert_eq!(server.open(&first), Err(ChannelError::Sequence), "repeated");
        assert_eq!(server.open(&third), Err(ChannelError::Sequence), "left out");
        assert_eq!(server.open(&second).unwrap(), b"b");
        let renumbered = Message { nonce: second.nonce.clone(), ..third.clone() };
        assert_eq!(server.open(&Message { nonce: third.nonce.clone(), ..second }), Err(ChannelError::Altered), "renumbered");
        assert_eq!(server.open(&renumbered), Err(ChannelError::Sequence));
        assert_eq!(server.open(&third).unwrap(), b"c");
    }

    #[test]
    fn what_is_not_as_it_was_sealed_does_not_open() {
        let (mut client, mut server, mut other_way) = pair();
        let sealed = client.seal(b"a longer message").unwrap();
        let bytes = BASE64_STANDARD.decode(&sealed.ciphertext).unwrap();
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            let altered = Message { ciphertext: BASE64_STANDARD.encode(altered), ..sealed.clone() };
            assert_eq!(server.open(&altered), Err(ChannelError::Altered), "byte {at}");
            let cut = Message { ciphertext: BASE64_STANDARD.encode(&bytes[..at]), ..sealed.clone() };
            assert_eq!(server.open(&cut), Err(ChannelError::Altered), "cut at {at}");
        }
        assert_eq!(server.open(&Message { key_id: "x".to_owned(), ..sealed.clone() }), Err(ChannelError::OtherKey));
        assert_eq!(server.open(&Message { nonce: "?".to_owned(), ..sealed.clone() }), Err(ChannelError::Altered));
        other_way.next = 0;
        assert_eq!(other_way.open(&sealed), Err(ChannelError::Altered), "a direction has a key of its own");
        assert_eq!(server.open(&sealed).unwrap(), b"a longer message", "and what was refused has changed nothing");
    }

    #[test]
    fn a_key_seals_so_many_messages_and_no_more() {
        let (mut client, mut server, _) = pair();
        (client.next, server.next) = (MESSAGES_MAX - 1, MESSAGES_MAX - 1);
        let last = client.seal(b"last").unwrap();
        assert_eq!(client.seal(b"one more"), Err(ChannelError::Exhausted));
        assert_eq!(server.open(&last).unwrap(), b"last");
        assert_eq!(server.open(&last), Err(ChannelError::Exhausted));
    }

    #[test]
    fn a_key_that_is_no_point_of_the_curve_is_refused() {
        let off_curve = BASE64_STANDARD.encode([&[4_u8][..], &[7; 64]].concat());
        for key in ["", "?", "AAAA", &off_curve] {
            assert_eq!(accept(key, None).err(), Some(HandshakeError::PublicKey), "{key}");
        }
    }
}
