// What testharness.js and a test need beside the language in a shell: a page's address, and the suite's own files, which its server would give.
{
  const served = globalThis.__served;
  const page = new URL(globalThis.__page, 'https://web-platform.test');
  globalThis.self = globalThis;
  // By these a library takes its surroundings for Node's modules.
  for (const name of ['module', 'exports']) delete globalThis[name];
  globalThis.GLOBAL = { isWindow: () => false, isWorker: () => false, isShadowRealm: () => false };
  globalThis.location ??= { href: page.href, origin: page.origin, host: page.host, hostname: page.hostname, search: page.search, pathname: page.pathname, protocol: page.protocol };
  if (Object.keys(served).length > 0) {
    const real = globalThis.fetch;
    globalThis.fetch = (asked, ...rest) => {
      const text = typeof asked === 'string' && served[new URL(asked, page).pathname];
      return typeof text === 'string' ? Promise.resolve(new Response(text)) : real(asked, ...rest);
    };
    // Interfaces are looked for in what calls itself a window.
    if (Object.keys(served).some((name) => name.endsWith('.idl'))) globalThis.Window = Object.getPrototypeOf(globalThis).constructor;
  }
}
