// A stream that is made when something asks for it: hashes and ciphers are used without one, mostly.
module.exports = { LazyTransform: require('lib/internal/streams/lazy_transform') };
