// Errors as text: whose head and frames, without frames of ours.
const isErrorObject = (value) => typeof value === 'object' && value !== null && kindOf(value) === 'error';
const isDomException = (value) => typeof value === 'object' && value !== null && kindOf(value) === 'domexception';
const ownFrame = /dormouse:|\(native\)|\(<null>|\(missing\)$/;
const bareFrame = /^ {4}at (?:<eval>|<anonymous>) \((.*)\)$/;
const ownFrames = (stack) => {
  const lines = split(stack, '\n');
  const kept = [];
  for (let i = 0; i < lines.length; i++) {
    if (trim(lines[i]) === '' || regexExec(ownFrame, lines[i]) !== null) continue;
    const bare = regexExec(bareFrame, lines[i]);
    kept[kept.length] = bare === null ? lines[i] : `    at ${bare[1]}`;
  }
  return join(kept, '\n');
};
// The frames that the engine recorded, without the head.
const framesOf = (error) => {
  const stack = isErrorObject(error) ? recordedStack(error) : isDomException(error) ? ownData(error, 'stack') : undefined;
  return typeof stack === 'string' ? ownFrames(stack) : '';
};
const textOf = (value, otherwise) => {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? otherwise : typeof value === 'object' || typeof value === 'function' ? typeName(value) : primitiveText(value);
};
const errorHead = (error) => {
  const name = textOf(dataProperty(error, 'name'), 'Error');
  const message = textOf(dataProperty(error, 'message'), '');
  return name === '' ? message : message === '' ? name : `${name}: ${message}`;
};
// What `error.stack` answers: a script may have set it.
const stackText = (error) => {
  const own = ownData(error, 'stack');
  if (typeof own === 'string') return own;
  const frames = framesOf(error);
  return frames === '' ? errorHead(error) : `${errorHead(error)}\n${frames}`;
};
const stackAccessor = getOwnPropertyDescriptor(ErrorCtor.prototype, 'stack');
const toldStack = {
  get stack() {
    const recorded = apply(stackAccessor.get, this, []);
    if (typeof recorded !== 'string' || !isErrorObject(this)) return recorded;
    const frames = ownFrames(recorded);
    return frames === '' ? errorHead(this) : `${errorHead(this)}\n${frames}`;
  },
};
defineProperty(ErrorCtor.prototype, 'stack', { __proto__: null, get: getOwnPropertyDescriptor(toldStack, 'stack').get });
const recordedCapture = ErrorCtor.captureStackTrace;
if (recordedCapture !== undefined) {
  method(ErrorCtor, 'captureStackTrace', function captureStackTrace(target, until) {
    recordedCapture(target, until);
    const recorded = ownData(target, 'stack');
    if (typeof recorded !== 'string') return;
    const frames = ownFrames(recorded);
    method(target, 'stack', frames === '' ? errorHead(target) : `${errorHead(target)}\n${frames}`);
  });
}

// A subclass that keeps its parent's name shows its own.
const withClassName = (text, object, name, tag) => {
  const given = textOf(dataProperty(object, 'name'), 'Error');
  const ends = given.length >= 5 && slice(given, -5) === 'Error';
  const starts = slice(text, 0, given.length) === given;
  const after = text[given.length];
  if (name !== null && !(ends && starts && (after === undefined || after === ':' || after === '\n'))) return text;
  let label = 'Error';
  let length = given.length;
  if (name === null) {
    const start = regexExec(/^([A-Z][a-z_ A-Z0-9[\]()-]+)(?::|\n {4}at)/, text) ?? regexExec(/^([a-z_A-Z0-9-]*Error)$/, text);
    label = start === null ? '' : start[1];
    length = label.length;
    if (label === '') label = 'Error';
  }
  const prefix = slice(prefixOf(name, tag, label), 0, -1);
  if (given === prefix) return text;
  if (indexOf(prefix, given) >= 0) return length === 0 ? `${prefix}: ${text}` : prefix + slice(text, length);
  return `${prefix} [${given}]${slice(text, length)}`;
};
const removeKey = (keys, key) => {
  let kept = 0;
  for (let i = 0; i < keys.length; i++) if (keys[i] !== key) keys[kept++] = keys[i];
  keys.length = kept;
};
const includesKey = (keys, key) => {
  for (let i = 0; i < keys.length; i++) if (keys[i] === key) return true;
  return false;
};
// Frames that the cause's stack repeats are told once: at least four in a row.
const REPEATED_FRAMES_MIN = 4;
const withoutRepeats = (frames, error) => {
  const cause = dataProperty(error, 'cause');
  if (!isErrorObject(cause)) return frames;
  const stack = stackText(cause);
  const start = indexOf(stack, '\n    at');
  if (start < 0) return frames;
  const others = split(slice(stack, start + 1), '\n');
  for (let i = 0; i + REPEATED_FRAMES_MIN <= frames.length; i++) {
    let at = 0;
    while (at < others.length && others[at] !== frames[i]) at += 1;
    let same = 0;
    while (i + same < frames.length && at + same < others.length && frames[i + same] === others[at + same]) same += 1;
    if (same < REPEATED_FRAMES_MIN) continue;
    const kept = [];
    for (let j = 0; j < frames.length; j++) {
      if (j === i + 1) kept[kept.length] = `    ... ${same - 2} lines matching cause stack trace ...`;
      if (j <= i || j >= i + same - 1) kept[kept.length] = frames[j];
    }
    return kept;
  }
  return frames;
};

const errorShape = (state, error, name, tag, keys) => {
  let text = stackText(error);
  const hides = ['name', 'message'];
  for (let i = 0; i < hides.length && !state.hidden; i++) {
    const value = ownData(error, hides[i]);
    if (typeof value === 'string' && indexOf(text, value) >= 0) removeKey(keys, hides[i]);
  }
  if (getOwnPropertyDescriptor(error, 'cause') !== undefined && !includesKey(keys, 'cause')) keys[keys.length] = 'cause';
  if (isArray(ownData(error, 'errors')) && !includesKey(keys, 'errors')) keys[keys.length] = 'errors';
  text = withClassName(text, error, name, tag);
  const message = dataProperty(error, 'message');
  const past = typeof message === 'string' && message !== '' && indexOf(text, message) > 0 ? indexOf(text, message) + message.length : 0;
  const found = indexOf(slice(text, past), '\n    at');
  if (found < 0) text = `[${text}]`;
  else text = slice(text, 0, past + found + 1) + join(withoutRepeats(split(slice(text, past + found + 1), '\n'), error), '\n');
  if (state.indent > 0) text = replaceAll(text, '\n', `\n${indentation(state)}`);
  return keys.length === 0 ? text : plainShape('{', text);
};
