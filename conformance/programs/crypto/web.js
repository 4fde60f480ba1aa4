const a = crypto.getRandomValues(new Uint32Array(4));
console.log(a.length, a instanceof Uint32Array, typeof crypto.randomUUID(), typeof crypto.subtle.digest);
for (const work of [() => crypto.getRandomValues(new Uint8Array(65537)), () => crypto.getRandomValues(new Float32Array(1))]) try { work(); } catch (error) { console.log(error.name); }
console.log(require('crypto').webcrypto.subtle === require('crypto').subtle);
