const e = new TextEncoder();
for (const [text, size] of [['abc', 5], ['abc', 2], ['é€', 4], ['é€', 5], ['😀x', 3], ['😀x', 5], ['', 0]]) {
  const target = new Uint8Array(size);
  const { read, written } = e.encodeInto(text, target);
  console.log(read, written, target.join());
}
