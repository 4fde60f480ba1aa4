console.group('G'); console.table([{ a: 1 }]); console.count(); console.dir({ a: 1 }); console.groupEnd();
