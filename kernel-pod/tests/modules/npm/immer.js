import { applyPatches, current, enableMapSet, enablePatches, isDraft, produce, produceWithPatches } from 'immer';
enablePatches(); enableMapSet();
const base = { list: [{ done: false }, { done: true }], map: new Map([['a', { n: 1 }]]), set: new Set([1]) };
const [next, patches, inverse] = produceWithPatches(base, (draft) => {
  draft.list[0].done = true; draft.list.push({ done: false }); draft.map.get('a').n += 1; draft.set.add(2);
  console.log(isDraft(draft.list), JSON.stringify(current(draft.list)));
});
console.log(next, next.list[1] === base.list[1], Object.isFrozen(next.list));
console.log(JSON.stringify(patches), JSON.stringify(inverse));
console.log(applyPatches(next, inverse));
try { produce(base, (draft) => { draft.list = 1; return {}; }); } catch (error) { console.log(error.message); }
