const list = ['a', 'b'];
console.log(`<${list.map((x) => `[${x}${`(${x.length})`}]`).join(`|`)}>`);
console.log(`line one
line two\
 joined \` \${not} $ {x} $$ ${'$'}{`);
console.log(`${{}} ${[]} ${[1, [2, 3]]} ${null} ${undefined} ${true} ${-0} ${1e21} ${() => 1} ${/re/g} ${new Error('e')} ${10n}`);
console.log(`${{ toString: () => 's', valueOf: () => 'v' }}` + { toString: () => 's', valueOf: () => 'v' });
console.log(`\x41\u0042\u{1F600}\0\t|`.length, `a\
b`, '\
c', `
`.length);
console.log(`${`${`${1}`}`}`, `${(() => { return `x${'}'}`; })()}`);
