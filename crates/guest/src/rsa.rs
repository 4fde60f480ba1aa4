//! RSA. A key is a list of its numbers, big-endian: `[n, e]`, and of a private one `[n, e, d, p, q]`. Everything is RustCrypto's.

use rquickjs::{function::Func, ArrayBuffer, Ctx, Exception, Object, Result};
use rsa::{
    traits::{PrivateKeyParts, PublicKeyParts},
    BigUint, Oaep, Pkcs1v15Encrypt, Pkcs1v15Sign, Pss, RsaPrivateKey, RsaPublicKey,
};

use crate::{crypto::bytes, random::Entropy};

/// Bits of a key's modulus that are not too many.
const BITS_MAX: usize = 8192;
/// Rounds of a test of primes.
const ROUNDS_MAX: u32 = 64;

/// Adds the functions.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("rsaGenerate", Func::from(generate))?;
    part.set("rsaComplete", Func::from(complete))?;
    part.set("rsaSign", Func::from(sign))?;
    part.set("rsaVerify", Func::from(verify))?;
    part.set("rsaEncrypt", Func::from(encrypt))?;
    part.set("rsaDecrypt", Func::from(decrypt))?;
    part.set("modPow", Func::from(mod_pow))?;
    part.set("isPrime", Func::from(is_prime))
}

/// `$work` with `$Hash` as the hash of that name; nothing for another name.
macro_rules! with_oid_hash {
    ($name:expr, $Hash:ident => $work:expr) => {
        match $name.as_str() {
            "MD5" => { type $Hash = md5::Md5; $work }
            "SHA-1" => { type $Hash = sha1::Sha1; $work }
            "SHA-224" => { type $Hash = sha2::Sha224; $work }
            "SHA-256" => { type $Hash = sha2::Sha256; $work }
            "SHA-384" => { type $Hash = sha2::Sha384; $work }
            "SHA-512" => { type $Hash = sha2::Sha512; $work }
            _ => None,
        }
    };
}

type Numbers<'js> = Vec<ArrayBuffer<'js>>;
type Answer<'js> = Result<Option<ArrayBuffer<'js>>>;

fn number(ctx: &Ctx<'_>, numbers: &[ArrayBuffer<'_>], at: usize) -> Result<BigUint> {
    let number = numbers.get(at).ok_or_else(|| Exception::throw_type(ctx, "the key has too few numbers"))?;
    Ok(BigUint::from_bytes_be(bytes(ctx, number)?))
}

fn public(ctx: &Ctx<'_>, key: &[ArrayBuffer<'_>]) -> Result<Option<RsaPublicKey>> {
    Ok(RsaPublicKey::new_with_max_size(number(ctx, key, 0)?, number(ctx, key, 1)?, BITS_MAX).ok())
}

fn private(ctx: &Ctx<'_>, key: &[ArrayBuffer<'_>]) -> Result<Option<RsaPrivateKey>> {
    let primes = vec![number(ctx, key, 3)?, number(ctx, key, 4)?];
    Ok(RsaPrivateKey::from_components(number(ctx, key, 0)?, number(ctx, key, 1)?, number(ctx, key, 2)?, primes).ok())
}

fn answer<'js>(ctx: Ctx<'js>, made: Option<Vec<u8>>) -> Answer<'js> {
    made.map(|made| ArrayBuffer::new_copy(ctx, made)).transpose()
}

/// All eight numbers of a private key: n, e, d, p, q, d mod (p - 1), d mod (q - 1), 1/q mod p.
fn all<'js>(ctx: &Ctx<'js>, key: &RsaPrivateKey) -> Result<Option<Numbers<'js>>> {
    let [p, q] = key.primes() else { return Ok(None) };
    let one = BigUint::from(1u8);
    let Some(inverse) = key.crt_coefficient() else { return Ok(None) };
    let numbers = [key.n().clone(), key.e().clone(), key.d().clone(), p.clone(), q.clone(), key.d() % (p - &one), key.d() % (q - &one), inverse];
    numbers.iter().map(|it| ArrayBuffer::new_copy(ctx.clone(), it.to_bytes_be())).collect::<Result<_>>().map(Some)
}

fn generate<'js>(ctx: Ctx<'js>, bits: usize, exponent: ArrayBuffer<'js>) -> Result<Option<Numbers<'js>>> {
    let exponent = BigUint::from_bytes_be(bytes(&ctx, &exponent)?);
    if bits > BITS_MAX {
        return Ok(None);
    }
    match RsaPrivateKey::new_with_exp(&mut Entropy, bits, &exponent) {
        Ok(key) => all(&ctx, &key),
        Err(_) => Ok(None),
    }
}

/// The eight numbers of a private key; nothing when they do not fit each other.
fn complete<'js>(ctx: Ctx<'js>, key: Numbers<'js>) -> Result<Option<Numbers<'js>>> {
    match private(&ctx, &key)? {
        Some(key) => all(&ctx, &key),
        None => Ok(None),
    }
}

/// Signs a hash. `salt` is the length of the salt of PSS; below 0 it is PKCS #1 v1.5, which without a hash signs what it is given as it is.
fn sign<'js>(ctx: Ctx<'js>, key: Numbers<'js>, hash: String, salt: i32, hashed: ArrayBuffer<'js>) -> Answer<'js> {
    let Some(key) = private(&ctx, &key)? else { return Ok(None) };
    let hashed = bytes(&ctx, &hashed)?;
    if hash.is_empty() {
        return answer(ctx, key.sign_with_rng(&mut Entropy, Pkcs1v15Sign::new_unprefixed(), hashed).ok());
    }
    let made = with_oid_hash!(hash, H => match usize::try_from(salt) {
        Ok(salt) => key.sign_with_rng(&mut Entropy, Pss::new_with_salt::<H>(salt), hashed).ok(),
        Err(_) => key.sign_with_rng(&mut Entropy, Pkcs1v15Sign::new::<H>(), hashed).ok(),
    });
    answer(ctx, made)
}

/// Whether it is the signature of the hash. `salt` as of [`sign`]; -2: PSS with a salt of any length.
fn verify<'js>(ctx: Ctx<'js>, key: Numbers<'js>, hash: String, salt: i32, hashed: ArrayBuffer<'js>, signature: ArrayBuffer<'js>) -> Result<bool> {
    let Some(key) = public(&ctx, &key)? else { return Ok(false) };
    let (hashed, signature) = (bytes(&ctx, &hashed)?, bytes(&ctx, &signature)?);
    let verified = with_oid_hash!(hash, H => match usize::try_from(salt) {
        Ok(salt) => key.verify(Pss::new_with_salt::<H>(salt), hashed, signature).ok(),
        Err(_) if salt == -2 => {
            let most = key.size().saturating_sub(hashed.len() + 2);
            let common = [hashed.len(), most, 0];
            common.into_iter().chain(0..=most).find(|salt| key.verify(Pss::new_with_salt::<H>(*salt), hashed, signature).is_ok()).map(|_| ())
        }
        Err(_) => key.verify(Pkcs1v15Sign::new::<H>(), hashed, signature).ok(),
    });
    Ok(verified.is_some())
}

/// `hash` is OAEP's, with its label; without a hash it is PKCS #1 v1.5.
fn encrypt<'js>(ctx: Ctx<'js>, key: Numbers<'js>, hash: String, label: String, data: ArrayBuffer<'js>) -> Answer<'js> {
    let Some(key) = public(&ctx, &key)? else { return Ok(None) };
    let data = bytes(&ctx, &data)?;
    let made = if hash.is_empty() {
        key.encrypt(&mut Entropy, Pkcs1v15Encrypt, data).ok()
    } else {
        with_oid_hash!(hash, H => key.encrypt(&mut Entropy, Oaep::new_with_label::<H, _>(&label), data).ok())
    };
    answer(ctx, made)
}

fn decrypt<'js>(ctx: Ctx<'js>, key: Numbers<'js>, hash: String, label: String, data: ArrayBuffer<'js>) -> Answer<'js> {
    let Some(key) = private(&ctx, &key)? else { return Ok(None) };
    let data = bytes(&ctx, &data)?;
    let made = if hash.is_empty() {
        key.decrypt_blinded(&mut Entropy, Pkcs1v15Encrypt, data).ok()
    } else {
        with_oid_hash!(hash, H => key.decrypt_blinded(&mut Entropy, Oaep::new_with_label::<H, _>(&label), data).ok())
    };
    answer(ctx, made)
}

/// Whether the number is a prime, all but certainly: rounds of Miller and Rabin, and one of Lucas. Nothing for one of more bits than there may be.
fn is_prime<'js>(ctx: Ctx<'js>, number: ArrayBuffer<'js>, rounds: u32) -> Result<Option<bool>> {
    let number = BigUint::from_bytes_be(bytes(&ctx, &number)?);
    Ok((number.bits() <= BITS_MAX).then(|| num_bigint_dig::prime::probably_prime(&number, rounds.min(ROUNDS_MAX) as usize)))
}

/// base ^ exponent mod modulus: Diffie and Hellman's, and RSA without padding.
fn mod_pow<'js>(ctx: Ctx<'js>, base: ArrayBuffer<'js>, exponent: ArrayBuffer<'js>, modulus: ArrayBuffer<'js>) -> Answer<'js> {
    let [base, exponent, modulus] = [&base, &exponent, &modulus].map(|it| bytes(&ctx, it).map(BigUint::from_bytes_be));
    let (base, exponent, modulus) = (base?, exponent?, modulus?);
    let fits = modulus > BigUint::from(1u8) && modulus.bits() <= BITS_MAX;
    let made = fits.then(|| base.modpow(&exponent, &modulus).to_bytes_be());
    answer(ctx, made)
}
