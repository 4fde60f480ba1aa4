const { subtle } = crypto;
const text = (value) => new TextEncoder().encode(value);
const password = await subtle.importKey('raw', text('password'), 'PBKDF2', false, ['deriveBits', 'deriveKey']);
console.log(Buffer.from(await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: text('salt'), iterations: 100 }, password, 256)).toString('hex'));
const material = await subtle.importKey('raw', text('material'), 'HKDF', false, ['deriveBits', 'deriveKey']);
console.log(Buffer.from(await subtle.deriveBits({ name: 'HKDF', hash: 'SHA-512', salt: text('s'), info: text('i') }, material, 128)).toString('hex'));
const key = await subtle.deriveKey({ name: 'PBKDF2', hash: 'SHA-1', salt: text('salt'), iterations: 5 }, password, { name: 'AES-GCM', length: 256 }, true, ['encrypt']);
console.log(Buffer.from(await subtle.exportKey('raw', key)).toString('hex'));
