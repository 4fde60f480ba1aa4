import { z } from 'zod';
const Row = z.object({ id: z.coerce.number().int().positive(), kind: z.enum(['a', 'b']).default('a'), at: z.string().datetime().optional() }).strict();
console.log(Row.parse({ id: '7' }), Row.safeParse({ id: -1, kind: 'c', at: 'x', more: 1 }).error.issues);
const Tree = z.lazy(() => z.object({ v: z.number(), next: Tree.nullable() }));
console.log(Tree.parse({ v: 1, next: { v: 2, next: null } }), z.union([z.string(), z.number()]).safeParse(true).success);
console.log(await z.string().transform(async (text) => text.length).parseAsync('größe'), z.discriminatedUnion('t', [z.object({ t: z.literal('x') })]).safeParse({ t: 'y' }).error.format());
