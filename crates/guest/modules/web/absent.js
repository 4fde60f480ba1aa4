// What Node has and a session has not, and what to use instead: a function of that name that says so when it is called.
const CODE = 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM';
const notThere = (what, instead) => Object.assign(new Error(`${what} is not there in a session: ${instead}`), { code: CODE });
const absent = (what, instead) => {
  const name = what.slice(what.lastIndexOf('.') + 1);
  return { [name]: function () { throw notThere(what, instead); } }[name];
};
module.exports = { absent, notThere };
