console.log(new Date(0), [new Date(1e12)], new Date(NaN), { d: new Date(8.64e15) });
const d = new Date(0); d.note = 'x'; console.log(d);
class Day extends Date {} console.log(new Day(0));
