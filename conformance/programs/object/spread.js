const a = { x: 1, y: { z: 2 } }, b = { ...a, x: 3, ...null, ...undefined, ...5, ...'hi', ...[7, 8], ...{ get g() { return 'got'; } } };
console.log(JSON.stringify(b), b.y === a.y, { ...a, ...{ x: undefined } }.x, Object.keys({ b: 1, ...{ a: 2 }, c: 3 }).join(), { ...(false && { no: 1 }), ...(true && { yes: 1 }) });
class C { own = 1; get proto() { return 2; } } console.log({ ...new C() }, Object.getPrototypeOf({ ...new C() }) === Object.prototype, { __proto__: null, ...a }.toString);
const order = []; const note = (k) => ({ get [k]() { order.push(k); return k; } }); ({ ...note('1st'), mid: order.push('mid'), ...note('last') }); console.log(order.join());
console.log([...[1, , 3]].map(String).join(), [...'é😀'].length, Math.max(...new Set([1, 5, 3])), [...new Map([[1, 2]])].flat().join(), [...[], ...[[]]].length); try { [...undefined]; } catch (e) { console.log(e.name); } try { Math.max(...5); } catch (e) { console.log(e.name); }
const { x, ...others } = b; console.log(x, 'x' in others, Object.keys(others).length); let n = 0; const obj = { [`k${++n}`]: n, [`k${++n}`]: n, [{ toString: () => 'obj' }]: 1, [1 + 1]: 'two', [null]: 0 }; console.log(JSON.stringify(obj));
