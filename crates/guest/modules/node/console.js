// The session's console; another one would have nowhere to write.
class Console {
  constructor() { throw Object.assign(new Error('a session has one console: use console itself'), { code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM' }); }
}
module.exports = Object.assign(Object.create(console), { Console });
