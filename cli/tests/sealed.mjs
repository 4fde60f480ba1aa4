// A client whose cryptography is Node's: `sealed.mjs URL CASE`. Prints one JSON object. Run by `cli/tests/sealed.rs`.
const { subtle } = globalThis.crypto;
const [url, what] = process.argv.slice(2);
const text = new TextEncoder();
const to64 = bytes => Buffer.from(bytes).toString("base64");
const from64 = string => Buffer.from(string, "base64");

const pair = await subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"]);
const clientHello = {
  protocolVersion: 1, curve: "P-256", supportedAlgorithms: ["AES-GCM-256"],
  clientEphemeralPubKeyB64: to64(await subtle.exportKey("raw", pair.publicKey)),
};

/** The keys of both directions. */
async function keys(hello, salt) {
  const server = await subtle.importKey("raw", from64(hello.serverEphemeralPubKeyB64), { name: "ECDH", namedCurve: "P-256" }, false, []);
  const secret = await subtle.deriveBits({ name: "ECDH", public: server }, pair.privateKey, 256);
  const base = await subtle.importKey("raw", secret, "HKDF", false, ["deriveKey"]);
  const derive = info => subtle.deriveKey(
    { name: "HKDF", hash: "SHA-256", salt: text.encode(salt), info: text.encode(info) }, base, { name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);
  return { up: await derive("enclavejs-c2s-enc"), down: await derive("enclavejs-s2c-enc"), kid: hello.keyId };
}

function nonce(number) {
  const bytes = Buffer.alloc(12);
  bytes.writeBigUInt64BE(BigInt(number), 4);
  return bytes;
}

async function seal({ up, kid }, number, message) {
  const sealed = await subtle.encrypt({ name: "AES-GCM", iv: nonce(number) }, up, text.encode(JSON.stringify(message)));
  return { kid, nonceB64: to64(nonce(number)), ciphertextB64: to64(sealed) };
}

async function open({ down, kid }, number, payload) {
  if (payload.kid !== kid || payload.nonceB64 !== to64(nonce(number))) throw new Error(`message ${number} is not the next one`);
  const opened = await subtle.decrypt({ name: "AES-GCM", iv: nonce(number) }, down, from64(payload.ciphertextB64));
  return JSON.parse(Buffer.from(opened).toString());
}

/** What goes wrong, by the name of the case: the frames that follow the exchange of keys. */
const faults = {
  replayed: async keys => { const first = await seal(keys, 0, { t: "ping", id: 1 }); return [first, first]; },
  reordered: async keys => [await seal(keys, 1, { t: "ping", id: 2 }), await seal(keys, 0, { t: "ping", id: 1 })],
  altered: async keys => { const it = await seal(keys, 0, { t: "ping" }); const bytes = from64(it.ciphertextB64); bytes[3] ^= 1; return [{ ...it, ciphertextB64: to64(bytes) }]; },
  truncated: async keys => { const it = await seal(keys, 0, { t: "ping" }); return [{ ...it, ciphertextB64: to64(from64(it.ciphertextB64).subarray(0, -1)) }]; },
  "other-direction": async keys => [await seal({ ...keys, up: keys.down }, 0, { t: "ping" })],
  "other-key": async keys => [{ ...(await seal(keys, 0, { t: "ping" })), kid: "another" }],
};

async function socket() {
  const socket = new WebSocket(`${url.replace("http", "ws")}/ws?id=sealed`, ["dormouse.v1.encrypted"]);
  const frames = [], waiting = [];
  const closed = new Promise(done => socket.addEventListener("close", event => done({ closed: event.code, reason: event.reason })));
  socket.addEventListener("message", event => { frames.push(event.data); waiting.shift()?.(); });
  const next = async () => { if (!frames.length) await Promise.race([new Promise(done => waiting.push(done)), closed]); return JSON.parse(frames.shift()); };
  await new Promise((done, failed) => { socket.addEventListener("open", done); socket.addEventListener("error", failed); });
  if (what === "no-hello") { socket.send(JSON.stringify({ t: "ping" })); return closed; }
  if (what === "bad-key") { socket.send(JSON.stringify({ t: "hello", clientHello: { ...clientHello, clientEphemeralPubKeyB64: to64(Buffer.alloc(65, 4)) } })); return closed; }
  socket.send(JSON.stringify({ t: "hello", clientHello }));
  const { serverHello } = await next();
  const both = await keys(serverHello, serverHello.keyId);
  const send = payload => socket.send(JSON.stringify({ t: "encrypted", payload }));
  if (what === "plain") { socket.send(JSON.stringify({ t: "ping" })); return closed; }
  if (faults[what]) { for (const payload of await faults[what](both)) send(payload); return closed; }
  send(await seal(both, 0, { t: "create", id: 1, config: {} }));
  send(await seal(both, 1, { t: "eval", id: 2, code: "console.log('between us'); 6 * 7" }));
  const seen = [];
  for (let number = 0; ; number++) {
    const wire = await next();
    if (JSON.stringify(wire).includes("between us")) throw new Error("in the clear");
    const frame = await open(both, number, wire.payload);
    seen.push(frame.t === "event" ? frame.event.type : frame.t);
    if (frame.t === "eval-result") { socket.close(); return { seen, value: frame.value, console: frame.console?.[0]?.text }; }
  }
}

async function* lines(answer) {
  let rest = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    const found = (rest + chunk).split("\n");
    rest = found.pop();
    yield* found.map(line => JSON.parse(line));
  }
}

/** The events of a stream, opened. */
async function opened(answer) {
  const seen = [];
  let both;
  for await (const line of lines(answer)) {
    if (line.type === "session_init") {
      both = await keys(line.payload.encryption.serverHello, line.sessionId);
      seen.push(line);
      continue;
    }
    if (line.type !== "encrypted") throw new Error(`in the clear: ${JSON.stringify(line)}`);
    const event = await open(both, seen.length - 1, line.payload);
    if (event.seq !== line.seq || event.sessionId !== line.sessionId) throw new Error("another event's envelope");
    seen.push(event);
  }
  return seen;
}

async function stream() {
  const body = JSON.stringify({ code: "console.log('between us'); return [1, 2]", encryption: { mode: "required", clientHello } });
  const first = await opened(await fetch(`${url}/sessions`, { method: "POST", headers: { "content-type": "application/json" }, body }));
  const header = to64(text.encode(JSON.stringify(clientHello)));
  const again = await opened(await fetch(`${url}/sessions/${first[0].sessionId}/stream`, { headers: { "dormouse-client-hello": header } }));
  const refused = await fetch(`${url}/sessions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code: "1", encryption: { mode: "required" } }) });
  const end = first.at(-1);
  return { result: end.payload.result, logs: [first, again].map(events => events.filter(event => event.type === "log").length), same: end.seq === again.find(event => event.type === "final").seq, refused: refused.status };
}

console.log(JSON.stringify(await (what === "stream" ? stream() : socket())));
process.exit(0);
