//! Elliptic curves: ECDSA, ECDH, Ed25519 and X25519. A private key is its number, a public key its point as SEC 1 writes it (of Ed25519 and
//! X25519 its 32 bytes). Everything is RustCrypto's.

use ed25519_dalek::{Signer, Verifier};
use rquickjs::{function::Func, ArrayBuffer, Ctx, Object, Result};

use crate::{crypto::bytes, random::Entropy};

/// Adds the functions. What does not fit a curve answers nothing.
pub fn add_to(part: &Object<'_>) -> Result<()> {
    part.set("ecGenerate", Func::from(ec_generate))?;
    part.set("ecPublic", Func::from(ec_public))?;
    part.set("ecPoint", Func::from(ec_point))?;
    part.set("ecSign", Func::from(ec_sign))?;
    part.set("ecVerify", Func::from(ec_verify))?;
    part.set("ecAgree", Func::from(ec_agree))?;
    part.set("ed25519Public", Func::from(ed25519_public))?;
    part.set("ed25519Sign", Func::from(ed25519_sign))?;
    part.set("ed25519Verify", Func::from(ed25519_verify))?;
    part.set("x25519Public", Func::from(x25519_public))?;
    part.set("x25519Agree", Func::from(x25519_agree))
}

/// `$work` with `$curve` as the crate of the curve.
macro_rules! with_curve {
    ($name:expr, $curve:ident => $work:expr) => {
        match $name.as_str() {
            "P-256" => { use p256 as $curve; $work }
            "P-384" => { use p384 as $curve; $work }
            "P-521" => { use p521 as $curve; $work }
            "secp256k1" => { use k256 as $curve; $work }
            _ => None,
        }
    };
}

type Answer<'js> = Result<Option<ArrayBuffer<'js>>>;

fn answer<'js>(ctx: Ctx<'js>, made: Option<Vec<u8>>) -> Answer<'js> {
    made.map(|made| ArrayBuffer::new_copy(ctx, made)).transpose()
}

fn ec_generate(ctx: Ctx<'_>, curve: String) -> Answer<'_> {
    let made = with_curve!(curve, c => Some(c::SecretKey::random(&mut Entropy).to_bytes().to_vec()));
    answer(ctx, made)
}

fn ec_public<'js>(ctx: Ctx<'js>, curve: String, secret: ArrayBuffer<'js>) -> Answer<'js> {
    use p256::elliptic_curve::sec1::ToEncodedPoint;
    let secret = bytes(&ctx, &secret)?;
    let made = with_curve!(curve, c => {
        c::SecretKey::from_slice(secret).ok().map(|it| it.public_key().to_encoded_point(false).as_bytes().to_vec())
    });
    answer(ctx, made)
}

/// The point again, compressed or not, if it lies on the curve.
fn ec_point<'js>(ctx: Ctx<'js>, curve: String, point: ArrayBuffer<'js>, compressed: bool) -> Answer<'js> {
    use p256::elliptic_curve::sec1::ToEncodedPoint;
    let point = bytes(&ctx, &point)?;
    let made = with_curve!(curve, c => {
        c::PublicKey::from_sec1_bytes(point).ok().map(|it| it.to_encoded_point(compressed).as_bytes().to_vec())
    });
    answer(ctx, made)
}

/// A hash at least as long as the curve's numbers: the libraries refuse much shorter ones, and zeros before it change nothing.
fn padded(hash: &[u8], len: usize) -> Vec<u8> {
    let mut all = vec![0; len.saturating_sub(hash.len())];
    all.extend_from_slice(hash);
    all
}

/// r and s, one behind the other.
fn ec_sign<'js>(ctx: Ctx<'js>, curve: String, secret: ArrayBuffer<'js>, hash: ArrayBuffer<'js>) -> Answer<'js> {
    use p256::ecdsa::signature::hazmat::RandomizedPrehashSigner;
    let (secret, hash) = (bytes(&ctx, &secret)?, bytes(&ctx, &hash)?);
    let made = with_curve!(curve, c => {
        c::ecdsa::SigningKey::from_slice(secret).ok().and_then(|key| {
            let signature: c::ecdsa::Signature = key.sign_prehash_with_rng(&mut Entropy, &padded(hash, secret.len())).ok()?;
            Some(signature.to_bytes().to_vec())
        })
    });
    answer(ctx, made)
}

fn ec_verify<'js>(ctx: Ctx<'js>, curve: String, point: ArrayBuffer<'js>, hash: ArrayBuffer<'js>, signature: ArrayBuffer<'js>) -> Result<bool> {
    use p256::ecdsa::signature::hazmat::PrehashVerifier;
    let (point, hash, signature) = (bytes(&ctx, &point)?, bytes(&ctx, &hash)?, bytes(&ctx, &signature)?);
    let verified = with_curve!(curve, c => {
        c::ecdsa::VerifyingKey::from_sec1_bytes(point).ok().and_then(|key| {
            let signature = c::ecdsa::Signature::from_slice(signature).ok()?;
            // One curve's library takes the lower of two equal signatures only.
            let signature = signature.normalize_s().unwrap_or(signature);
            key.verify_prehash(&padded(hash, signature.to_bytes().len() / 2), &signature).ok()
        })
    });
    Ok(verified.is_some())
}

fn ec_agree<'js>(ctx: Ctx<'js>, curve: String, secret: ArrayBuffer<'js>, point: ArrayBuffer<'js>) -> Answer<'js> {
    let (secret, point) = (bytes(&ctx, &secret)?, bytes(&ctx, &point)?);
    let made = with_curve!(curve, c => {
        c::SecretKey::from_slice(secret).ok().zip(c::PublicKey::from_sec1_bytes(point).ok()).map(|(secret, public)| {
            c::ecdh::diffie_hellman(secret.to_nonzero_scalar(), public.as_affine()).raw_secret_bytes().to_vec()
        })
    });
    answer(ctx, made)
}

fn ed25519_key(secret: &[u8]) -> Option<ed25519_dalek::SigningKey> {
    secret.try_into().ok().map(ed25519_dalek::SigningKey::from_bytes)
}

fn ed25519_public<'js>(ctx: Ctx<'js>, secret: ArrayBuffer<'js>) -> Answer<'js> {
    let made = ed25519_key(bytes(&ctx, &secret)?).map(|key| key.verifying_key().to_bytes().to_vec());
    answer(ctx, made)
}

fn ed25519_sign<'js>(ctx: Ctx<'js>, secret: ArrayBuffer<'js>, data: ArrayBuffer<'js>) -> Answer<'js> {
    let data = bytes(&ctx, &data)?;
    let made = ed25519_key(bytes(&ctx, &secret)?).map(|key| key.sign(data).to_bytes().to_vec());
    answer(ctx, made)
}

fn ed25519_verify<'js>(ctx: Ctx<'js>, public: ArrayBuffer<'js>, data: ArrayBuffer<'js>, signature: ArrayBuffer<'js>) -> Result<bool> {
    let (public, data, signature) = (bytes(&ctx, &public)?, bytes(&ctx, &data)?, bytes(&ctx, &signature)?);
    let key = public.try_into().ok().and_then(|public| ed25519_dalek::VerifyingKey::from_bytes(public).ok());
    let signature = ed25519_dalek::Signature::from_slice(signature).ok();
    Ok(key.zip(signature).is_some_and(|(key, signature)| key.verify(data, &signature).is_ok()))
}

fn x25519_secret(secret: &[u8]) -> Option<x25519_dalek::StaticSecret> {
    <[u8; 32]>::try_from(secret).ok().map(x25519_dalek::StaticSecret::from)
}

fn x25519_public<'js>(ctx: Ctx<'js>, secret: ArrayBuffer<'js>) -> Answer<'js> {
    let made = x25519_secret(bytes(&ctx, &secret)?).map(|secret| x25519_dalek::PublicKey::from(&secret).to_bytes().to_vec());
    answer(ctx, made)
}

/// Nothing for a point of small order, too.
fn x25519_agree<'js>(ctx: Ctx<'js>, secret: ArrayBuffer<'js>, public: ArrayBuffer<'js>) -> Answer<'js> {
    let (secret, public) = (x25519_secret(bytes(&ctx, &secret)?), <[u8; 32]>::try_from(bytes(&ctx, &public)?).ok());
    let shared = secret.zip(public).map(|(secret, public)| secret.diffie_hellman(&x25519_dalek::PublicKey::from(public)));
    let made = shared.filter(x25519_dalek::SharedSecret::was_contributory).map(|it| it.to_bytes().to_vec());
    answer(ctx, made)
}
