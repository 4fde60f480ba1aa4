// Time zones: what a clock there says, by the IANA database as FormatJS packs it. Intl and Temporal ask here, so both say the same.
const { unpacked, textOf } = require('web/locale-data');
const told = require('intl/zone-names');

// `|Europe/Berlin|Asia/Calcutta=Asia/Kolkata|`, for names in any case.
const upper = told.toUpperCase();
const find = (name) => {
  if (typeof name !== 'string' || /[^\w/+-]/.test(name)) return undefined;
  const wanted = `|${name.toUpperCase()}`;
  const [own, other] = [upper.indexOf(`${wanted}|`), upper.indexOf(`${wanted}=`)];
  const at = own < 0 ? other : own;
  if (at < 0) return undefined;
  const [found, primary = found] = told.slice(at + 1, told.indexOf('|', at + 1)).split('=');
  return { name: found, primary };
};
// Of each zone once; other names of one are left out.
const zoneNames = () => told.slice(1, -1).split('|').filter((name) => !name.includes('=')).sort();

const DAY = 86400;
// The last time that a date may have.
const ENDS = 8.64e12;
const YEARS = 28;
// What is known ends here. A zone that still moves its clocks then goes on so: in a year that begins with the same day and is as long.
const KNOWN_UNTIL = Date.UTC(2100, 0, 1) / 1000;
const yearOf = (seconds) => new Date(seconds * 1000).getUTCFullYear();
const begins = (year) => Date.UTC(year, 0, 1) / 1000;
const lengthOf = (year) => begins(year + 1) - begins(year);
const weekday = (seconds) => (Math.floor(seconds / DAY) + 4) % 7;
const likeYear = (year) => {
  const [first, length] = [weekday(begins(year)), lengthOf(year)];
  for (let like = 2099; like > 2099 - YEARS; like--) if (weekday(begins(like)) === first && lengthOf(like) === length) return like;
  return 2099;
};

class Zone {
  #times; #offsets; #forward; #repeats;
  constructor(rows) {
    const parts = rows.split('|').map((row) => row.split(','));
    this.#times = new Float64Array(parts.length);
    this.#offsets = new Int32Array(parts.length);
    this.#forward = new Uint8Array(parts.length);
    let time = 0;
    for (let at = 0; at < parts.length; at++) {
      const state = parts[at].at(-1);
      if (at > 0) time += parseInt(parts[at][0], 36);
      this.#times[at] = at === 0 ? -Infinity : time;
      this.#forward[at] = state.endsWith('d') ? 1 : 0;
      this.#offsets[at] = parseInt(state.endsWith('d') ? state.slice(0, -1) : state, 36);
    }
    this.#repeats = time >= begins(2099);
  }
  // The last row that begins at or before the time, which a year that is not known finds in another.
  #row(seconds) {
    let at = Math.min(Math.max(seconds, -ENDS), ENDS);
    if (this.#repeats && at >= KNOWN_UNTIL) {
      const year = yearOf(at);
      at += begins(likeYear(year)) - begins(year);
    }
    let [low, high] = [0, this.#times.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.#times[middle] <= at) low = middle;
      else high = middle;
    }
    return low;
  }
  // Milliseconds that clocks there are ahead of UTC (east of it above zero), and whether they are moved forward for the summer.
  at(milliseconds) {
    const row = this.#row(Math.floor(milliseconds / 1000));
    return [this.#offsets[row] * 1000, this.#forward[row] === 1];
  }
  offsetAt(seconds) { return this.#offsets[this.#row(seconds)]; }
  // The times at which a clock there shows what would be `local` in UTC: none where it is moved forward, two where back.
  instantsOf(local) {
    const [before, after] = [this.offsetAt(local - DAY), this.offsetAt(local + DAY)];
    const found = [];
    for (const offset of before === after ? [before] : before > after ? [before, after] : [after, before]) {
      const seconds = local - offset;
      if (this.offsetAt(seconds) === offset) found.push(seconds);
    }
    return found;
  }
  // Where clocks are moved: the first such time from `seconds` on, or the last before.
  transition(seconds, direction) {
    const step = direction > 0 ? 1 : -1;
    if (this.#repeats && seconds > begins(2099)) {
      // Two years are looked through, as a zone moves its clocks in each.
      for (let year = yearOf(seconds), end = year + 2 * step; year !== end && year >= 2099; year += step) {
        const by = begins(year) - begins(likeYear(year));
        const found = this.#known(Math.max(begins(year), Math.min(begins(year + 1), seconds)) - by, step, begins(year) - by, begins(year + 1) - by);
        if (found !== undefined) return found + by;
      }
      if (step > 0) return undefined;
    }
    return this.#known(seconds, step, -Infinity, KNOWN_UNTIL);
  }
  #known(seconds, step, from, to) {
    let row = this.#row(Math.min(seconds, KNOWN_UNTIL - 1));
    if (step > 0 && this.#times[row] < seconds) row += 1;
    if (step < 0 && this.#times[row] >= seconds) row -= 1;
    for (; row > 0 && row < this.#times.length; row += step) {
      if (this.#times[row] < from || this.#times[row] >= to) return undefined;
      if (this.#offsets[row] !== this.#offsets[row - 1]) return this.#times[row];
    }
    return undefined;
  }
}
const known = new Map();
const lineOf = (all, name) => {
  const start = all.indexOf(`\n${name}|`);
  if (start >= 0) return all.slice(start + name.length + 2, all.indexOf('\n', start + 1));
  const link = all.indexOf(`\n${name}=`);
  return link < 0 ? undefined : lineOf(all, all.slice(link + name.length + 2, all.indexOf('\n', link + 1)));
};
// A zone is unpacked when a time of it is first told.
const zoneOf = (name) => {
  const primary = find(name)?.primary;
  if (primary === undefined) return undefined;
  let zone = known.get(primary);
  if (zone === undefined) {
    zone = new Zone(primary === 'UTC' ? '0' : lineOf(unpacked(textOf('intl/zones')), primary));
    known.set(primary, zone);
  }
  return zone;
};
module.exports = { find, zoneNames, zoneOf };
