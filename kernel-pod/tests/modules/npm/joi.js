import Joi from 'joi';
const schema = Joi.object({
  name: Joi.string().min(3).required(), age: Joi.number().integer().max(120), mail: Joi.string().email({ tlds: false }),
  born: Joi.date().iso(), tags: Joi.array().items(Joi.string().valid('a', 'b')).unique(), either: Joi.any(), or: Joi.any(),
}).xor('either', 'or');
console.log(schema.validate({ name: 'Ada', age: '36', mail: 'ada@example.com', born: '1815-12-10', tags: ['a', 'b'], or: 1 }));
const { error } = schema.validate({ name: 'A', age: 1.5, mail: 'x', tags: ['a', 'a', 'c'], either: 1, or: 2, more: 1 }, { abortEarly: false });
for (const detail of error.details) console.log(detail.type, detail.message);
console.log(Joi.attempt('7', Joi.number()), JSON.stringify(schema.describe().keys.age));
