for (const n of [0, -0, 1e21, 123456789012345680000, 1e-7, 0.000001, 123e-20, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, 100, 1e100, 4.35, 0.5, -1.5, 1 / 3, 2 ** 53, 2 ** 53 + 2, 123.456e5]) console.log(String(n), n.toString(2).slice(0, 40));
console.log((255).toString(16), (0.5).toString(2), (-255).toString(36), (1e21).toString(7).length > 5, (2 ** 40).toString(32));
