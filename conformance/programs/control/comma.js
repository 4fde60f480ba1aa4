let a = 0; const r = (a++, a++, a); console.log(r, void a, typeof void 0, (1, eval) === eval); for (var i = 0, j = 5; i < j; i++, j--); console.log(i, j); if ((a = 0)) console.log('no'); else console.log('assigned'); console.log(a ? 1 : a === 0 ? 'zero' : 2, !!a || !a, -(-a), - -5, typeof typeof 1, !!!''); { ; ; } ;;; var b = [1, 2, 3][(1, 2)]; console.log(b); debugger; label: { break label; }
const o = { a: 1, b: 2, a: 3 }; console.log(o.a, Object.keys(o).join()); console.log([, 1, , 2, ,].length, [1, 2, 3,].length, ((a, b,) => a + b)(1, 2,)); console.log(0.1.toFixed(1), 1..toString(), 1.0.toFixed(), (1).constructor.name, 1e3.toString(), 0x10.toString(8)); var \u0061bc = 'escaped name'; console.log(abc, { if: 1, class: 2, new: 3 }.class, 'a'.\u006cength); // comment
/* multi
line */ console.log(1) /* inline */, console.log(2); console.log(a
  + 1); const asi = () => { return
  5; }; console.log(asi()); let q = 1
;[1].forEach((x) => console.log(x + q)); console.log(`${q}` + q++ + ++q)
