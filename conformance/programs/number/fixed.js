for (const n of [0, 1.005, 1.45, 10.235, -1.5, 123.456, 0.000001234, 1e20, 999.995, 5e-324]) console.log([0, 1, 2, 5, 10].map((d) => n.toFixed(d)).join(' '));
for (const n of [0, 1.005, 123456, 0.00001234, -1e21, 99.99]) console.log([1, 2, 5, 10].map((d) => n.toPrecision(d)).join(' '), [0, 2, 6].map((d) => n.toExponential(d)).join(' '), n.toExponential());
console.log((1e21).toFixed(2), (NaN).toFixed(2), Infinity.toPrecision(3), (25).toString(36), (-0).toFixed(2), (0).toFixed(20), 1.25.toFixed(1), 1.35.toFixed(1), (1.0000000000000002).toFixed(20), 0.1.toFixed(25));
for (const f of [() => (1).toFixed(101), () => (1).toPrecision(0), () => (1).toString(1), () => (1).toExponential(-1), () => Number.prototype.toFixed.call('1')]) try { f(); } catch (e) { console.log(e.name); }
