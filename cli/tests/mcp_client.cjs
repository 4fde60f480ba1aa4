// Clients of MCP by its TypeScript SDKs, of both eras: `node mcp_client.cjs URL`. Run by `cli/tests/others.rs` where they can be installed.
const assert = require('node:assert');

const second = (() => { try { return require('@modelcontextprotocol/client'); } catch { return undefined; } })();
const { Client, StreamableHTTPClientTransport } =
  second ?? { ...require('@modelcontextprotocol/sdk/client/index.js'), ...require('@modelcontextprotocol/sdk/client/streamableHttp.js') };
const { StdioClientTransport } = require(second ? '@modelcontextprotocol/client/stdio' : '@modelcontextprotocol/sdk/client/stdio.js');
// The first SDK knows requests by their schemas, the second by their methods.
const schemas = second ? undefined : require('@modelcontextprotocol/sdk/types.js');

const base = process.argv[2];
const OWN = '/v1/namespaces/default/sessions/script/mcp';

const over = (path) => new StreamableHTTPClientTransport(new URL(base + path));
/** By a process on this machine, whose command is named in the environment. */
const stdio = () => new StdioClientTransport({ command: process.env.DORMOUSE_COMMAND, args: ['--server', base, 'mcp'] });

/** A connected client that answers what functions of a session ask, and what it was told. */
async function connect(transport, mode) {
  const capabilities = { elicitation: {}, sampling: {} };
  const client = new Client({ name: 'script', version: '1' }, { capabilities, versionNegotiation: { mode } });
  const on = (method, schema, act) => client.setRequestHandler(second ? method : schemas[schema], act);
  on('elicitation/create', 'ElicitRequestSchema', ({ params }) => {
    assert.strictEqual(params.message, 'How many?');
    return { action: 'accept', content: { n: 3 } };
  });
  on('sampling/createMessage', 'CreateMessageRequestSchema', () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'mouse' } }));
  const heard = [];
  client.setNotificationHandler(second ? 'notifications/message' : schemas.LoggingMessageNotificationSchema, (said) => { heard.push(said); });
  await client.connect(transport);
  return { client, heard };
}

const call = (client, name, given = {}) => client.callTool({ name, arguments: given });

/** Sessions, cells, mistakes and files, by the door of all sessions. */
async function everything(transport, mode) {
  const { client } = await connect(transport, mode);
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  assert.ok(tools.includes('eval') && tools.includes('task_resume'), tools.join());
  await call(client, 'session_create', { name: 'script' });
  const cell = (code) => call(client, 'eval', { session: 'script', code });
  assert.strictEqual((await cell('{ let z = 6; z * 7 }')).content[0].text, '42');
  const thrown = await cell('null.x');
  assert.ok(thrown.isError && thrown.content[0].text.includes('TypeError'), JSON.stringify(thrown));
  await call(client, 'file_write', { session: 'script', path: '/a.txt', text: 'from a script' });
  const read = await client.readResource({ uri: 'dormouse://default/script/a.txt' });
  assert.strictEqual(read.contents[0].text, 'from a script');
  assert.strictEqual((await cell(FUNCTIONS)).content[0].text, '1');
  await client.close();
}

const FUNCTIONS = `
mcp.tool('order', {}, async () => {
  console.log('ordering');
  const { action, content } = await mcp.elicit({ message: 'How many?', requestedSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } });
  const rhyme = await mcp.sample({ messages: [{ role: 'user', content: { type: 'text', text: 'A rhyme' } }], maxTokens: 9 });
  return \`\${action} \${content.n} \${rhyme.content.text}\`;
});
mcp.prompt('review', { arguments: { text: { required: true } } }, ({ text }) => \`Review \${text}\`);
mcp.resource('totals://{factor}', { name: 'totals' }, (uri, { factor }) => factor);
1`;

/** What functions of a session do, by the session's own door. */
async function own(mode) {
  const { client, heard } = await connect(over(OWN), mode);
  const modern = second !== undefined && mode !== 'legacy';
  if (!modern) await client.setLoggingLevel('info');
  const told = modern ? { _meta: { 'io.modelcontextprotocol/logLevel': 'info' } } : {};
  const answer = await client.callTool({ name: 'order', arguments: {}, ...told });
  assert.strictEqual(answer.content[0].text, 'accept 3 mouse', JSON.stringify(answer));
  assert.deepStrictEqual(heard.map((said) => said.params.data), ['ordering']);
  const prompt = await client.getPrompt({ name: 'review', arguments: { text: 'x' } });
  assert.strictEqual(prompt.messages[0].content.text, 'Review x');
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.ok(resourceTemplates.some((template) => template.name === 'totals'), JSON.stringify(resourceTemplates));
  assert.strictEqual((await client.readResource({ uri: 'totals://7' })).contents[0].text, '7');
  await client.close();
}

async function main() {
  // Of the second, both ways to begin.
  for (const mode of second ? ['legacy', { pin: '2026-07-28' }] : [undefined]) {
    await everything(over('/mcp'), mode);
    await everything(stdio(), mode);
    await own(mode);
  }
  console.log('ok');
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
