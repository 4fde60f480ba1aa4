for (const n of [1e21, 0.1 + 0.2, 1 / 3, 4.35, 1e100]) console.log(n.toString(36), n.toString(3).length > 10);
