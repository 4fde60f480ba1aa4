console.log(/a+/gi, [/x/], new RegExp('/'), new RegExp(''), /[/]\/\n/);
const r = /x/; r.note = 1; console.log(r);
class R extends RegExp {} console.log(new R('a', 'g'));
