// What the MCP conformance suite asks of a server, as functions of a session.
const text = (text) => ({ type: 'text', text });
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const embedded = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });
const tool = (name, fn, input) => mcp.tool(name, { description: name, input }, fn);
const strings = (...names) => ({ type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])), required: names });
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

tool('test_simple_text', () => 'This is a simple text response for testing.');
tool('test_image_content', () => ({ content: [image] }));
tool('test_audio_content', () => ({ content: [{ type: 'audio', data: 'UklGRiQAAABXQVZFZm10IBAAAAABAAEA', mimeType: 'audio/wav' }] }));
tool('test_embedded_resource', () => ({ content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] }));
tool('test_multiple_content_types', () => ({
  content: [text('Multiple content types test:'), image, embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}')],
}));
tool('test_error_handling', () => { throw new Error('This tool intentionally returns an error for testing') });
tool('test_tool_with_progress', async () => {
  for (const fraction of [0, 0.5, 1]) {
    host.progress(fraction);
    await pause();
  }
  return 'done';
});
const logs = async () => {
  for (const line of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
    console.info(line);
    await pause();
  }
  return 'logged';
};
tool('test_tool_with_logging', logs);
tool('test_logging_tool', logs);
tool('test_reconnection', async () => { await pause(); return 'Reconnection test completed successfully.' });
mcp.tool('json_schema_2020_12_tool', {
  description: 'Tool with JSON Schema 2020-12 features',
  input: {
    $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', additionalProperties: false,
    $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
    properties: {
      name: { type: 'string' }, address: { $ref: '#/$defs/address' }, contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' }, email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] }, then: { required: ['phone'] }, else: { required: ['email'] },
  },
}, () => 'fits');

// Questions to the client.
const form = (properties, required) => ({ type: 'object', properties, required });
const answered = ({ action, content }) => `Elicitation completed: action=${action}, content=${JSON.stringify(content)}`;
tool('test_sampling', async ({ prompt }) => {
  const { content } = await mcp.sample({ messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 });
  return `LLM response: ${content.text}`;
}, strings('prompt'));
tool('test_elicitation', async ({ message }) => {
  const said = { type: 'string', description: "User's response" };
  return answered(await mcp.elicit({ message, requestedSchema: form({ username: said, email: said }, ['username', 'email']) }));
}, strings('message'));
tool('test_elicitation_sep1034_defaults', async () => answered(await mcp.elicit({
  message: 'Please review and update the form fields with defaults',
  requestedSchema: form({
    name: { type: 'string', description: 'User name', default: 'John Doe' },
    age: { type: 'integer', description: 'User age', default: 30 },
    score: { type: 'number', description: 'User score', default: 95.5 },
    status: { type: 'string', description: 'User status', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', description: 'Verification status', default: true },
  }),
})));
tool('test_elicitation_sep1330_enums', async () => {
  const titled = (...titles) => titles.map((title, at) => ({ const: `value${at + 1}`, title }));
  return answered(await mcp.elicit({
    message: 'Please select options from the enum fields',
    requestedSchema: form({
      untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
      titledSingle: { type: 'string', oneOf: titled('First Option', 'Second Option', 'Third Option') },
      legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
      untitledMulti: { type: 'array', minItems: 1, maxItems: 3, items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
      titledMulti: { type: 'array', minItems: 1, maxItems: 3, items: { anyOf: titled('First Choice', 'Second Choice', 'Third Choice') } },
    }),
  }));
});
const name = (key) => mcp.elicit({ key, message: 'What is your name?', requestedSchema: form({ name: { type: 'string' } }, ['name']) });
const confirm = () => mcp.elicit({ key: 'confirm', message: 'Please confirm', requestedSchema: form({ ok: { type: 'boolean' } }, ['ok']) });
const question = (key, ask) => mcp.sample({ key, messages: [{ role: 'user', content: text(ask) }], maxTokens: 100 });
tool('test_input_required_result_elicitation', async () => `Hello, ${(await name('user_name')).content?.name}!`);
tool('test_streaming_elicitation', async () => `Hello, ${(await name('user_name')).content?.name}!`);
tool('test_input_required_result_sampling', async () => (await question('capital_question', 'What is the capital of France?')).content.text);
tool('test_missing_capability', async () => (await question('capital_question', 'What is the capital of France?')).content.text);
tool('test_input_required_result_list_roots', async () => JSON.stringify(await mcp.roots({ key: 'client_roots' })));
tool('test_input_required_result_request_state', async () => { await confirm(); return 'state-ok' });
tool('test_input_required_result_tampered_state', async () => { await confirm(); return 'state-ok' });
tool('test_input_required_result_multiple_inputs', async () => {
  const all = await Promise.all([name('user_name'), question('greeting', 'Generate a greeting'), mcp.roots({ key: 'client_roots' })]);
  return JSON.stringify(all);
});
tool('test_input_required_result_multi_round', async () => {
  const first = await name('step1');
  const second = await mcp.elicit({ key: 'step2', message: 'Step 2: What is your favorite color?', requestedSchema: form({ color: { type: 'string' } }, ['color']) });
  return `${first.content?.name} likes ${second.content?.color}`;
});
tool('test_input_required_result_capabilities', async () => {
  const [said, written] = await Promise.allSettled([name('user_name'), question('greeting', 'Generate a greeting')]);
  return `${said.status}, ${written.status}`;
});

// Tasks.
const task = (name, task, fn, about) => mcp.tool(name, { description: name, task, ...about }, fn);
const confirmed = (key, message) => mcp.elicit({ key, message, requestedSchema: form({ confirm: { type: 'boolean' } }, ['confirm']) });
tool('greet', ({ name }) => `Hello, ${name}!`, strings('name'));
task('slow_compute', 'optional', async ({ seconds, label }) => {
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  return `${label} is computed`;
}, { input: { type: 'object', properties: { seconds: { type: 'number' }, label: { type: 'string' } }, required: ['seconds'] } });
task('failing_job', 'required', async () => { await pause(); throw new Error('This job fails') });
// The suite's clients show no folders, and the function does not catch it: the request itself fails.
task('protocol_error_job', 'optional', () => mcp.roots());
task('confirm_delete', 'optional', async ({ filename }) => ((await confirmed('delete', `Delete ${filename}?`)).content?.confirm ? 'deleted' : 'kept'), { input: strings('filename') });
task('multi_input', 'optional', async () => JSON.stringify(await Promise.all([name('first'), name('second')])));
task('test_tool_with_task', 'required', (args, { content }) => `Hello, ${content?.name}!`, { before: () => name('user_name') });

// Prompts.
const message = (content) => ({ role: 'user', content });
mcp.prompt('test_simple_prompt', { description: 'A simple prompt' }, () => 'This is a simple prompt for testing.');
mcp.prompt('test_prompt_with_arguments', {
  description: 'A prompt with arguments',
  arguments: { arg1: { description: 'First', required: true, complete: ['test1', 'test2', 'paris'] }, arg2: { description: 'Second', required: true } },
}, ({ arg1, arg2 }) => `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`);
mcp.prompt('test_prompt_with_embedded_resource', { description: 'A prompt with a resource', arguments: { resourceUri: { description: 'Its URI', required: true } } },
  ({ resourceUri }) => [message(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.')), message(text('Please process the embedded resource above.'))]);
mcp.prompt('test_prompt_with_image', { description: 'A prompt with an image' }, () => [message(image), message(text('Please analyze the image above.'))]);
mcp.prompt('test_input_required_result_prompt', { description: 'A prompt that asks' }, async () => {
  const context = { type: 'string' };
  const said = await mcp.elicit({ key: 'user_context', message: 'What context should the prompt use?', requestedSchema: form({ context }, ['context']) });
  return `Context: ${said.content?.context}`;
});

// Resources.
mcp.resource('test://static-text', { name: 'Static text', mimeType: 'text/plain' }, () => 'This is the content of the static text resource.');
mcp.resource('test://static-binary', { name: 'Static binary', mimeType: 'image/png' }, () => Buffer.from(PNG, 'base64'));
mcp.resource('test://watched-resource', { name: 'Watched', mimeType: 'text/plain' }, () => 'watched');
mcp.resource('test://template/{id}/data', { name: 'Template', mimeType: 'application/json' },
  (uri, { id }) => JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }));

// Changes of the lists.
let toolChanges = 0, promptChanges = 0;
tool('test_trigger_tool_change', () => { mcp.remove(`changing_${toolChanges % 2}`); tool(`changing_${(toolChanges += 1) % 2}`, () => 'x'); return 'changed' });
tool('test_trigger_prompt_change', () => {
  mcp.removePrompt(`changing_${promptChanges % 2}`);
  mcp.prompt(`changing_${(promptChanges += 1) % 2}`, { description: 'Changes' }, () => 'x');
  return 'changed';
});
tool('test_header', ({ region }) => region, { type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } }, required: ['region'] });
mcp.list().length
