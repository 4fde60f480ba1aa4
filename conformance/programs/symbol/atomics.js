console.log(typeof Atomics, typeof SharedArrayBuffer);
