const bytes = new TextEncoder().encode('aé€😀z');
for (const size of [1, 2, 3, 5]) {
  const d = new TextDecoder();
  const parts = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(d.decode(bytes.subarray(at, at + size), { stream: true }));
  parts.push(d.decode());
  console.log(parts.join('|'));
}
const cut = new TextDecoder();
console.log(JSON.stringify(cut.decode(new Uint8Array([0xe2, 0x82]), { stream: true })), JSON.stringify(cut.decode()), JSON.stringify(cut.decode(new Uint8Array([0x61]))));
const mark = new TextDecoder();
console.log(mark.decode(new Uint8Array([0xef, 0xbb]), { stream: true }).length, mark.decode(new Uint8Array([0xbf, 0x61]), { stream: true }).length, mark.decode(new Uint8Array([0xef, 0xbb, 0xbf])).length);
