// The client `ws` of npm over the socket door: `node ws_client.cjs URL`. Run by `cli/tests/others.rs` where it can be installed.
const assert = require('node:assert');
const WebSocket = require('ws');

const base = process.argv[2].replace('http://', 'ws://');

/** A connection, and a function that sends a frame and answers with all that comes up to its answer. */
async function connect(path, protocols) {
  const socket = new WebSocket(base + path, protocols);
  await new Promise((done, failed) => socket.once('open', done).once('error', failed));
  const ask = (frame) => new Promise((done) => {
    const heard = [];
    socket.on('message', function listen(data, isBinary) {
      assert.strictEqual(isBinary, false);
      heard.push(JSON.parse(data));
      if (heard.at(-1).t === 'event') return;
      socket.off('message', listen);
      done(heard);
    });
    socket.send(JSON.stringify(frame));
  });
  return { socket, ask };
}

async function main() {
  const plain = await connect('/ws?id=node');
  assert.strictEqual((await plain.ask({ t: 'create', id: 1 }))[0].name, 'node');
  const [cell] = await plain.ask({ t: 'eval', id: 'a', src: "let n = 41; console.log('hi'); n + 1" });
  assert.deepStrictEqual([cell.id, cell.value, cell.console[0].text], ['a', 42, 'hi']);
  assert.strictEqual((await plain.ask({ t: 'evict', id: 2 }))[0].state, 'Hibernated');
  const pong = new Promise((done) => plain.socket.once('pong', done));
  plain.socket.ping();
  await pong;
  // Fragments make one frame, as the protocol has it.
  const whole = new Promise((done) => plain.socket.once('message', (data) => done(JSON.parse(data))));
  plain.socket.send('{"t":"pi', { fin: false });
  plain.socket.send('ng","id":3}', { fin: true });
  assert.deepStrictEqual(await whole, { t: 'ping-result', id: 3, ok: true });
  plain.socket.close(1000);
  await new Promise((done) => plain.socket.once('close', done));

  const streaming = await connect('/v1/namespaces/default/sessions/node/ws', ['dormouse.v1']);
  assert.strictEqual(streaming.socket.protocol, 'dormouse.v1');
  const heard = await streaming.ask({ t: 'eval', id: 4, code: "console.log('again'); n" });
  assert.ok(heard.some((it) => it.event?.type === 'log' && it.event.payload.text === 'again'), JSON.stringify(heard));
  assert.strictEqual(heard.at(-1).value, 41);
  // What is no text closes.
  const closed = new Promise((done) => streaming.socket.once('close', done));
  streaming.socket.send(Buffer.from([1]));
  assert.strictEqual(await closed, 1003);
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
