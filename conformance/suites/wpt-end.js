// Behind testharness.js: every subtest is a line, as soon as it ends.
globalThis.__report = () => {};
add_result_callback((test) => { console.log(`RESULT ${JSON.stringify({ name: test.name, ok: test.status === 0, why: test.message ?? '' })}`); });
