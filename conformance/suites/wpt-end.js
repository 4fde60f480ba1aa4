// Behind testharness.js: every subtest is a line.
globalThis.__report = () => {};
add_completion_callback((tests) => { for (const test of tests) console.log(`RESULT ${JSON.stringify({ name: test.name, ok: test.status === 0, why: test.message ?? '' })}`); });
