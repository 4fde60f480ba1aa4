// Node's http and https clients over fetch and its rules: a request leaves when it ends, redirects are not followed, and there are no sockets.
const { EventEmitter } = require('node/events');
const { Readable, Writable } = require('node/stream');
const { Buffer } = require('node/buffer');
const { absent } = require('web/absent');
const { codes } = require('web/errors');
const { validateFunction, validateString } = require('web/validators');

const METHODS = 'ACL BIND CHECKOUT CONNECT COPY DELETE GET HEAD LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MOVE NOTIFY OPTIONS PATCH POST PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE'.split(' ');
const STATUS_CODES = {};
// Runs of codes that follow each other.
for (const [first, texts] of [
  [100, 'Continue|Switching Protocols|Processing|Early Hints'],
  [200, 'OK|Created|Accepted|Non-Authoritative Information|No Content|Reset Content|Partial Content|Multi-Status|Already Reported'],
  [226, 'IM Used'],
  [300, 'Multiple Choices|Moved Permanently|Found|See Other|Not Modified|Use Proxy'],
  [307, 'Temporary Redirect|Permanent Redirect'],
  [400, "Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not Allowed|Not Acceptable|Proxy Authentication Required|Request Timeout|Conflict|Gone|Length Required|Precondition Failed|Payload Too Large|URI Too Long|Unsupported Media Type|Range Not Satisfiable|Expectation Failed|I'm a Teapot"],
  [421, 'Misdirected Request|Unprocessable Entity|Locked|Failed Dependency|Too Early|Upgrade Required'],
  [428, 'Precondition Required|Too Many Requests'],
  [431, 'Request Header Fields Too Large'],
  [451, 'Unavailable For Legal Reasons'],
  [500, 'Internal Server Error|Not Implemented|Bad Gateway|Service Unavailable|Gateway Timeout|HTTP Version Not Supported|Variant Also Negotiates|Insufficient Storage|Loop Detected|Bandwidth Limit Exceeded|Not Extended|Network Authentication Required'],
]) texts.split('|').forEach((text, at) => { STATUS_CODES[first + at] = text; });
const NO_BODY = ['GET', 'HEAD'];

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const validateHeaderName = (name, label) => {
  if (typeof name !== 'string' || !TOKEN.test(name)) throw new codes.ERR_INVALID_HTTP_TOKEN(label || 'Header name', name);
};
const validateHeaderValue = (name, value) => {
  if (value === undefined) throw new codes.ERR_HTTP_INVALID_HEADER_VALUE(value, name);
  if (/[^\t\x20-\x7e\x80-\xff]/.test(`${value}`)) throw new codes.ERR_INVALID_CHAR('header content', name);
};

class IncomingMessage extends Readable {
  constructor(response) {
    super();
    this.statusCode = response.status;
    this.statusMessage = response.statusText || STATUS_CODES[response.status] || '';
    this.httpVersion = '1.1';
    this.headers = Object.fromEntries(response.headers);
    const cookies = response.headers.getSetCookie?.() ?? [];
    if (cookies.length > 0) this.headers['set-cookie'] = cookies;
    this.rawHeaders = [...response.headers].flat();
    this.complete = false;
    this.reader = response.body?.getReader();
  }
  async _read() {
    try {
      const { done, value } = this.reader === undefined ? { done: true } : await this.reader.read();
      this.complete ||= done;
      this.push(done ? null : Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    } catch (error) {
      this.destroy(error);
    }
  }
  setTimeout() { return this; }
}
Object.defineProperty(IncomingMessage.prototype, 'reader', { value: undefined, writable: true });

class ClientRequest extends Writable {
  #url; #headers = new Map(); #parts = []; #control = new AbortController(); #timer;
  constructor(url, options, callback) {
    // It is over when its answer is, and not when all of it has left.
    super({ autoDestroy: false });
    this.#url = url;
    if (options.method !== undefined && options.method !== null) validateString(options.method, 'options.method');
    this.method = (options.method || 'GET').toUpperCase();
    if (!TOKEN.test(this.method)) throw new codes.ERR_INVALID_HTTP_TOKEN('Method', options.method);
    this.path = `${url.pathname}${url.search}`;
    this.host = url.hostname;
    this.protocol = url.protocol;
    this.aborted = false;
    for (const [name, value] of Object.entries(options.headers ?? {})) this.setHeader(name, value);
    const auth = options.auth ?? (url.username === '' ? undefined : `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`);
    if (auth !== undefined && !this.hasHeader('authorization')) this.setHeader('Authorization', `Basic ${Buffer.from(auth).toString('base64')}`);
    if (callback !== undefined) {
      validateFunction(callback, 'callback');
      this.once('response', callback);
    }
    if (options.timeout !== undefined) this.setTimeout(options.timeout);
    if (options.signal !== undefined) {
      if (options.signal.aborted) queueMicrotask(() => this.destroy(options.signal.reason));
      else options.signal.addEventListener('abort', () => this.destroy(options.signal.reason), { once: true });
    }
  }
  setHeader(name, value) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    this.#headers.set(name.toLowerCase(), [name, value]);
    return this;
  }
  getHeader(name) { return this.#headers.get(name.toLowerCase())?.[1]; }
  hasHeader(name) { return this.#headers.has(name.toLowerCase()); }
  removeHeader(name) { this.#headers.delete(name.toLowerCase()); }
  getHeaders() { return Object.fromEntries([...this.#headers].map(([name, [, value]]) => [name, value])); }
  getHeaderNames() { return [...this.#headers.keys()]; }
  flushHeaders() {}
  setNoDelay() {}
  setSocketKeepAlive() {}
  setTimeout(delay, callback) {
    if (callback !== undefined) this.once('timeout', callback);
    clearTimeout(this.#timer);
    if (delay > 0) this.#timer = setTimeout(() => this.emit('timeout'), delay);
    return this;
  }
  abort() {
    this.aborted = true;
    this.destroy();
  }
  _write(chunk, encoding, done) {
    this.#parts.push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    done();
  }
  _final(done) {
    done();
    this.#send();
  }
  async #send() {
    try {
      const body = NO_BODY.includes(this.method) ? undefined : Buffer.concat(this.#parts);
      const headers = [...this.#headers.values()].filter(([name]) => !/^(?:host|connection|content-length|transfer-encoding)$/i.test(name)).flatMap(([name, value]) => [value].flat().map((one) => [name, `${one}`]));
      const url = new URL(this.#url);
      url.username = '';
      url.password = '';
      const response = await fetch(url, { method: this.method, headers, body: body?.length ? body : undefined, redirect: 'manual', signal: this.#control.signal });
      clearTimeout(this.#timer);
      if (this.destroyed) return;
      const message = new IncomingMessage(response);
      message.req = this;
      this.res = message;
      if (!this.emit('response', message)) message.resume();
      message.once('close', () => { this.destroyed = true; this.emit('close'); });
    } catch (error) {
      clearTimeout(this.#timer);
      if (!this.destroyed) this.destroy(error.cause instanceof Error ? error.cause : error);
    }
  }
  _destroy(error, done) {
    clearTimeout(this.#timer);
    this.#control.abort(error ?? undefined);
    done(error ?? (this.res === undefined ? Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }) : null));
  }
}
class Agent extends EventEmitter {
  constructor(options = {}) {
    super();
    this.options = { ...options };
    this.maxSockets = Infinity;
  }
  destroy() {}
}
const urlOf = (options, protocol) => {
  const given = options.protocol ?? protocol;
  if (given !== protocol) throw new codes.ERR_INVALID_ARG_VALUE('options.protocol', given, `must be "${protocol}"`);
  const host = options.hostname ?? options.host ?? 'localhost';
  const url = new URL(`${given}//${host.includes(':') && !host.startsWith('[') && host.split(':').length > 2 ? `[${host}]` : host}`);
  if (options.port) url.port = `${options.port}`;
  const path = options.path ?? '/';
  if (/[^\u0021-\u00ff]/.test(path)) throw new codes.ERR_UNESCAPED_CHARACTERS('Request path');
  return new URL(path, url);
};
const refused = (name) => absent(`http.${name}`, 'it takes no connections; what is outside calls its cells');
const clientOf = (protocol) => {
  const request = (input, options, callback) => {
    if (typeof input === 'string' || input instanceof URL) {
      const url = new URL(input);
      if (typeof options === 'function') [options, callback] = [{}, options];
      if (url.protocol !== protocol) throw Object.assign(new TypeError(`Protocol "${url.protocol}" not supported. Expected "${protocol}"`), { code: 'ERR_INVALID_PROTOCOL' });
      return new ClientRequest(options?.path === undefined && options?.host === undefined && options?.hostname === undefined ? url : urlOf({ hostname: url.hostname, port: url.port, path: `${url.pathname}${url.search}`, ...options }, protocol), options ?? {}, callback);
    }
    if (typeof options === 'function') callback = options;
    return new ClientRequest(urlOf(input ?? {}, protocol), input ?? {}, callback);
  };
  const get = (...args) => {
    const made = request(...args);
    made.end();
    return made;
  };
  return { request, get, Agent, globalAgent: new Agent(), ClientRequest, IncomingMessage, METHODS, STATUS_CODES, createServer: refused('createServer'), Server: refused('Server'), ServerResponse: refused('ServerResponse'), maxHeaderSize: 16384, validateHeaderName, validateHeaderValue };
};
module.exports = { clientOf };
