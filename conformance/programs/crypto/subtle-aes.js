const hex = (buffer) => Buffer.from(buffer).toString('hex');
const data = new TextEncoder().encode('forty bytes of text, or a little more...');
(async () => {
  for (const length of [16, 24, 32]) {
    const raw = new Uint8Array(length).map((_, i) => i * 7);
    const iv = new Uint8Array(16).fill(255);
    for (const algorithm of [{ name: 'AES-CBC', iv }, { name: 'AES-CTR', counter: iv, length: 128 }, { name: 'AES-CTR', counter: iv, length: 8 }, { name: 'AES-CTR', counter: iv, length: 70 }, { name: 'AES-GCM', iv: iv.subarray(4) }, { name: 'AES-GCM', iv, additionalData: data }, { name: 'AES-GCM', iv: iv.subarray(4), tagLength: 96 }]) {
      const key = await crypto.subtle.importKey('raw', raw, algorithm.name, true, ['encrypt', 'decrypt']);
      const sealed = await crypto.subtle.encrypt(algorithm, key, data);
      console.log(length, algorithm.name, hex(sealed), hex(await crypto.subtle.decrypt(algorithm, key, sealed)) === hex(data));
      console.log((await crypto.subtle.exportKey('jwk', key)).alg);
    }
    const wrapping = await crypto.subtle.importKey('raw', raw, 'AES-KW', false, ['wrapKey', 'unwrapKey']);
    const inner = await crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
    const wrapped = await crypto.subtle.wrapKey('raw', inner, wrapping, 'AES-KW');
    const back = await crypto.subtle.unwrapKey('raw', wrapped, wrapping, 'AES-KW', { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
    console.log(hex(wrapped), hex(await crypto.subtle.exportKey('raw', back)) === hex(raw));
    await crypto.subtle.unwrapKey('raw', new Uint8Array(24), wrapping, 'AES-KW', 'AES-CBC', true, ['encrypt']).catch((error) => console.log(error.name));
  }
  const key = await crypto.subtle.generateKey({ name: 'AES-CBC', length: 192 }, true, ['encrypt', 'decrypt']);
  console.log(key.algorithm, key.usages, (await crypto.subtle.exportKey('raw', key)).byteLength);
  await crypto.subtle.encrypt({ name: 'AES-CBC', iv: new Uint8Array(3) }, key, data).catch((error) => console.log(error.name));
  await crypto.subtle.decrypt({ name: 'AES-CBC', iv: new Uint8Array(16) }, key, new Uint8Array(7)).catch((error) => console.log(error.name));
})();
