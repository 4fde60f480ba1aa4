//! AES in the modes that the web and Node know, and scrypt. Everything is RustCrypto's.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{
    aead::{consts, Aead, Payload},
    AesGcm, KeyInit, Nonce,
};
use cbc::cipher::{
    block_padding::{NoPadding, Pkcs7},
    BlockDecryptMut, BlockEncryptMut, KeyIvInit, StreamCipher,
};
use rquickjs::{function::Func, ArrayBuffer, Ctx, Exception, Object, Result};

use crate::crypto::bytes;

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("aes", Func::from(aes))?;
    part.set("aesGcm", Func::from(aes_gcm))?;
    part.set("scrypt", Func::from(scrypt))
}

/// `$work` with `$Aes` as the cipher of the key's length; nothing for another length.
macro_rules! with_aes {
    ($key:expr, $Aes:ident => $work:expr) => {
        match $key.len() {
            16 => { type $Aes = Aes128; $work }
            24 => { type $Aes = Aes192; $work }
            32 => { type $Aes = Aes256; $work }
            _ => None,
        }
    };
}

/// `mode`: `cbc` (PKCS#7), `cbc-bare` (no padding), `ctr32`, `ctr64`, `ctr128` (by the bits that count) or `kw`.
/// Nothing when key, iv or data do not fit.
fn aes<'js>(
    ctx: Ctx<'js>,
    mode: String,
    seal: bool,
    key: ArrayBuffer<'js>,
    iv: ArrayBuffer<'js>,
    data: ArrayBuffer<'js>,
) -> Result<Option<ArrayBuffer<'js>>> {
    let (key, iv, data) = (bytes(&ctx, &key)?, bytes(&ctx, &iv)?, bytes(&ctx, &data)?);
    let done = with_aes!(key, A => match (mode.as_str(), seal) {
        ("cbc", true) => cbc::Encryptor::<A>::new_from_slices(key, iv).ok().map(|it| it.encrypt_padded_vec_mut::<Pkcs7>(data)),
        ("cbc", false) => cbc::Decryptor::<A>::new_from_slices(key, iv).ok().and_then(|it| it.decrypt_padded_vec_mut::<Pkcs7>(data).ok()),
        ("cbc-bare", true) if data.len() % 16 == 0 => {
            cbc::Encryptor::<A>::new_from_slices(key, iv).ok().map(|it| it.encrypt_padded_vec_mut::<NoPadding>(data))
        }
        ("cbc-bare", false) => cbc::Decryptor::<A>::new_from_slices(key, iv).ok().and_then(|it| it.decrypt_padded_vec_mut::<NoPadding>(data).ok()),
        ("ctr32", _) => streamed(ctr::Ctr32BE::<A>::new_from_slices(key, iv).ok(), data),
        ("ctr64", _) => streamed(ctr::Ctr64BE::<A>::new_from_slices(key, iv).ok(), data),
        ("ctr128", _) => streamed(ctr::Ctr128BE::<A>::new_from_slices(key, iv).ok(), data),
        ("kw", true) => aes_kw::Kek::<A>::try_from(key).ok().and_then(|it| it.wrap_vec(data).ok()),
        ("kw", false) => aes_kw::Kek::<A>::try_from(key).ok().and_then(|it| it.unwrap_vec(data).ok()),
        _ => None,
    });
    done.map(|made| ArrayBuffer::new_copy(ctx, made)).transpose()
}

fn streamed(cipher: Option<impl StreamCipher>, data: &[u8]) -> Option<Vec<u8>> {
    let mut made = data.to_vec();
    cipher?.try_apply_keystream(&mut made).ok()?;
    Some(made)
}

/// The text with its tag behind it, or what such a text holds. Nothing when the tag does not fit, or the lengths: an iv has 12 or 16 bytes, a tag 12 to 16.
fn aes_gcm<'js>(
    ctx: Ctx<'js>,
    seal: bool,
    tag: u32,
    key: ArrayBuffer<'js>,
    iv: ArrayBuffer<'js>,
    aad: ArrayBuffer<'js>,
    data: ArrayBuffer<'js>,
) -> Result<Option<ArrayBuffer<'js>>> {
    let (key, iv) = (bytes(&ctx, &key)?, bytes(&ctx, &iv)?);
    let payload = Payload { msg: bytes(&ctx, &data)?, aad: bytes(&ctx, &aad)? };
    macro_rules! run {
        ($A:ident, $N:ident, $T:ident) => {{
            let cipher = AesGcm::<$A, consts::$N, consts::$T>::new_from_slice(key).ok();
            let nonce = Nonce::<consts::$N>::from_slice(iv);
            cipher.and_then(|it| if seal { it.encrypt(nonce, payload).ok() } else { it.decrypt(nonce, payload).ok() })
        }};
    }
    let done = with_aes!(key, A => match (iv.len(), tag) {
        (12, 12) => run!(A, U12, U12),
        (12, 13) => run!(A, U12, U13),
        (12, 14) => run!(A, U12, U14),
        (12, 15) => run!(A, U12, U15),
        (12, 16) => run!(A, U12, U16),
        (16, 16) => run!(A, U16, U16),
        _ => None,
    });
    done.map(|made| ArrayBuffer::new_copy(ctx, made)).transpose()
}

/// Nothing for parameters that scrypt does not take.
fn scrypt<'js>(
    ctx: Ctx<'js>,
    password: ArrayBuffer<'js>,
    salt: ArrayBuffer<'js>,
    log_n: u32,
    r: u32,
    p: u32,
    len: u32,
) -> Result<Option<ArrayBuffer<'js>>> {
    let Ok(params) = scrypt::Params::new(log_n as u8, r, p, scrypt::Params::RECOMMENDED_LEN) else { return Ok(None) };
    let mut derived = vec![0; len as usize];
    let (password, salt) = (bytes(&ctx, &password)?, bytes(&ctx, &salt)?);
    if scrypt::scrypt(password, salt, &params, &mut derived).is_err() {
        return Err(Exception::throw_range(&ctx, "scrypt cannot derive a key of that length"));
    }
    Ok(Some(ArrayBuffer::new_copy(ctx, derived)?))
}
