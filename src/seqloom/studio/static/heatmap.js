// Dense pictures on a canvas: units × time, attention, gradients. A cursor marks one time step in all of them.

import { clear, h } from "./dom.js";
import { number } from "./format.js";
import { saveHeatmap } from "./save.js";

const POSITIVE = { light: [31, 111, 180], dark: [109, 179, 242] };
const NEGATIVE = { light: [214, 113, 20], dark: [242, 153, 74] };
const GROUND = { light: [255, 255, 255], dark: [20, 24, 29] };
const LETTER = 6.5, MOST_LETTERS = 16; // the width of a letter in pixels, about; letters of a name
const LINE = 12; // pixels between the names of rows, at least

function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

// A colour for a value between -1 and 1.
export function shade(value) {
  const name = theme(), end = (value < 0 ? NEGATIVE : POSITIVE)[name], start = GROUND[name], amount = Math.min(1, Math.abs(value));
  return start.map((channel, index) => Math.round(channel + (end[index] - channel) * amount));
}

const LEVELS = 255; // of a palette on each side of 0

// The colours from -1 to 1 as pixels of a canvas.
function shades() {
  const bytes = new Uint8ClampedArray(4 * (2 * LEVELS + 1));
  for (let level = -LEVELS; level <= LEVELS; level++) bytes.set([...shade(level / LEVELS), 255], 4 * (level + LEVELS));
  return new Uint32Array(bytes.buffer);
}

export function shadeCss(value) {
  return `rgb(${shade(value).join(" ")})`;
}

export function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low > high ? [0, 0] : [low, high];
}

export const ORDERS = { time: "by when they act", strength: "by strength", number: "by number" };

// The rows of units × time in an order in which neighbours do similar things.
export function unitOrder(values, rows, columns, order = "time") {
  const units = [...Array(rows).keys()];
  if (order === "number") return units;
  const facts = units.map((row) => {
    let mean = 0, best = -1, place = 0, strength = 0;
    for (let column = 0; column < columns; column++) mean += values[row * columns + column] / columns;
    for (let column = 0; column < columns; column++) {
      const value = values[row * columns + column], size = Math.abs(value - mean);
      strength += value * value;
      if (size > best) { best = size; place = column; }
    }
    return { place, mean, strength };
  });
  if (order === "strength") return units.sort((a, b) => facts[b].strength - facts[a].strength);
  return units.sort((a, b) => facts[a].place - facts[b].place || facts[b].mean - facts[a].mean);
}

// values: rows × columns, row by row. `link` shares the cursor. `limits`: [low, high] of the colours; default: of the values.
// rowTicks(row): its name at the left, or nothing; where names would overlap, some are omitted. describe(row, column): what the cursor is on.
// onRow(row): a row was chosen; onBrush(start, stop): columns were dragged over.
export function heatmap({ title, values, rows, columns, rowName = (row) => `unit ${row + 1}`, columnName = (column) => String(column + 1), tickName = columnName, rowTicks = null, link, order, height = 0, remark = "", limits = null, onRow = null, onBrush = null, describe = null, toLink = (column) => column, fromLink = (column) => column }) {
  const places = order || [...Array(rows).keys()];
  const [low, high] = limits || range(values);
  const extreme = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const label = `${title}: ${rows} × ${columns} values from ${number(low, 3)} to ${number(high, 3)}`;
  const canvas = h("canvas", { width: columns, height: rows, role: "img", tabindex: 0, "aria-label": label, "aria-keyshortcuts": onRow ? "ArrowLeft ArrowRight ArrowUp ArrowDown Enter" : "ArrowLeft ArrowRight ArrowUp ArrowDown" });
  const image = new ImageData(columns, rows), pixels = new Uint32Array(image.data.buffer), palette = shades();
  places.forEach((row, place) => {
    for (let column = 0; column < columns; column++) {
      pixels[place * columns + column] = palette[LEVELS + Math.round(Math.max(-1, Math.min(1, values[row * columns + column] / extreme)) * LEVELS)];
    }
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  const pixelsHigh = height || Math.max(20, Math.min(200, rows * (rows > 64 ? 1.5 : rows > 24 ? 4 : 16)));
  canvas.style.height = `${pixelsHigh}px`;
  const cursor = h("div", { class: "cursor", hidden: true });
  const brush = h("div", { class: "brush", hidden: true });
  const reading = h("span", { class: "reading", "aria-live": "polite" }, remark);
  const names = h("div", { class: "names", "aria-hidden": "true" });
  new ResizeObserver(() => {
    const width = names.clientWidth, texts = [...Array(columns).keys()].map((column) => shortened(tickName(column)));
    const shown = width ? fitting(texts, width) : [];
    if (names.dataset.shown === shown.join()) return;
    names.dataset.shown = shown.join();
    const all = shown.length === columns;
    const place = (column) => (all ? { left: `${(column / columns) * 100}%`, width: `${100 / columns}%` } : column === columns - 1 && column ? { right: "0" } : { left: `${(column / columns) * 100}%` });
    clear(names, shown.map((column) => h("span", { title: columnName(column), class: all ? "centred" : "", style: place(column) }, texts[column])));
  }).observe(names);
  const frame = h("div", { class: "heat" }, canvas, cursor, brush);
  const span = (element, start, stop) => { element.style.left = `${(start / columns) * 100}%`; element.style.width = `${((stop - start) / columns) * 100}%`; };
  const place = (event) => {
    const area = canvas.getBoundingClientRect();
    const inside = (position, size) => Math.max(0, Math.min(size - 1, Math.floor(position * size)));
    return [inside((event.clientX - area.left) / area.width, columns), places[inside((event.clientY - area.top) / area.height, rows)]];
  };
  const read = describe || ((row, column) => `${rowName(row)}, ${columnName(column)}: ${number(values[row * columns + column], 3)}`);
  let from = null;
  canvas.addEventListener("pointermove", (event) => {
    const [column, row] = place(event);
    reading.textContent = read(row, column);
    if (from !== null) { brush.hidden = false; span(brush, Math.min(from, column), Math.max(from, column) + 1); }
    link?.set(toLink(column));
  });
  canvas.addEventListener("pointerdown", (event) => { if (onBrush && event.button === 0) { [from] = place(event); canvas.setPointerCapture(event.pointerId); } });
  canvas.addEventListener("pointerup", (event) => {
    const [column, row] = place(event), start = from;
    from = null;
    brush.hidden = true;
    if (onBrush && start !== null && column !== start) onBrush(Math.min(start, column), Math.max(start, column) + 1);
    else onRow?.(row);
  });
  canvas.addEventListener("pointerleave", () => { reading.textContent = remark; });
  // Left and right move through time, up and down through the rows; Enter chooses a row.
  let [keyRow, keyColumn] = [0, 0];
  canvas.addEventListener("keydown", (event) => {
    const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key], down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "Enter" && onRow) { event.preventDefault(); onRow(places[keyRow]); return; }
    if (!across && !down) return;
    event.preventDefault();
    if (down) keyRow = Math.max(0, Math.min(rows - 1, keyRow + down));
    else {
      keyColumn = Math.max(0, Math.min(columns - 1, (link ? fromLink(link.column) ?? -across : keyColumn) + across));
      link?.set(toLink(keyColumn));
    }
    reading.textContent = read(places[keyRow], keyColumn);
  });
  link?.listen((shared) => {
    const column = shared === null ? null : fromLink(shared);
    cursor.hidden = column === null || column === undefined || column < 0 || column >= columns;
    if (!cursor.hidden) span(cursor, column, column + 1);
  });
  if (onRow || onBrush) canvas.classList.add("active");
  const save = h("button", { class: "save", type: "button", "aria-label": `Save ${title} as SVG`, onclick: () => saveHeatmap({ title, canvas, columnNames: [...Array(columns).keys()].map(columnName), low, high, signed: low < 0, colours: [shadeCss(-1), shadeCss(0), shadeCss(1)] }) }, "SVG");
  const scale = h("span", { class: "scale", "aria-hidden": "true" }, number(low, 2), h("i", { style: { background: `linear-gradient(90deg, ${shadeCss(low / extreme)}, ${low < 0 && high > 0 ? `${shadeCss(0)} ${(-low / (high - low)) * 100}%, ` : ""}${shadeCss(high / extreme)})` } }), number(high, 2));
  return h("section", { class: "view" }, h("div", { class: "tools" }, h("h3", {}, title), h("span", {}, save, scale)), rowTicks ? h("div", { class: "ticked" }, h("div", { class: "ticks", "aria-hidden": "true" }, sparse(places.map(rowTicks), pixelsHigh).map((name) => h("span", {}, name))), h("div", {}, frame, names)) : [frame, names], h("p", { class: "small soft line" }, reading));
}

function shortened(name) {
  return name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name;
}

// The columns whose names have room below a picture: all, or the first words; of single letters the first and the last.
function fitting(names, width) {
  const each = width / names.length, size = (name) => name.length * LETTER + 4;
  const lengths = names.map((name) => name.length).sort((a, b) => a - b), usual = lengths[Math.floor(0.8 * lengths.length)];
  if (usual * LETTER + 4 <= each) return [...names.keys()];
  if (usual <= 2) return [0, names.length - 1];
  const shown = [];
  let end = 0;
  names.forEach((name, column) => {
    const start = column * each;
    if (start < end || start + size(name) > width || (column && !/[\p{L}\p{N}]/u.test(name))) return;
    shown.push(column);
    end = start + size(name) + 4;
  });
  return shown;
}

// The names that have room in a height; the others are empty.
function sparse(names, height) {
  const every = Math.max(1, Math.ceil((LINE * names.filter(Boolean).length) / height));
  let count = 0;
  return names.map((name) => (name && count++ % every === 0 ? name : ""));
}

// How a view with another number of columns follows a cursor over `base` steps.
export function scaled(columns, base) {
  if (columns === base) return {};
  return { toLink: (column) => Math.min(base - 1, Math.floor(((column + 0.5) / columns) * base)), fromLink: (place) => (place === null ? null : Math.min(columns - 1, Math.floor(((place + 0.5) / base) * columns))) };
}

// A cursor that several views share.
export function makeLink() {
  const listeners = [];
  const link = {
    column: null,
    listen: (call) => listeners.push(call),
    set: (column) => { if (column === link.column) return; link.column = column; for (const call of listeners) call(column); },
  };
  return link;
}
