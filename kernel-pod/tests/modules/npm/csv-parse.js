import { parse } from 'csv-parse/sync';
import { parse as stream } from 'csv-parse';
console.log(parse('id,name\n1,"Ada, ""the"" first"\n2,Größe\n', { columns: true, cast: true }));
try { parse('a,b\n1\n'); } catch (error) { console.log(error.code, error.message); }
const rows = [];
const parser = stream({ delimiter: ';', trim: true });
parser.on('readable', () => { for (let row; (row = parser.read()) !== null;) rows.push(row); });
const ended = new Promise((resolve, reject) => parser.on('end', resolve).on('error', reject));
parser.write('1; 2');
parser.end('; 3\n4;5;6\n');
await ended;
console.log(rows);
