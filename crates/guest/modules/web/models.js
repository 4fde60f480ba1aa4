// Models of the session's ToolBroker. Which service one is at, and its key, only the broker knows.
const { callTool } = natives;

const asked = async (request) => (await callTool('host.subLM', request)).output;

const failed = ({ code, message }) => {
  const error = new Error(message);
  error.name = code;
  error.code = code;
  return error;
};
// The answer as it comes, a piece of text at a time. To a broker it is a fetch, of which each line is a piece.
async function* streamed({ stream: _, model = '', ...question }) {
  const { fetch } = natives.loadModule('web/fetch');
  const { TextDecoderStream } = natives.loadModule('web/streams');
  let response;
  try {
    response = await fetch(`model:${model}`, { method: 'POST', body: JSON.stringify(question) });
  } catch (error) {
    // Of fetch's failures the cause is the broker's.
    throw error instanceof TypeError && error.cause !== undefined ? error.cause : error;
  }
  let rest = '';
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    for (let i = 0; i < lines.length; i++) {
      const said = JSON.parse(lines[i]);
      if (said.error !== undefined) throw failed(said.error);
      if (said.text !== undefined) yield said.text;
    }
  }
}

module.exports = {
  subLM(request) {
    if (typeof request !== 'object' || request === null) return Promise.reject(new TypeError('host.subLM needs {model, messages}'));
    return request.stream === true ? streamed(request) : asked(request);
  },
};
