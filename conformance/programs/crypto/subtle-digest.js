for (const name of ['SHA-1', 'SHA-256', 'SHA-384', 'SHA-512', 'sha-256']) console.log(Buffer.from(await crypto.subtle.digest(name, new TextEncoder().encode('hello'))).toString('hex'));
console.log(Buffer.from(await crypto.subtle.digest({ name: 'SHA-1' }, new Uint8Array(0).buffer)).toString('hex'));
await crypto.subtle.digest('MD5', new Uint8Array(1)).catch((error) => console.log(error.name));
await crypto.subtle.digest('SHA-1', 'text').catch((error) => console.log(error.name));
