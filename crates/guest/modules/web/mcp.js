// Functions that cells register as tools, prompts and resources of their session's MCP server. The functions are in the heap; the host is told their
// names and what is said of them, so that they are listed while the session sleeps.
const { serve, elicit, sample, roots, failed, refusal } = require('web/mcp-calls');
const { matcher } = require('web/mcp-templates');

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
// Of each kind.
const REGISTERED_MAX = 64;
// All of them ride in every head.
const DESCRIBED_BYTES_MAX = 65536;
const COMPLETIONS_MAX = 100;
const URI_BYTES_MAX = 1024;
// Addresses whose changes are remembered, for who listens.
const UPDATED_MAX = 64;
const CLIENTS_MAX = 32;
const SUBSCRIPTIONS_MAX = 32;
// Whether a tool's calls are tasks of clients that know them.
const TASKS = ['forbidden', 'optional', 'required'];

const tools = new Map();
const prompts = new Map();
const resources = new Map();
const updated = new Map();
const clients = new Map();
let updates = 0;

const bytesOf = (text) => new TextEncoder().encode(text).byteLength;
const tell = (of, name, entry) => natives.tell({ __proto__: null, type: 'mcp', of, name, entry });
const textOf = (value) => (value === undefined || value === null ? undefined : `${value}`);

// A schema of zod checks what it describes.
const isZod = (input) => typeof input === 'object' && input !== null && '_zod' in input;
const schemaOf = (input) => {
  const schema = isZod(input) ? natives.loadModule('npm/zod').toJSONSchema(input, { io: 'input' }) : input ?? { type: 'object' };
  if (typeof schema !== 'object' || schema === null || schema.type !== 'object') throw new TypeError('input: write a JSON Schema of type "object", or one of zod');
  return schema;
};

// Takes in what is registered under a name, if there is room for what is said of it.
const register = (map, of, name, entry, it) => {
  const text = JSON.stringify(entry);
  it.bytes = bytesOf(name + text);
  let all = it.bytes;
  for (const kind of [tools, prompts, resources]) for (const [other, { bytes }] of kind) if (kind !== map || other !== name) all += bytes;
  if (all > DESCRIBED_BYTES_MAX) throw refusal(`what a session says of its ${of}s and the like may have ${DESCRIBED_BYTES_MAX} bytes together; with this one it has ${all}`);
  if (!map.has(name) && map.size >= REGISTERED_MAX) throw refusal(`a session may have ${REGISTERED_MAX} ${of}s; take some away with mcp.remove`);
  tell(of, name, JSON.parse(text));
  map.set(name, it);
};
const taken = (map, of, name) => {
  if (!map.delete(name)) return false;
  tell(of, name);
  return true;
};
const needsName = (name, of) => {
  if (typeof name !== 'string' || !NAME.test(name)) throw new TypeError(`the name of a ${of} has 1 to 64 letters, digits, "_" and "-"`);
};
const needsFunction = (fn, how) => {
  if (typeof fn !== 'function') throw new TypeError(`${how} needs a function`);
};

// Arguments of a prompt: a list as the protocol has it, or an object by name.
const argumentsOf = (given) => {
  const listed = Array.isArray(given) ? given : Object.entries(given ?? {}).map(([name, it]) => ({ name, ...(typeof it === 'string' ? { description: it } : it) }));
  const completions = new Map();
  const shown = listed.map((argument) => {
    if (typeof argument?.name !== 'string') throw new TypeError('arguments: each has a name');
    if (argument.complete !== undefined) completions.set(argument.name, completion(argument.complete));
    return { name: argument.name, title: textOf(argument.title), description: textOf(argument.description), required: !!argument.required };
  });
  return { shown, completions };
};
const completion = (values) => {
  if (typeof values !== 'function' && !Array.isArray(values)) throw new TypeError('complete: write a list, or a function of what is typed so far');
  return values;
};

const isBlock = (value) => typeof value === 'object' && value !== null && typeof value.type === 'string';
const messagesOf = (value) => {
  if (typeof value === 'object' && value !== null && Array.isArray(value.messages)) return { ...value, messages: value.messages.map(messageOf) };
  return { messages: (Array.isArray(value) ? value : [value]).map(messageOf) };
};
const messageOf = (value) => {
  if (typeof value === 'object' && value !== null && 'content' in value) {
    return { role: value.role ?? 'user', content: isBlock(value.content) ? value.content : { type: 'text', text: `${value.content}` } };
  }
  return { role: 'user', content: isBlock(value) ? value : { type: 'text', text: `${value}` } };
};

const contentsOf = (uri, mimeType, value) => {
  if (typeof value === 'object' && value !== null && Array.isArray(value.contents)) return { contents: value.contents };
  const content = { uri, mimeType };
  if (typeof value === 'string') Object.assign(content, { mimeType: mimeType ?? 'text/plain', text: value });
  else if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    const bytes = ArrayBuffer.isView(value) ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : Buffer.from(value);
    Object.assign(content, { mimeType: mimeType ?? 'application/octet-stream', blob: bytes.toString('base64') });
  } else if (typeof value?.text === 'string' || typeof value?.blob === 'string') Object.assign(content, value);
  else Object.assign(content, { mimeType: mimeType ?? 'application/json', text: JSON.stringify(value) ?? 'null' });
  return { contents: [content] };
};
const resourceAt = (uri) => {
  const exact = resources.get(uri);
  if (exact?.matches === undefined && exact !== undefined) return { it: exact, variables: {} };
  for (const it of resources.values()) {
    const variables = it.matches?.(uri);
    if (variables !== undefined) return { it, variables };
  }
  return undefined;
};

// Calls a tool. `begins` is where a call that is to be a task becomes one: behind what is asked before.
const callTool = async (name, args, begins) => {
  const it = tools.get(name);
  if (it === undefined) throw failed('ToolNotFound', `this session has no tool ${name}: it was taken away`);
  const checked = it.check(args);
  if (it.before === undefined) return it.fn(checked);
  const said = await it.before(checked);
  await begins?.();
  return it.fn(checked, said);
};

const begin = {
  async tool({ name, args }, call) {
    return callTool(name, args, () => call.begins());
  },
  async prompt({ name, args }) {
    const it = prompts.get(name);
    if (it === undefined) throw failed('ToolNotFound', `this session has no prompt ${name}: it was taken away`);
    return { description: it.description, ...messagesOf(await it.fn(args)) };
  },
  async resource({ name }) {
    const found = resourceAt(name);
    if (found === undefined) throw failed('FileNotFound', `this session has no resource ${name}`);
    return contentsOf(name, found.it.mimeType, await found.it.fn(name, found.variables));
  },
};

const complete = async ({ ref, argument, context }) => {
  const it = ref.type === 'ref/prompt' ? prompts.get(ref.name) : resources.get(ref.uri);
  if (it === undefined) throw failed('ToolNotFound', 'this session has registered nothing of this name');
  const given = it.completions.get(argument.name);
  const typed = `${argument.value ?? ''}`;
  const found = typeof given === 'function' ? await given(typed, context?.arguments ?? {}) : (given ?? []).filter((value) => `${value}`.startsWith(typed));
  const values = Array.from(found ?? [], (value) => `${value}`);
  return { values: values.slice(0, COMPLETIONS_MAX), total: values.length, hasMore: values.length > COMPLETIONS_MAX };
};

// What a client of an earlier revision has said once, for all its requests.
const client = ({ id, level, subscribe, unsubscribe }) => {
  const it = clients.get(id) ?? { uris: [] };
  const uris = it.uris.filter((uri) => uri !== subscribe && uri !== unsubscribe);
  if (subscribe !== undefined) uris.push(subscribe);
  if (uris.length > SUBSCRIPTIONS_MAX) throw refusal(`a client may have ${SUBSCRIPTIONS_MAX} subscriptions`);
  const entry = { level: level ?? it.level, uris };
  clients.delete(id);
  clients.set(id, entry);
  tell('client', id, entry);
  for (const other of clients.keys()) {
    if (clients.size <= CLIENTS_MAX) break;
    taken(clients, 'client', other);
  }
};

const mcp = {
  tool(name, schema, fn) {
    needsName(name, 'tool');
    needsFunction(fn, 'mcp.tool(name, {description, input}, fn)');
    const { description = '', input, task = 'forbidden', before } = schema ?? {};
    if (!TASKS.includes(task)) throw new TypeError(`task: write one of ${TASKS.join(', ')}`);
    if (before !== undefined) needsFunction(before, 'before');
    const entry = { description: `${description}`, input: schemaOf(input) };
    if (task !== 'forbidden') Object.assign(entry, { task, before: before !== undefined });
    register(tools, 'tool', name, entry, { fn, before, check: isZod(input) ? (args) => input.parse(args) : (args) => args });
  },
  prompt(name, about, fn) {
    needsName(name, 'prompt');
    needsFunction(fn, 'mcp.prompt(name, {description, arguments}, fn)');
    const { title, description = '', arguments: given } = about ?? {};
    const { shown, completions } = argumentsOf(given);
    register(prompts, 'prompt', name, { title: textOf(title), description: `${description}`, arguments: shown }, { fn, completions, description: `${description}` });
  },
  resource(uri, about, fn) {
    if (typeof uri !== 'string' || !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(uri) || bytesOf(uri) > URI_BYTES_MAX || uri.startsWith('dormouse:')) {
      throw new TypeError(`a resource has a URI or a URI template of at most ${URI_BYTES_MAX} bytes, whose scheme is not dormouse: of files`);
    }
    needsFunction(fn, 'mcp.resource(uri, {name, mimeType}, fn)');
    const { name = uri, title, description, mimeType, complete: given } = about ?? {};
    const matches = uri.includes('{') ? matcher(uri) : undefined;
    const completions = new Map(Object.entries(given ?? {}).map(([variable, values]) => [variable, completion(values)]));
    const entry = { name: `${name}`, title: textOf(title), description: textOf(description), mimeType: textOf(mimeType), template: matches !== undefined };
    register(resources, 'resource', uri, entry, { fn, matches, completions, mimeType: entry.mimeType });
  },
  // Who has subscribed to the resource is told that it is another now.
  updated(uri) {
    if (typeof uri !== 'string' || bytesOf(uri) > URI_BYTES_MAX) throw new TypeError('mcp.updated(uri) needs the URI of a resource');
    updates += 1;
    updated.delete(uri);
    updated.set(uri, updates);
    tell('updated', uri, updates);
    for (const other of updated.keys()) {
      if (updated.size <= UPDATED_MAX) break;
      taken(updated, 'updated', other);
    }
  },
  remove: (name) => taken(tools, 'tool', name),
  removePrompt: (name) => taken(prompts, 'prompt', name),
  removeResource: (uri) => taken(resources, 'resource', uri),
  list: () => [...tools.keys()],
  listPrompts: () => [...prompts.keys()],
  listResources: () => [...resources.keys()],
  elicit,
  sample,
  roots,
  call: async (name, args = {}) => callTool(name, args),
  // What the session's MCP server runs for its clients.
  async serve(request) {
    if (request.complete !== undefined) return complete(request.complete);
    if (request.client !== undefined) return client(request.client);
    return serve(request, (it, call) => begin[it.of](it, call));
  },
};

module.exports = { mcp };
