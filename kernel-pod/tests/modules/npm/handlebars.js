import Handlebars from 'handlebars';
Handlebars.registerHelper('loud', (text, options) => new Handlebars.SafeString(`<b>${text.toUpperCase()}${options.hash.mark ?? ''}</b>`));
Handlebars.registerPartial('row', '{{#each cells as |cell at|}}[{{at}}:{{cell}}]{{else}}-{{/each}}');
const page = Handlebars.compile('{{#with page}}{{title}} {{{title}}}{{/with}}\n{{loud name mark="!"}}\n{{#each rows}}{{> row}}\n{{/each}}{{#unless no}}{{lookup map "k"}}{{/unless}}');
console.log(page({ page: { title: 'a & <b>' }, name: 'größe', rows: [{ cells: [1, 2] }, { cells: [] }], map: { k: 'v' } }));
try { Handlebars.compile('{{#if}}{{/each}}')({}); } catch (error) { console.log(error.message); }
console.log(Handlebars.precompile('{{x}}').length);
