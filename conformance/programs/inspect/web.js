// What objects of the web show.
import { Console, log } from 'node:console';
import * as everything from 'node:console';
import { createInterface } from 'node:readline';
console.log({ state: new Response(null, { status: 204 }).status });
console.log(new Request('http://a/b', { method: 'PUT' }).method);
console.log(new Blob(['abc'], { type: 'text/plain' }), [new Blob([])]);
console.log(new File(['abc'], 'n.txt', { type: 'text/plain', lastModified: 5 }));
const form = new FormData();
form.append('a', '1');
form.append('a', '2');
form.append('b', '3');
console.log(form, new FormData());
(async () => {
  console.log(await new Blob(['a', new Uint8Array([98])]).bytes(), await new File(['c'], 'c').bytes());
  const lines = [];
  const reader = createInterface({ input: process.stdin });
  reader.on('line', (line) => lines.push(line)).on('close', () => console.log('closed', lines));
})();
console.log(typeof Console, log === console.log, Object.keys(everything).includes('Console'));
console.log(new DOMException('m', { name: 'X', cause: 5 }).name, new DOMException('m', { name: 'X', cause: 5 }).cause, 'cause' in new DOMException('m', 'Y'));
console.log(new ReadableStream(), new WritableStream(), new TransformStream());
