//! Hashes, authentication codes, key derivation and AES-GCM, for the modules behind `crypto.subtle` and `require("crypto")`.
//! Everything is RustCrypto's; which algorithm may be asked for what, the modules decide.

use aes_gcm::{
    aead::{Aead, Payload},
    Aes128Gcm, Aes256Gcm, KeyInit, Nonce,
};
use hmac::{Hmac, Mac};
use rquickjs::{function::Func, ArrayBuffer, Ctx, Exception, Object, Result};
use subtle::ConstantTimeEq;

/// Bytes that one derivation may give.
const DERIVED_BYTES_MAX: u32 = 1 << 20;

/// Adds the functions.
pub fn add_to(natives: &Object<'_>) -> Result<()> {
    natives.set("digest", Func::from(digest))?;
    natives.set("hmac", Func::from(hmac))?;
    natives.set("hmacVerify", Func::from(hmac_verify))?;
    natives.set("equal", Func::from(equal))?;
    natives.set("pbkdf2", Func::from(pbkdf2))?;
    natives.set("hkdf", Func::from(hkdf))?;
    natives.set("aesGcmSeal", Func::from(aes_gcm_seal))?;
    natives.set("aesGcmOpen", Func::from(aes_gcm_open))
}

/// `$work` with `$Hash` as the hash of that name.
macro_rules! with_hash {
    ($ctx:expr, $name:expr, $Hash:ident => $work:expr) => {
        match $name.as_str() {
            "MD5" => { type $Hash = md5::Md5; $work }
            "SHA-1" => { type $Hash = sha1::Sha1; $work }
            "SHA-224" => { type $Hash = sha2::Sha224; $work }
            "SHA-256" => { type $Hash = sha2::Sha256; $work }
            "SHA-384" => { type $Hash = sha2::Sha384; $work }
            "SHA-512" => { type $Hash = sha2::Sha512; $work }
            _ => return Err(Exception::throw_type($ctx, "the hash is not known")),
        }
    };
}

fn bytes<'a>(ctx: &Ctx<'_>, buffer: &'a ArrayBuffer<'_>) -> Result<&'a [u8]> {
    // SAFETY: nothing runs script while the slice lives.
    unsafe { buffer.as_bytes() }.ok_or_else(|| Exception::throw_type(ctx, "the buffer is detached"))
}

fn digest<'js>(ctx: Ctx<'js>, hash: String, data: ArrayBuffer<'js>) -> Result<ArrayBuffer<'js>> {
    use sha2::Digest;
    let data = bytes(&ctx, &data)?;
    let sum = with_hash!(&ctx, hash, H => H::digest(data).to_vec());
    ArrayBuffer::new_copy(ctx, sum)
}

fn hmac<'js>(ctx: Ctx<'js>, hash: String, key: ArrayBuffer<'js>, data: ArrayBuffer<'js>) -> Result<ArrayBuffer<'js>> {
    let (key, data) = (bytes(&ctx, &key)?, bytes(&ctx, &data)?);
    let sum = with_hash!(&ctx, hash, H => <Hmac<H> as Mac>::new_from_slice(key).map(|mac| mac.chain_update(data).finalize().into_bytes().to_vec()));
    ArrayBuffer::new_copy(ctx.clone(), sum.map_err(|_| Exception::throw_type(&ctx, "the key has no good length"))?)
}

/// In constant time.
fn hmac_verify<'js>(ctx: Ctx<'js>, hash: String, key: ArrayBuffer<'js>, code: ArrayBuffer<'js>, data: ArrayBuffer<'js>) -> Result<bool> {
    let (key, code, data) = (bytes(&ctx, &key)?, bytes(&ctx, &code)?, bytes(&ctx, &data)?);
    Ok(with_hash!(&ctx, hash, H => <Hmac<H> as Mac>::new_from_slice(key).is_ok_and(|mac| mac.chain_update(data).verify_slice(code).is_ok())))
}

/// In constant time for buffers of one length.
fn equal<'js>(ctx: Ctx<'js>, left: ArrayBuffer<'js>, right: ArrayBuffer<'js>) -> Result<bool> {
    Ok(bytes(&ctx, &left)?.ct_eq(bytes(&ctx, &right)?).into())
}

fn pbkdf2<'js>(ctx: Ctx<'js>, hash: String, password: ArrayBuffer<'js>, salt: ArrayBuffer<'js>, rounds: u32, len: u32) -> Result<ArrayBuffer<'js>> {
    if len > DERIVED_BYTES_MAX {
        return Err(Exception::throw_range(&ctx, "the derived key would be too long"));
    }
    let (password, salt) = (bytes(&ctx, &password)?, bytes(&ctx, &salt)?);
    let mut derived = vec![0; len as usize];
    with_hash!(&ctx, hash, H => pbkdf2::pbkdf2_hmac::<H>(password, salt, rounds, &mut derived));
    ArrayBuffer::new_copy(ctx, derived)
}

/// Nothing when the algorithm gives no key of that length.
fn hkdf<'js>(ctx: Ctx<'js>, hash: String, key: ArrayBuffer<'js>, salt: ArrayBuffer<'js>, info: ArrayBuffer<'js>, len: u32) -> Result<Option<ArrayBuffer<'js>>> {
    if len > DERIVED_BYTES_MAX {
        return Ok(None);
    }
    let (key, salt, info) = (bytes(&ctx, &key)?, bytes(&ctx, &salt)?, bytes(&ctx, &info)?);
    let mut derived = vec![0; len as usize];
    let made = with_hash!(&ctx, hash, H => hkdf::Hkdf::<H>::new(Some(salt), key).expand(info, &mut derived));
    made.ok().map(|()| ArrayBuffer::new_copy(ctx, derived)).transpose()
}

enum Direction {
    Seal,
    Open,
}

fn aes_gcm(direction: Direction, key: &[u8], iv: &[u8], payload: Payload<'_, '_>) -> Option<Vec<u8>> {
    if iv.len() != 12 {
        return None;
    }
    let nonce = Nonce::from_slice(iv);
    let run = |cipher: &dyn DynAead| cipher.run(direction, nonce, payload);
    match key.len() {
        16 => run(&Aes128Gcm::new_from_slice(key).ok()?),
        32 => run(&Aes256Gcm::new_from_slice(key).ok()?),
        _ => None,
    }
}

/// The two key lengths behind one call.
trait DynAead {
    fn run(&self, direction: Direction, nonce: &Nonce<aes_gcm::aead::consts::U12>, payload: Payload<'_, '_>) -> Option<Vec<u8>>;
}

impl<C: Aead<NonceSize = aes_gcm::aead::consts::U12>> DynAead for C {
    fn run(&self, direction: Direction, nonce: &Nonce<aes_gcm::aead::consts::U12>, payload: Payload<'_, '_>) -> Option<Vec<u8>> {
        match direction {
            Direction::Seal => self.encrypt(nonce, payload).ok(),
            Direction::Open => self.decrypt(nonce, payload).ok(),
        }
    }
}

type Buffers<'js> = (ArrayBuffer<'js>, ArrayBuffer<'js>, ArrayBuffer<'js>, ArrayBuffer<'js>);

fn aes_gcm_of<'js>(ctx: Ctx<'js>, direction: Direction, (key, iv, aad, data): Buffers<'js>) -> Result<Option<ArrayBuffer<'js>>> {
    let payload = Payload { msg: bytes(&ctx, &data)?, aad: bytes(&ctx, &aad)? };
    let done = aes_gcm(direction, bytes(&ctx, &key)?, bytes(&ctx, &iv)?, payload);
    done.map(|text| ArrayBuffer::new_copy(ctx, text)).transpose()
}

/// The sealed text with its tag of 16 bytes; nothing when key or iv have another length than the algorithm's.
fn aes_gcm_seal<'js>(ctx: Ctx<'js>, key: ArrayBuffer<'js>, iv: ArrayBuffer<'js>, aad: ArrayBuffer<'js>, data: ArrayBuffer<'js>) -> Result<Option<ArrayBuffer<'js>>> {
    aes_gcm_of(ctx, Direction::Seal, (key, iv, aad, data))
}

/// The text; nothing when the tag does not fit.
fn aes_gcm_open<'js>(ctx: Ctx<'js>, key: ArrayBuffer<'js>, iv: ArrayBuffer<'js>, aad: ArrayBuffer<'js>, data: ArrayBuffer<'js>) -> Result<Option<ArrayBuffer<'js>>> {
    aes_gcm_of(ctx, Direction::Open, (key, iv, aad, data))
}
