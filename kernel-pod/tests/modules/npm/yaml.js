import YAML, { isMap, parseAllDocuments, parseDocument, stringify } from 'yaml';
const text = '# head\nbase: &b {x: 1, y: [a, b]}\nchild:\n  <<: *b\n  x: 2 # two\ntext: |\n  line\n   more\ndate: 2001-12-14\nhex: 0x1F\n"q": ~\n';
console.log(JSON.stringify(YAML.parse(text, { merge: true })));
const doc = parseDocument(text);
doc.setIn(['child', 'z'], new Map([['größe', true]]));
console.log(String(doc), isMap(doc.contents), doc.errors.length);
console.log(parseAllDocuments('a: 1\n---\n- b\n...\n').map((one) => one.toJS()), stringify({ long: 'x '.repeat(60), multi: 'a\nb', n: null, list: [[1], {}] }));
try { YAML.parse('a: [1'); } catch (error) { console.log(error.name, error.code, error.message); }
