// The session's console, and Node's own class of others, which write to streams.
const { Console, kBindStreamsEager, kBindProperties } = require('lib/internal/console/constructor');
void [kBindStreamsEager, kBindProperties];
module.exports = { __proto__: console, ...console, Console };
