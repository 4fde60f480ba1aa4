import Ajv from 'ajv';
import Ajv2020 from 'ajv/dist/2020.js';
const ajv = new Ajv({ allErrors: true });
ajv.addFormat('even-length', (text) => text.length % 2 === 0);
const schema = {
  type: 'object', required: ['id', 'tags'], additionalProperties: false,
  properties: { id: { type: 'integer', minimum: 1 }, tags: { type: 'array', items: { type: 'string', format: 'even-length' }, uniqueItems: true } },
};
const check = ajv.compile(schema);
for (const value of [{ id: 1, tags: ['ab', 'cd'] }, { id: 0, tags: ['abc', 'abc'], more: 1 }, { tags: 1 }]) {
  console.log(check(value), ajv.errorsText(check.errors, { separator: '\n' }));
}
const newer = new Ajv2020().compile({ prefixItems: [{ type: 'string' }, { $ref: '#/$defs/n' }], items: false, $defs: { n: { type: 'number' } } });
console.log(newer(['a', 1]), newer(['a', 'b']), newer(['a', 1, 2]), JSON.stringify(newer.errors));
