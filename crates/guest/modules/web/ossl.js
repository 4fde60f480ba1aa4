// An error as OpenSSL tells it; codes of some libraries name the library, too.
const osslError = (number, library, reason, area = '') => Object.assign(new Error(`error:${number}:${library}::${reason}`), { library, reason, code: `ERR_OSSL_${area}${reason.toUpperCase().replaceAll(' ', '_')}` });
const providerError = (number, reason) => osslError(number, 'Provider routines', reason);
module.exports = { osslError, providerError };
