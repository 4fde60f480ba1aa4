// Node's own inspect with all of its options.
module.exports = require('lib/internal/util/inspect');
