// Models of the session's ToolBroker. Which service one is at, and its key, only the broker knows.
const { callTool } = natives;

module.exports = {
  async subLM(request) {
    if (typeof request !== 'object' || request === null) throw new TypeError('host.subLM needs {model, messages}');
    const { output } = await callTool('host.subLM', request);
    return output;
  },
};
