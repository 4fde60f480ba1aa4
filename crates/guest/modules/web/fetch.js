// Request, Response and fetch of the Fetch standard. The request is a host operation; what comes back is made into a Response here.
import { AbortController, AbortSignal } from 'web/abort';
import { Body, extract, refill, split } from 'web/body';
import { Headers, freeze } from 'web/headers';
import { received } from 'web/received';
import { shows } from 'web/shown';
import { URL } from 'web/url';

const NULL_BODY_STATUS = new Set([101, 103, 204, 205, 304]);
const REDIRECT_STATUS = new Set([301, 302, 303, 307, 308]);
const FORBIDDEN_METHODS = new Set(['CONNECT', 'TRACE', 'TRACK']);
const UPPER_METHODS = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

// Headers of a body's type, unless the caller has named one.
const headersOf = (init, type) => {
  const headers = new Headers(init ?? undefined);
  if (type !== undefined && type !== '' && !headers.has('content-type')) headers.set('content-type', type);
  return headers;
};
const methodOf = (value) => {
  const method = `${value}`;
  const upper = method.toUpperCase();
  if (!TOKEN.test(method) || FORBIDDEN_METHODS.has(upper)) throw new TypeError(`'${method}' is not a valid HTTP method.`);
  return UPPER_METHODS.has(upper) ? upper : method;
};
const urlOf = (input) => {
  const text = `${input}`;
  if (!URL.canParse(text)) throw new TypeError(`Failed to parse URL from ${text}`);
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${text}`);
  return url.href;
};

const ENUMS = {
  mode: ['cors', ['cors', 'no-cors', 'same-origin', 'navigate']],
  credentials: ['same-origin', ['omit', 'same-origin', 'include']],
  cache: ['default', ['default', 'no-store', 'reload', 'no-cache', 'force-cache', 'only-if-cached']],
  redirect: ['follow', ['follow', 'error', 'manual']],
};
class Request extends Body {
  #fields;
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined;
    const method = init.method === undefined ? from?.method ?? 'GET' : methodOf(init.method);
    const given = init.body ?? undefined;
    if ((given !== undefined || (from !== undefined && from.body !== null)) && (method === 'GET' || method === 'HEAD')) throw new TypeError('Request with GET/HEAD method cannot have body.');
    const body = given !== undefined ? extract(given) : from !== undefined ? split(from) : {};
    if (body.stream !== undefined && given !== undefined && body.type === undefined && init.duplex !== 'half') throw new TypeError('RequestInit: duplex option is required when sending a body.');
    super(body);
    const fields = { method, url: from?.url ?? urlOf(input), headers: headersOf(init.headers ?? from?.headers, body.type) };
    for (const [key, [otherwise, allowed]] of Object.entries(ENUMS)) {
      const value = init[key] === undefined ? from?.[key] ?? otherwise : `${init[key]}`;
      if (!allowed.includes(value)) throw new TypeError(`Request constructor: ${value} is not an accepted type. Expected one of ${allowed.join(', ')}.`);
      fields[key] = value;
    }
    fields.referrer = init.referrer ?? from?.referrer ?? 'about:client';
    fields.referrerPolicy = init.referrerPolicy ?? from?.referrerPolicy ?? '';
    fields.integrity = init.integrity ?? from?.integrity ?? '';
    fields.keepalive = init.keepalive ?? from?.keepalive ?? false;
    fields.destination = '';
    fields.duplex = 'half';
    const signal = init.signal === undefined ? from?.signal : init.signal;
    if (signal !== undefined && signal !== null && !(signal instanceof AbortSignal)) throw new TypeError("Failed to construct 'Request': member signal is not of type AbortSignal.");
    fields.signal = signal === undefined || signal === null ? new AbortController().signal : AbortSignal.any([signal]);
    this.#fields = fields;
  }
  clone() { return new Request(this); }
  get [Symbol.toStringTag]() { return 'Request'; }
  static {
    for (const key of ['method', 'url', 'headers', 'destination', 'referrer', 'referrerPolicy', 'mode', 'credentials', 'cache', 'redirect', 'integrity', 'keepalive', 'signal', 'duplex']) {
      Object.defineProperty(Request.prototype, key, { get() { return this.#fields[key]; }, enumerable: true, configurable: true });
    }
    Object.defineProperty(Request.prototype, 'clone', { enumerable: true });
  }
}

class Response extends Body {
  #fields;
  constructor(body = null, init = {}) {
    const { status = 200, statusText = '', headers } = init ?? {};
    const code = Math.trunc(Number(status));
    if (!(code >= 200 && code <= 599)) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(`${statusText}`)) throw new TypeError('Invalid statusText');
    if (body !== null && body !== undefined && NULL_BODY_STATUS.has(code)) throw new TypeError(`Response constructor: Invalid response status code ${code}`);
    const made = extract(body);
    super(made);
    this.#fields = { status: code, statusText: `${statusText}`, headers: headersOf(headers, made.type), type: 'default', url: '', redirected: false };
  }
  get ok() { return this.status >= 200 && this.status <= 299; }
  clone() {
    const { stream, bytes } = split(this);
    const copy = new Response(stream ?? bytes ?? null);
    copy.#fields = { ...this.#fields, headers: new Headers(this.headers) };
    return copy;
  }
  static arrived(body, { status, statusText, headers, url, redirected }) {
    const made = new Response();
    const copy = new Headers();
    for (const [name, value] of headers) copy.append(name, value);
    refill(made, body);
    made.#fields = { status, statusText, headers: freeze(copy), type: 'basic', url, redirected };
    return made;
  }
  static error() {
    const made = new Response();
    made.#fields = { ...made.#fields, status: 0, type: 'error' };
    return made;
  }
  static json(data, init = {}) {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError('The data is not of type JSON.');
    const made = new Response(text, init);
    if (!new Headers(init.headers).has('content-type')) made.headers.set('content-type', 'application/json');
    return made;
  }
  static redirect(url, status = 302) {
    if (!URL.canParse(`${url}`)) throw new TypeError(`Failed to parse URL from ${url}`);
    if (!REDIRECT_STATUS.has(status)) throw new RangeError(`Invalid status code ${status}`);
    const made = new Response();
    made.#fields = { ...made.#fields, status };
    made.headers.set('location', new URL(`${url}`).href);
    return made;
  }
  get [Symbol.toStringTag]() { return 'Response'; }
  static {
    for (const key of ['type', 'url', 'redirected', 'status', 'statusText', 'headers']) {
      Object.defineProperty(Response.prototype, key, { get() { return this.#fields[key]; }, enumerable: true, configurable: true });
    }
    for (const key of ['ok', 'clone']) Object.defineProperty(Response.prototype, key, { enumerable: true });
  }
}

shows(Request, 'Request', ['method', 'url', 'headers', 'destination', 'referrer', 'referrerPolicy', 'mode', 'credentials', 'cache', 'redirect', 'integrity', 'keepalive', 'signal']);
shows(Response, 'Response', ['status', 'statusText', 'headers', 'body', 'bodyUsed', 'ok', 'redirected', 'type', 'url']);

// A network answer as a Response: its status may be any, and its headers stay as they are.
const arrived = Response.arrived;
delete Response.arrived;

// Failures that are the network's, and not a rule's, a limit's or a decision of somebody.
const NETWORK = new Set(['ToolResultInvalid', 'ToolNotFound', 'TimeoutError', 'Internal', 'ShuttingDown']);

// Of the standard: what no fetch connects to, whatever the rules say.
const BAD_PORTS = new Set([0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080]);

async function fetch(input, init) {
  // The call's own stack: by the time of the answer there is none.
  const failure = new TypeError('fetch failed');
  const request = new Request(input, init);
  const { signal } = request;
  if (signal.aborted) throw signal.reason;
  if (request.integrity !== '') throw new DOMException('the option integrity is not supported; compare a digest of the body', 'NotSupportedError');
  if (/^(blob|data):/.test(request.url)) {
    const found = require('web/local-fetch').local(request);
    if (found === undefined) throw failure;
    return arrived(request.method === 'HEAD' ? {} : found.body, found);
  }
  const because = (cause) => {
    Object.defineProperty(failure, 'cause', { value: cause, writable: true, configurable: true });
    return failure;
  };
  const { port } = new URL(request.url);
  if (port !== '' && BAD_PORTS.has(Number(port))) throw because(new Error('bad port'));
  const bytes = await request.bytes();
  if (signal.aborted) throw signal.reason;
  const { method, url, redirect } = request;
  // Without prototypes: a cell's own `toJSON` has no say in what leaves.
  const sent = { __proto__: null, method, url, headers: [...request.headers], redirect };
  if (bytes.byteLength > 0) sent.body = bytes.toBase64();
  const operation = natives.operate({ __proto__: null, type: 'fetch', request: sent });
  return new Promise((resolve, reject) => {
    const abort = () => {
      // One that was over a limit was never an operation.
      if (operation.id !== undefined) natives.giveUp(operation.id);
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort);
    const answered = (answer) => {
      signal.removeEventListener('abort', abort);
      if (answer.response === undefined) throw because(Object.assign(new Error(answer.failed.message), { code: answer.failed.code }));
      const body = NULL_BODY_STATUS.has(answer.response.status) || method === 'HEAD' ? {} : received(answer.response, signal);
      return arrived(body, answer.response);
    };
    const refused = (error) => {
      signal.removeEventListener('abort', abort);
      if (NETWORK.has(error.name)) throw because(error);
      // As the error of a tool: its name is also its code. It stays a TypeError, as whoever fetches expects.
      because(Object.assign(new Error(error.message), { code: error.name }));
      for (const [key, value] of [['name', error.name], ['message', error.message], ['code', error.name]]) {
        Object.defineProperty(failure, key, { value, writable: true, configurable: true, enumerable: key === 'code' });
      }
      throw failure;
    };
    operation.promise.then(answered, refused).then(resolve, reject);
  });
}

export { Request, Response, fetch };
