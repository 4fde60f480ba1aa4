// Node's http and https clients over fetch and its rules: a request leaves when it ends, redirects are not followed, and there are no sockets.
const { EventEmitter } = require('node/events');
const { Readable, Writable } = require('node/stream');
const { Buffer } = require('node/buffer');
const { codes } = require('web/errors');
const { validateFunction, validateString } = require('web/validators');

const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'];
const STATUS_CODES = {
  200: 'OK', 201: 'Created', 202: 'Accepted', 204: 'No Content', 206: 'Partial Content', 301: 'Moved Permanently', 302: 'Found', 303: 'See Other', 304: 'Not Modified', 307: 'Temporary Redirect', 308: 'Permanent Redirect',
  400: 'Bad Request', 401: 'Unauthorized', 403: 'Forbidden', 404: 'Not Found', 405: 'Method Not Allowed', 408: 'Request Timeout', 409: 'Conflict', 410: 'Gone', 413: 'Payload Too Large', 415: 'Unsupported Media Type', 422: 'Unprocessable Entity', 429: 'Too Many Requests',
  500: 'Internal Server Error', 501: 'Not Implemented', 502: 'Bad Gateway', 503: 'Service Unavailable', 504: 'Gateway Timeout',
};
const NO_BODY = ['GET', 'HEAD'];

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
    super();
    this.#url = url;
    this.method = options.method === undefined ? 'GET' : `${options.method}`.toUpperCase();
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
    validateString(name, 'name');
    if (value === undefined) throw new codes.ERR_HTTP_INVALID_HEADER_VALUE(value, name);
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
      if (this.destroyed && this.aborted) return;
      const message = new IncomingMessage(response);
      message.req = this;
      this.res = message;
      if (!this.emit('response', message)) message.resume();
      message.once('end', () => this.emit('close'));
    } catch (error) {
      clearTimeout(this.#timer);
      if (!this.destroyed) this.destroy(error.cause instanceof Error ? error.cause : error);
    }
  }
  _destroy(error, done) {
    clearTimeout(this.#timer);
    this.#control.abort(error ?? undefined);
    done(error ?? (this.res === undefined && !this.writableFinished ? Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' }) : null));
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
const refused = (name) => () => { throw Object.assign(new Error(`${name} is not there: a session takes no connections; what is outside calls its cells`), { code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM' }); };
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
  return { request, get, Agent, globalAgent: new Agent(), ClientRequest, IncomingMessage, METHODS, STATUS_CODES, createServer: refused('createServer'), Server: refused('Server'), maxHeaderSize: 16384 };
};
module.exports = { clientOf };
