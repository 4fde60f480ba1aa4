// URI templates of resources, as RFC 6570 has them in its simple form: `{name}` stands for a part without `/`, `{+name}` for any text.
const PART = /\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}/g;
const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

// A function that says which variables a URI has, or that it does not fit.
const matcher = (template) => {
  const names = [];
  let pattern = '';
  let from = 0;
  for (const { index, 0: whole, 1: plus, 2: name } of template.matchAll(PART)) {
    // Two that touch could be taken apart in many ways, and a long URI in very many.
    if (names.length > 0 && index === from) throw new TypeError(`${template}: write something between two variables`);
    pattern += literal(template.slice(from, index)) + (plus === '' ? '([^/]+)' : '(.+)');
    names.push(name);
    from = index + whole.length;
  }
  const rest = template.slice(from);
  if (names.length === 0 || /[{}]/.test(template.replace(PART, ''))) throw new TypeError(`${template}: a variable of a template is {name} or {+name}`);
  const whole = new RegExp(`^${pattern}${literal(rest)}$`);
  return (uri) => {
    const found = whole.exec(uri);
    return found === null ? undefined : Object.fromEntries(names.map((name, at) => [name, decoded(found[at + 1])]));
  };
};
const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

module.exports = { matcher };
