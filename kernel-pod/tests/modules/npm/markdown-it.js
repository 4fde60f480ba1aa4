import MarkdownIt from 'markdown-it';
const md = new MarkdownIt({ html: false, linkify: true, typographer: true });
console.log(md.render('# A *b*\n\n| x | y |\n|---|:-:|\n| 1 | "two" |\n\nsee www.example.com -- ok (c)\n\n```js\nlet a = "<";\n```\n\n<script>'));
console.log(md.parseInline('a ~~b~~ ![c](d.png "e")', {})[0].children.map((token) => token.type).join());
