// The body of a network answer: what came with the head, and the rest of it part by part, as it is read.
//
// The broker holds the open response. Each part is a host operation of its own, asked for when a reader waits for it.
const { ReadableStream } = require('web/streams');

const INTERRUPTED = 'StreamInterrupted';

const interrupted = (message) => {
  const error = new Error(message);
  Object.defineProperty(error, 'name', { value: INTERRUPTED, writable: true, configurable: true });
  error.code = INTERRUPTED;
  return error;
};
const terminated = (cause) => new TypeError('terminated', { cause });

// The bytes of the next part, and whether it is the last one.
const bytesOf = (answer) => {
  if (answer.part !== undefined) return { bytes: Uint8Array.fromBase64(answer.part.bytes), last: answer.part.last };
  if (answer.failed !== undefined) throw terminated(Object.assign(new Error(answer.failed.message), { code: answer.failed.code }));
  throw interrupted('the rest of the response is lost: nothing was read for too long, the session was moved back, or its broker restarted; fetch it again');
};

const streamed = (first, stream, signal) => {
  let part = 0;
  let reading;
  let over = false;
  const close = () => {
    over = true;
    natives.giveUp(reading, { __proto__: null, type: 'closeBody', stream });
  };
  return new ReadableStream({
    type: 'bytes',
    start(controller) {
      if (first.byteLength > 0) controller.enqueue(first);
      signal.addEventListener('abort', () => {
        if (over) return;
        close();
        controller.error(signal.reason);
      });
    },
    async pull(controller) {
      const operation = natives.operate({ __proto__: null, type: 'body', stream, part });
      reading = operation.id;
      try {
        const { bytes, last } = bytesOf(await operation.promise);
        reading = undefined;
        if (over) return;
        part += 1;
        over = last;
        if (bytes.byteLength > 0) controller.enqueue(bytes);
        if (!last) return;
        controller.close();
        controller.byobRequest?.respond(0);
      } catch (error) {
        over = true;
        throw error.name === INTERRUPTED || error.message === 'terminated' ? error : terminated(error);
      }
    },
    cancel() { if (!over) close(); },
  }, { highWaterMark: 0 });
};

const received = ({ body, stream }, signal) => {
  const first = Uint8Array.fromBase64(body);
  return stream === undefined || stream === null ? { bytes: first } : { stream: streamed(first, stream, signal) };
};

module.exports = { received };
