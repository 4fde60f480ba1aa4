//! AES and triple DES in the modes that the web and Node know, and scrypt. Everything is RustCrypto's.

use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::{
    block_padding::{NoPadding, Pkcs7},
    consts, generic_array::GenericArray, BlockCipher, BlockDecrypt, BlockDecryptMut, BlockEncrypt, BlockEncryptMut, BlockSizeUser, KeyInit, KeyIvInit, StreamCipher,
};
use ghash::{universal_hash::UniversalHash, GHash};
use rquickjs::{function::Func, ArrayBuffer, Ctx, Exception, Object, Result};

use subtle::ConstantTimeEq;

use crate::crypto::bytes;

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("aes", Func::from(aes))?;
    part.set("des3", Func::from(des3))?;
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

/// `mode`: `cbc` (PKCS#7), `cbc-bare` and `ecb-bare` (no padding), `ctr32`, `ctr64`, `ctr128` (by the bits that count) or `kw`.
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
        ("cbc" | "cbc-bare", _) => chained::<A>(mode == "cbc", seal, key, iv, data),
        ("ecb-bare", _) => each_block::<A>(seal, key, data),
        ("ctr32", _) => streamed(ctr::Ctr32BE::<A>::new_from_slices(key, iv).ok(), data),
        ("ctr64", _) => streamed(ctr::Ctr64BE::<A>::new_from_slices(key, iv).ok(), data),
        ("ctr128", _) => streamed(ctr::Ctr128BE::<A>::new_from_slices(key, iv).ok(), data),
        ("kw", true) => aes_kw::Kek::<A>::try_from(key).ok().and_then(|it| it.wrap_vec(data).ok()),
        ("kw", false) => aes_kw::Kek::<A>::try_from(key).ok().and_then(|it| it.unwrap_vec(data).ok()),
        _ => None,
    });
    done.map(|made| ArrayBuffer::new_copy(ctx, made)).transpose()
}

/// CBC with the padding of PKCS#7 or without any. Nothing when key, iv or data do not fit.
fn chained<C>(padded: bool, seal: bool, key: &[u8], iv: &[u8], data: &[u8]) -> Option<Vec<u8>>
where
    C: BlockCipher + BlockEncryptMut + BlockDecryptMut + KeyInit,
{
    match (seal, padded) {
        (true, true) => Some(cbc::Encryptor::<C>::new_from_slices(key, iv).ok()?.encrypt_padded_vec_mut::<Pkcs7>(data)),
        (true, false) if data.len() % C::block_size() != 0 => None,
        (true, false) => Some(cbc::Encryptor::<C>::new_from_slices(key, iv).ok()?.encrypt_padded_vec_mut::<NoPadding>(data)),
        (false, true) => cbc::Decryptor::<C>::new_from_slices(key, iv).ok()?.decrypt_padded_vec_mut::<Pkcs7>(data).ok(),
        (false, false) => cbc::Decryptor::<C>::new_from_slices(key, iv).ok()?.decrypt_padded_vec_mut::<NoPadding>(data).ok(),
    }
}

/// Each block by itself.
fn each_block<C>(seal: bool, key: &[u8], data: &[u8]) -> Option<Vec<u8>>
where
    C: BlockCipher + BlockEncrypt + BlockDecrypt + KeyInit,
{
    let cipher = <C as KeyInit>::new_from_slice(key).ok()?;
    let mut made = data.to_vec();
    for block in made.chunks_exact_mut(C::block_size()) {
        let block = GenericArray::from_mut_slice(block);
        if seal { cipher.encrypt_block(block) } else { cipher.decrypt_block(block) }
    }
    Some(made)
}

/// Triple DES of three keys in CBC, with the padding of PKCS#7 or without any.
fn des3<'js>(
    ctx: Ctx<'js>,
    padded: bool,
    seal: bool,
    key: ArrayBuffer<'js>,
    iv: ArrayBuffer<'js>,
    data: ArrayBuffer<'js>,
) -> Result<Option<ArrayBuffer<'js>>> {
    let (key, iv, data) = (bytes(&ctx, &key)?, bytes(&ctx, &iv)?, bytes(&ctx, &data)?);
    chained::<des::TdesEde3>(padded, seal, key, iv, data).map(|made| ArrayBuffer::new_copy(ctx, made)).transpose()
}

fn streamed(cipher: Option<impl StreamCipher>, data: &[u8]) -> Option<Vec<u8>> {
    let mut made = data.to_vec();
    cipher?.try_apply_keystream(&mut made).ok()?;
    Some(made)
}

/// The text with its tag behind it, or what such a text holds. Nothing when the tag does not fit, or the lengths: an iv has a byte, a tag 4 to 16.
fn aes_gcm<'js>(
    ctx: Ctx<'js>,
    seal: bool,
    tag: u32,
    key: ArrayBuffer<'js>,
    iv: ArrayBuffer<'js>,
    aad: ArrayBuffer<'js>,
    data: ArrayBuffer<'js>,
) -> Result<Option<ArrayBuffer<'js>>> {
    let (key, iv, aad, data) = (bytes(&ctx, &key)?, bytes(&ctx, &iv)?, bytes(&ctx, &aad)?, bytes(&ctx, &data)?);
    if iv.is_empty() || !(4..=16).contains(&tag) {
        return Ok(None);
    }
    let done = with_aes!(key, A => gcm::<A>(seal, tag as usize, key, iv, aad, data));
    done.map(|made| ArrayBuffer::new_copy(ctx, made)).transpose()
}

/// AES-GCM as section 7 of NIST SP 800-38D puts it together, for an iv and a tag of any length: `aes-gcm` wants both when it is compiled, and
/// makes a cipher of each pair. AES, the counter and GHASH are RustCrypto's.
fn gcm<A>(seal: bool, tag: usize, key: &[u8], iv: &[u8], aad: &[u8], data: &[u8]) -> Option<Vec<u8>>
where
    A: BlockCipher + BlockEncryptMut + BlockEncrypt + KeyInit + BlockSizeUser<BlockSize = consts::U16>,
{
    let mut hash_key = ghash::Key::default();
    <A as KeyInit>::new_from_slice(key).ok()?.encrypt_block(&mut hash_key);
    let hash = GHash::new(&hash_key);
    let mut stream = ctr::Ctr32BE::<A>::new_from_slices(key, &first_counter(hash.clone(), iv)).ok()?;
    let mut mask = [0; 16];
    stream.try_apply_keystream(&mut mask).ok()?;
    let (text, given) = if seal { (data, None) } else { data.split_at_checked(data.len().checked_sub(tag)?).map(|(text, tag)| (text, Some(tag)))? };
    let mut made = text.to_vec();
    let Some(given) = given else {
        stream.try_apply_keystream(&mut made).ok()?;
        let whole = sum(hash, &mask, aad, &made);
        made.extend_from_slice(&whole[..tag]);
        return Some(made);
    };
    if !bool::from(sum(hash, &mask, aad, text)[..tag].ct_eq(given)) {
        return None;
    }
    stream.try_apply_keystream(&mut made).ok()?;
    Some(made)
}

/// Two lengths in bits, as GHASH takes them.
fn lengths(first: usize, second: usize) -> ghash::Block {
    let mut block = ghash::Block::default();
    block[..8].copy_from_slice(&(first as u64 * 8).to_be_bytes());
    block[8..].copy_from_slice(&(second as u64 * 8).to_be_bytes());
    block
}

fn first_counter(mut hash: GHash, iv: &[u8]) -> ghash::Block {
    let mut block = ghash::Block::default();
    if iv.len() == 12 {
        block[..12].copy_from_slice(iv);
        block[15] = 1;
        return block;
    }
    hash.update_padded(iv);
    hash.update(&[lengths(0, iv.len())]);
    hash.finalize()
}

fn sum(mut hash: GHash, mask: &[u8; 16], aad: &[u8], text: &[u8]) -> ghash::Block {
    hash.update_padded(aad);
    hash.update_padded(text);
    hash.update(&[lengths(aad.len(), text.len())]);
    let mut made = hash.finalize();
    made.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    made
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
