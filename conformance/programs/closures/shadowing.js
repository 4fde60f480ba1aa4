let x = 'outer';
{
  let x = 'block';
  console.log(x);
  {
    const x = 'inner';
    console.log(x);
  }
}
console.log(x);
const fns = [];
for (let i = 0, n = 3; i < n; i++) {
  fns.push(() => i);
  i += 0;
}
console.log(fns.map((g) => g()));
var gs = [];
for (var j = 0; j < 3; j++) gs.push(() => j);
console.log(gs.map((g) => g()));
