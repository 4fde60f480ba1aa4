// What AsyncLocalStorage holds is there after an error was caught, a promise was awaited and a timer fired.
const { AsyncLocalStorage } = require('async_hooks');
const storage = new AsyncLocalStorage();
const seen = [];
const look = (where) => seen.push(`${where}: ${storage.getStore()}`);
await storage.run('outer', async () => {
  try { throw new Error('x'); } catch { look('caught'); }
  try { await Promise.reject(new Error('y')); } catch { look('rejected'); }
  try { null.x; } catch { look('thrown by the engine'); }
  await new Promise((resolve) => setTimeout(() => { look('timer'); resolve(); }, 1));
  await storage.run('inner', async () => {
    try { JSON.parse('{'); } catch { look('inside'); }
    await null;
    look('inside, later');
  });
  look('outside again');
});
look('after all');
console.log(seen.join('\n'));
