console.log(new WeakMap(), new WeakSet(), new WeakMap([[{}, 1]]), { w: new WeakSet([{}]) });
