// Tables as Node draws them.
const TABLE_ROWS_MAX = 10000;
const TABLE_COLUMNS_MAX = 1000;
const indexColumn = '(index)';
const iterationColumn = '(iteration index)';
const valuesColumn = 'Values';

const drawTable = (head, columns) => {
  const widths = [];
  let rows = 0;
  for (let i = 0; i < head.length; i++) {
    widths[i] = textWidth(head[i]);
    if (columns[i].length > rows) rows = columns[i].length;
    for (let j = 0; j < columns[i].length; j++) widths[i] = max(widths[i], textWidth(columns[i][j] ?? ''));
  }
  const rule = (left, middle, right) => {
    let text = left;
    for (let i = 0; i < widths.length; i++) text += (i === 0 ? '' : middle) + repeat('─', widths[i] + 2);
    return text + right;
  };
  const row = (cell) => {
    let text = '│ ';
    for (let i = 0; i < widths.length; i++) text += (i === 0 ? '' : ' │ ') + cell(i) + repeat(' ', widths[i] - textWidth(cell(i)));
    return `${text} │`;
  };
  const lines = [rule('┌', '┬', '┐'), row((i) => head[i]), rule('├', '┼', '┤')];
  for (let j = 0; j < rows; j++) lines[lines.length] = row((i) => columns[i][j] ?? '');
  lines[lines.length] = rule('└', '┴', '┘');
  return join(lines, '\n');
};

const enumerableNames = (object) => {
  const all = ownKeys(object);
  const names = [];
  for (let i = 0; i < all.length; i++) if (typeof all[i] === 'string' && isEnumerable(object, all[i])) names[names.length] = all[i];
  return names;
};
const cellText = (value) => {
  const wide = typeof value === 'object' && value !== null && !isArray(value) && kindOf(value) !== 'typed' && !isProxy(value) && enumerableNames(value).length > 2;
  return inspect(value, { __proto__: null, depth: wide ? -1 : 0, maxArrayLength: 3, breakLength: Infinity });
};
const cellTexts = (values) => {
  const texts = [];
  for (let i = 0; i < values.length; i++) texts[i] = cellText(values[i]);
  return texts;
};
const numbered = (length) => {
  const numbers = [];
  for (let i = 0; i < length; i++) numbers[i] = `${i}`;
  return numbers;
};
const pairColumns = (pairs) => {
  const keys = [];
  const values = [];
  for (let i = 0; i < pairs.length; i += 2) {
    keys[keys.length] = cellText(pairs[i]);
    values[values.length] = cellText(pairs[i + 1]);
  }
  return { head: [iterationColumn, 'Key', valuesColumn], columns: [numbered(keys.length), keys, values] };
};
const listColumns = (values) => ({ head: [iterationColumn, valuesColumn], columns: [numbered(values.length), cellTexts(values)] });
const rowColumns = (data, wanted) => {
  const names = enumerableNames(data);
  const more = names.length - TABLE_ROWS_MAX;
  if (more > 0) names.length = TABLE_ROWS_MAX;
  const found = new MapCtor();
  const head = [indexColumn];
  const columns = [names];
  const plain = [];
  let hasPlain = false;
  const place = (name, row, text) => {
    let column = mapGet(found, name);
    if (column === undefined) {
      if (head.length > TABLE_COLUMNS_MAX) return;
      column = [];
      mapSet(found, name, column);
      head[head.length] = name;
      columns[columns.length] = column;
    }
    column[row] = text;
  };
  for (let i = 0; i < names.length; i++) {
    const item = ownData(data, names[i]);
    const primitive = item === null || (typeof item !== 'function' && typeof item !== 'object');
    if (wanted === undefined && primitive) {
      hasPlain = true;
      plain[i] = cellText(item);
      continue;
    }
    const keys = wanted ?? (isProxy(item) ? [] : enumerableNames(item));
    for (let j = 0; j < keys.length; j++) {
      const shown = !primitive && !isProxy(item) && hasOwn(item, keys[j]);
      place(`${keys[j]}`, i, shown ? cellText(ownData(item, keys[j])) : '');
    }
  }
  if (hasPlain) {
    head[head.length] = valuesColumn;
    columns[columns.length] = plain;
  }
  return { head, columns, more };
};
const tableColumns = (data, wanted) => {
  let target = data;
  while (isProxy(target)) target = native.proxyTarget(target);
  if (target === null) return { head: [indexColumn], columns: [[]] };
  switch (kindOf(target)) {
    case 'map': return pairColumns(collect(target, true));
    case 'set': return listColumns(collect(target, false));
    case 'mapiterator': case 'setiterator': {
      const { rest, both } = iteratorRest(target);
      return both ? pairColumns(rest) : listColumns(rest);
    }
    default: return rowColumns(target, wanted);
  }
};
const tableText = (data, wanted) => {
  const { head, columns, more } = tableColumns(data, wanted);
  return drawTable(head, columns) + (more > 0 ? `\n${remaining(more, 'row')}` : '');
};
