function named() {}
const arrow = () => {};
console.log(named, arrow, () => {}, function () {}, async () => {}, async function af() {}, function* gf() {}, async function* agf() {});
console.log([named, arrow], { named, method() {}, get getter() { return 1; } });
named.prop = 1; console.log(named, [named]);
console.log(Math.max, [].map, parseInt, named.bind(null));
const nameless = () => {}; Object.defineProperty(nameless, 'name', { value: '' }); console.log(nameless);
const proto = () => {}; Object.setPrototypeOf(proto, null); console.log(proto);
