console.log(new DataView(new ArrayBuffer(4)), new DataView(new ArrayBuffer(8), 2, 3), [new DataView(new ArrayBuffer(1))]);
