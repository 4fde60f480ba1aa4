console.table(5); console.table('text'); console.table(null); console.table(undefined); console.table([undefined, null, NaN, -0, 1n, Symbol('s')]);
