export { parse, stringify, escape, unescape, decode, encode, unescapeBuffer, default } from 'unenv/node/querystring';
