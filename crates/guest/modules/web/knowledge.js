// Documents of the session's ToolBroker. They are its tools of the same names, which say what fits.
const { callTool } = natives;

module.exports = {
  knowledge: {
    search: (query, { bases, limit } = {}) => callTool('knowledge.search', { query, bases, limit }),
    read: async (ref) => (await callTool('knowledge.read', { ref })).text,
    list: ({ base } = {}) => callTool('knowledge.list', { base }),
  },
};
