for (let n = 50; n < 75; n++) console.log({ k: 'v'.repeat(n) });
for (let n = 20; n < 40; n += 1) console.log({ left: 'l'.repeat(n), right: 'r'.repeat(n) });
