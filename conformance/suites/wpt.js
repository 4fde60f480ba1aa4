// What testharness.js needs beside itself in a shell.
globalThis.self = globalThis;
globalThis.GLOBAL = { isWindow: () => false, isWorker: () => false, isShadowRealm: () => false };
globalThis.location ??= { href: 'https://web-platform.test/', origin: 'https://web-platform.test', search: '', pathname: '/', protocol: 'https:' };
