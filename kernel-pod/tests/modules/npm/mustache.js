import Mustache from 'mustache';
const view = { name: '<Größe>', list: [{ n: 1 }, { n: 2 }], none: [], wrap: () => (text, render) => `[${render(text)}]` };
console.log(Mustache.render('{{name}} {{{name}}} {{#list}}{{n}},{{/list}}{{^none}}empty{{/none}} {{#wrap}}{{name}}{{/wrap}} {{> part}}', view, { part: '{{=<% %>=}}<% name %>' }));
console.log(JSON.stringify(Mustache.parse('a{{#b}}c{{/b}}')));
try { Mustache.render('{{#open}}', {}); } catch (error) { console.log(error.message); }
