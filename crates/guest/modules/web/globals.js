// Globals that are a whole module.
module.exports = { process: require('web/process') };
