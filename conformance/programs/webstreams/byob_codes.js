const bytes = () => new ReadableStream({ start(controller) { controller.enqueue(new Uint8Array([1, 2, 3])); }, type: 'bytes' });
for (const view of [new Uint8Array(), new Uint8Array(new ArrayBuffer(10), 0, 0)]) {
  try { await bytes().getReader({ mode: 'byob' }).read(view); } catch (error) { console.log(error.name, error.code); }
}
const stream = new ReadableStream({
  async pull(controller) {
    const view = new Uint8Array(new ArrayBuffer(10), 0, 0);
    controller.close();
    try { controller.byobRequest.respondWithNewView(view); } catch (error) { console.log(error.name, error.code); }
  },
  type: 'bytes',
});
stream.getReader({ mode: 'byob' }).read(new Uint8Array([4, 5, 6])).then(() => {}, () => {});
await new Promise((done) => setTimeout(done, 5));
