//! Hashes, authentication codes and key derivation, for the modules behind `crypto.subtle` and `require("crypto")`.
//! Everything is RustCrypto's; which algorithm may be asked for what, the modules decide.

use hmac::{Hmac, Mac};
use rquickjs::{function::Func, ArrayBuffer, Ctx, Exception, Object, Result};
use subtle::ConstantTimeEq;

/// Bytes that one derivation may give.
const DERIVED_BYTES_MAX: u32 = 1 << 20;

/// Adds the functions.
pub fn add_to(natives: &Object<'_>) -> Result<()> {
    natives.set("digest", Func::from(digest))?;
    natives.set("xof", Func::from(xof))?;
    natives.set("hmac", Func::from(hmac))?;
    natives.set("hmacVerify", Func::from(hmac_verify))?;
    natives.set("equal", Func::from(equal))?;
    natives.set("pbkdf2", Func::from(pbkdf2))?;
    natives.set("hkdf", Func::from(hkdf))
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
            "SHA-512/224" => { type $Hash = sha2::Sha512_224; $work }
            "SHA-512/256" => { type $Hash = sha2::Sha512_256; $work }
            "SHA3-224" => { type $Hash = sha3::Sha3_224; $work }
            "SHA3-256" => { type $Hash = sha3::Sha3_256; $work }
            "SHA3-384" => { type $Hash = sha3::Sha3_384; $work }
            "SHA3-512" => { type $Hash = sha3::Sha3_512; $work }
            "RIPEMD-160" => { type $Hash = ripemd::Ripemd160; $work }
            _ => return Err(Exception::throw_type($ctx, "the hash is not known")),
        }
    };
}

pub fn bytes<'a>(ctx: &Ctx<'_>, buffer: &'a ArrayBuffer<'_>) -> Result<&'a [u8]> {
    // SAFETY: nothing runs script while the slice lives.
    unsafe { buffer.as_bytes() }.ok_or_else(|| Exception::throw_type(ctx, "the buffer is detached"))
}

fn digest<'js>(ctx: Ctx<'js>, hash: String, data: ArrayBuffer<'js>) -> Result<ArrayBuffer<'js>> {
    use sha2::Digest;
    let data = bytes(&ctx, &data)?;
    let sum = with_hash!(&ctx, hash, H => H::digest(data).to_vec());
    ArrayBuffer::new_copy(ctx, sum)
}

/// So many bytes of SHAKE of that strength, 128 or 256.
fn xof<'js>(ctx: Ctx<'js>, strength: u32, data: ArrayBuffer<'js>, len: u32) -> Result<ArrayBuffer<'js>> {
    use sha3::digest::{ExtendableOutput, Update, XofReader};
    if len > DERIVED_BYTES_MAX {
        return Err(Exception::throw_range(&ctx, "the digest would be too long"));
    }
    let data = bytes(&ctx, &data)?;
    let mut made = vec![0; len as usize];
    if strength == 128 {
        sha3::Shake128::default().chain(data).finalize_xof().read(&mut made);
    } else {
        sha3::Shake256::default().chain(data).finalize_xof().read(&mut made);
    }
    ArrayBuffer::new_copy(ctx, made)
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
