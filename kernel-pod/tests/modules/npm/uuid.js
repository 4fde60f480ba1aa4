import { NIL, parse, stringify, v3, v4, v5, v7, validate, version } from 'uuid';
console.log(v5('https://example.com/', v5.URL), v3('größe', v3.DNS), NIL, version(v4()), validate(v7()), validate('x'));
console.log(stringify(parse('6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b')), v7({ msecs: 1e12, random: new Uint8Array(16).fill(7), seq: 9 }), v4({ random: new Uint8Array(16).fill(255) }));
