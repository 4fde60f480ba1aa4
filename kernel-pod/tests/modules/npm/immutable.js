import { fromJS, is, List, Map, OrderedSet, Range, Record, Seq } from 'immutable';
const state = fromJS({ a: { b: [1, 2, { c: 3 }] } });
console.log(state.updateIn(['a', 'b', 2, 'c'], (n) => n + 1).toString(), String(state));
console.log(is(Map({ x: List([1]) }), Map({ x: List([1]) })), OrderedSet([3, 1, 3]).toArray(), Range(0, Infinity, 7).filter((n) => n % 2).take(4).toJS());
const Point = Record({ x: 0, y: 0 }, 'Point');
console.log(new Point({ x: 5 }).set('y', 2).toString(), Seq({ b: 1, a: 2 }).flip().toObject(), Map({ a: 1 }).hashCode(), List('größe').groupBy((c) => c < 'n').toJS());
const large = List(Range(0, 5000)).withMutations((list) => { for (let at = 0; at < 5000; at += 1) list.set(at, at * 2); });
console.log(large.reduce((sum, n) => sum + n, 0), large.slice(4990).toArray());
