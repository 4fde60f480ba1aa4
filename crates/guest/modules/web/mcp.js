// Functions that cells register as MCP tools of their session. The functions are in the heap; the host is told their names and schemas, so that they
// are listed while the session sleeps.
const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const TOOLS_MAX = 64;
// All of them ride in every head.
const DESCRIBED_BYTES_MAX = 65536;

const registered = new Map();
const refusal = (message) => Object.assign(new RangeError(message), { code: 'QuotaExceeded' });
const failed = (name, message) => {
  const error = new Error(message);
  Object.defineProperty(error, 'name', { value: name, writable: true, configurable: true });
  error.code = name;
  return error;
};
// A schema of zod checks what it describes.
const isZod = (input) => typeof input === 'object' && input !== null && '_zod' in input;
const schemaOf = (input) => {
  const schema = isZod(input) ? natives.loadModule('npm/zod').toJSONSchema(input, { io: 'input' }) : input ?? { type: 'object' };
  if (typeof schema !== 'object' || schema === null || schema.type !== 'object') throw new TypeError('input: write a JSON Schema of type "object", or one of zod');
  return schema;
};

const mcp = {
  tool(name, schema, fn) {
    if (typeof name !== 'string' || !NAME.test(name)) throw new TypeError('the name of a tool has 1 to 64 letters, digits, "_" and "-"');
    if (typeof fn !== 'function') throw new TypeError('mcp.tool(name, {description, input}, fn) needs a function');
    const { description = '', input } = schema ?? {};
    const text = JSON.stringify({ description: `${description}`, input: schemaOf(input) });
    const bytes = new TextEncoder().encode(name + text).byteLength;
    let all = bytes;
    for (const [other, it] of registered) if (other !== name) all += it.bytes;
    if (all > DESCRIBED_BYTES_MAX) throw refusal(`the tools of a session may have ${DESCRIBED_BYTES_MAX} bytes of descriptions and schemas together; with this one they have ${all}`);
    if (!registered.has(name) && registered.size >= TOOLS_MAX) throw refusal(`a session may have ${TOOLS_MAX} tools; take some away with mcp.remove(name)`);
    natives.tell({ __proto__: null, type: 'mcpTool', name, tool: JSON.parse(text) });
    registered.set(name, { fn, bytes, check: isZod(input) ? (args) => input.parse(args) : (args) => args });
  },
  remove(name) {
    if (!registered.delete(name)) return false;
    natives.tell({ __proto__: null, type: 'mcpTool', name });
    return true;
  },
  list: () => [...registered.keys()],
  // What a client of the session's MCP server calls.
  async call(name, args = {}) {
    const it = registered.get(name);
    if (it === undefined) throw failed('ToolNotFound', `this session has no tool ${name}: it was taken away`);
    return it.fn(it.check(args));
  },
};

module.exports = { mcp };
