console.log(Array.from({ length: 27 }, (_, i) => i));
console.log(Array.from({ length: 100 }, (_, i) => i));
console.log(Array.from({ length: 101 }, (_, i) => i));
console.log(Array.from({ length: 250 }, (_, i) => i * i * i));
console.log(Array.from({ length: 30 }, (_, i) => (i * 37) % 101 / 4));
