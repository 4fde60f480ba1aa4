// Timers as objects: what they are, and what can be done with them.
const timer = setTimeout(function (a, b) { console.log('fired', this === timer, a, b); }, 5, 1, 2);
console.log(typeof timer, timer.constructor.name, typeof setImmediate(() => {}));
console.log(timer.hasRef(), timer.unref() === timer, timer.hasRef(), timer.ref().hasRef());
console.log(typeof timer[Symbol.toPrimitive](), Number.isInteger(+timer), +timer === +timer);

// By its number, by a text of it, and by itself.
const never = () => console.log('never');
clearTimeout(+setTimeout(never, 1));
clearTimeout(`${+setTimeout(never, 1)}`);
clearTimeout(setTimeout(never, 1));
clearInterval(setTimeout(never, 1));
setTimeout(never, 1).close();
for (const strange of [undefined, null, 0, -1, 'x', {}, never, Symbol.iterator]) {
  try { clearTimeout(strange); } catch (error) { console.log(error.name); }
}

// Begun again, a timer counts from now; one that has fired fires once more, one that was stopped does not.
let fired = 0;
const again = setTimeout(() => {
  fired += 1;
  console.log('again', fired);
  if (fired === 1) again.refresh();
}, 10);
const stopped = setTimeout(never, 1);
clearTimeout(stopped);
stopped.refresh();

let rounds = 0;
const interval = setInterval(function () {
  rounds += 1;
  console.log('round', rounds, this === interval);
  if (rounds === 3) this.close();
}, 20);

// Fractions keep their order.
for (const [delay, name] of [[30.9, 'one'], [30.1, 'two'], [30, 'three'], ['30.5', 'four']]) setTimeout(() => console.log(name), delay);

for (const wrong of [undefined, null, 'code', {}, 5]) {
  try { setTimeout(wrong, 1); } catch (error) { console.log(error.name, error.code, error.message); }
}
