// Lines: which entries share one, where they break.
const ARRAY_COLUMNS_MAX = 15;
const CHARACTER_HEIGHT = 2.5;
const indentation = (state) => repeat(' ', state.indent);

const fitsOnLine = (state, output, start, base) => {
  let total = output.length + start;
  if (total + output.length > state.width) return false;
  for (let i = 0; i < output.length; i++) {
    total += output[i].length;
    if (total > state.width) return false;
  }
  return base === '' || indexOf(base, '\n') < 0;
};

// Short entries of arrays in columns. `numeric` aligns them on the right.
const columnsOf = (state, output, numeric) => {
  // The line that counts what is left out stands alone.
  const hasMore = output.length > state.entries;
  const count = hasMore ? output.length - 1 : output.length;
  const widths = [];
  let total = 0;
  let longest = 0;
  for (let i = 0; i < count; i++) {
    const width = textWidth(output[i]);
    widths[i] = width;
    total += width + 2;
    if (width > longest) longest = width;
  }
  const cell = longest + 2;
  if (cell * 3 + state.indent >= state.width || !(total / cell > 5 || longest <= 6)) return output;
  const bias = sqrt(cell - total / output.length);
  const biased = max(cell - 3 - bias, 1);
  const columns = min(
    round(sqrt(CHARACTER_HEIGHT * biased * count) / biased), floor((state.width - state.indent) / cell), state.compact * 4, ARRAY_COLUMNS_MAX,
  );
  if (columns <= 1) return output;
  const columnWidths = [];
  for (let i = 0; i < columns; i++) {
    let widest = 0;
    for (let j = i; j < count; j += columns) if (widths[j] > widest) widest = widths[j];
    columnWidths[i] = widest + 2;
  }
  const rows = [];
  for (let i = 0; i < count; i += columns) {
    const end = min(i + columns, count);
    let row = '';
    for (let j = i; j < end; j++) {
      const last = j === end - 1;
      const text = last ? output[j] : `${output[j]}, `;
      const width = columnWidths[j - i] - (last ? 2 : 0) + output[j].length - widths[j];
      row += numeric ? padStart(text, width) : last ? text : padEnd(text, width);
    }
    rows[rows.length] = row;
  }
  if (hasMore) rows[rows.length] = output[count];
  return rows;
};

const layout = (state, output, base, open, close, depth, grouping) => {
  const entries = output.length;
  let lines = output;
  if (grouping !== undefined && state.compact >= 1 && entries > 6) lines = columnsOf(state, output, grouping.numeric);
  if (state.compact >= 1 && state.reached - depth < state.compact && entries === lines.length) {
    const start = lines.length + state.indent + open.length + base.length + 10;
    if (fitsOnLine(state, lines, start, base)) {
      const joined = join(lines, ', ');
      if (indexOf(joined, '\n') < 0) return `${base === '' ? '' : `${base} `}${open} ${joined} ${close}`;
    }
  }
  const edge = `\n${indentation(state)}`;
  return `${base === '' ? '' : `${base} `}${open}${edge}  ${join(lines, `,${edge}  `)}${edge}${close}`;
};
