import { Marked, lexer, marked } from 'marked';
console.log(marked.parse('# Größe\n\n- [x] done\n- [ ] *open* `code`\n\n1. a\n   > quote\n\n[l](http://x "t") ~~gone~~ <b>html</b>'));
console.log(lexer('a\n\n---\n| x |\n|---|\n| 1 |').map((token) => token.type));
const own = new Marked({ gfm: true, breaks: true }, { renderer: { heading: ({ tokens, depth }) => `<h${depth + 1}>${tokens[0].raw}</h${depth + 1}>\n` } });
console.log(await own.parse('# t\nline\nbreak', { async: true }));
