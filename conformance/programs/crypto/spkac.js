const crypto = require('crypto');
const spkac = 'MIIBPzCBqTCBnzANBgkqhkiG9w0BAQEFAAOBjQAwgYkCgYEA1CfFzVeUy6aE6rZw4p9N5T8AJT6ZWXoWK+2Fm1PwEFOE9J1pCYaKFtuv8SxJR383O0A3Tg2Bbq8eJdzfqgZBEeR7UaDqi5PEicdlsSBrOXG8eDvEUIcy/dq7EYoBksbitwl553dfl4RkEfxI1+Qm0EKXMGmWJYW2DBc3CUxssfcCAwEAARYFaGVsbG8wDQYJKoZIhvcNAQEEBQADgYEAdJkZokZHS0cAqzMEhoLKc4gmvIWoFx45//mVbPeO4U2Q+RbRytzTdqZN4nK2f3P6vqPtDWb+MoxbjNVI3yrMg71XUG32y/nzFAolWA4ng+0t0/l+OnitrQ/cu3W0EWk9AUG8XIk4x9EA9jQX0eyBJ/uYzjqXV6HX3hN2tKe5czA=';
const { Certificate } = crypto;
for (const certificate of [Certificate, new Certificate(), Certificate()]) {
  console.log(certificate.verifySpkac(Buffer.from(spkac)), certificate.exportChallenge(spkac).toString(), certificate.exportPublicKey(spkac).toString().split('\n')[1]);
}
console.log(Certificate.verifySpkac(spkac.replace(/.{8}$/, 'AAAAAAAA')), [Certificate.exportChallenge('no'), Certificate.exportPublicKey('no')]);
for (const value of [1, null, undefined, {}]) {
  try { Certificate.verifySpkac(value); } catch (error) { console.log(error.code); }
}
