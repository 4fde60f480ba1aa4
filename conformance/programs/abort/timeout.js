const s = AbortSignal.timeout(5);
console.log(s.aborted);
await new Promise((resolve) => { s.addEventListener('abort', resolve, { once: true }); setTimeout(() => {}, 50); });
console.log(s.aborted, s.reason.name, s.reason.message);
