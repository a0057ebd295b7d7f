// Dense pictures on a canvas: units × time, attention. A cursor marks one time step in all of them.

import { h } from "./dom.js";
import { number } from "./format.js";

const POSITIVE = { light: [31, 111, 180], dark: [109, 179, 242] };
const NEGATIVE = { light: [214, 113, 20], dark: [242, 153, 74] };
const GROUND = { light: [255, 255, 255], dark: [20, 24, 29] };

function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

// A colour for a value between -1 and 1.
export function shade(value) {
  const name = theme(), end = (value < 0 ? NEGATIVE : POSITIVE)[name], start = GROUND[name], amount = Math.min(1, Math.abs(value));
  return start.map((channel, index) => Math.round(channel + (end[index] - channel) * amount));
}

export function shadeCss(value) {
  return `rgb(${shade(value).join(" ")})`;
}

function sortUnits(values, rows, columns) {
  const order = [...Array(rows).keys()];
  const peak = order.map((row) => {
    let mean = 0, best = 0, place = 0;
    for (let column = 0; column < columns; column++) mean += values[row * columns + column] / columns;
    for (let column = 0; column < columns; column++) {
      const size = Math.abs(values[row * columns + column] - mean);
      if (size > best) { best = size; place = column; }
    }
    return [place, -mean];
  });
  return order.sort((a, b) => peak[a][0] - peak[b][0] || peak[a][1] - peak[b][1]);
}

// values: rows × columns, row by row. `link` shares the cursor: {column, listen(call), set(column)}.
export function heatmap({ title, values, rows, columns, rowName = (row) => `unit ${row + 1}`, columnName = (column) => String(column + 1), link, sorted = false, height = 0, remark = "" }) {
  let extreme = 0;
  for (const value of values) extreme = Math.max(extreme, Math.abs(value));
  const order = sorted ? sortUnits(values, rows, columns) : [...Array(rows).keys()];
  const canvas = h("canvas", { width: columns, height: rows, role: "img", tabindex: 0, "aria-label": `${title}: ${rows} × ${columns} values up to ${number(extreme)}` });
  const image = new ImageData(columns, rows);
  order.forEach((row, place) => {
    for (let column = 0; column < columns; column++) {
      const [red, green, blue] = shade(extreme ? values[row * columns + column] / extreme : 0);
      const start = 4 * (place * columns + column);
      image.data[start] = red; image.data[start + 1] = green; image.data[start + 2] = blue; image.data[start + 3] = 255;
    }
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  const cell = Math.max(3, Math.min(64, Math.floor(400 / columns)));
  canvas.style.width = `${cell * columns}px`;
  canvas.style.height = `${height || Math.max(24, Math.min(240, rows * (rows > 40 ? 2 : 14)))}px`;
  const cursor = h("div", { class: "cursor", hidden: true });
  const reading = h("span", { class: "small soft" }, remark);
  const names = cell < 14 ? null : h("div", { class: "names", "aria-hidden": "true" },
    [...Array(columns).keys()].map((column) => h("span", { style: { width: `${cell}px` } }, columnName(column).replace(/^to /, ""))));
  const box = h("div", { class: "heat" }, canvas, names, cursor);
  canvas.addEventListener("pointermove", (event) => {
    const area = canvas.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.floor(((event.clientX - area.left) / area.width) * columns));
    const row = order[Math.min(rows - 1, Math.floor(((event.clientY - area.top) / area.height) * rows))];
    reading.textContent = `${rowName(row)}, ${columnName(column)}: ${number(values[row * columns + column])}`;
    link?.set(column);
  });
  canvas.addEventListener("pointerleave", () => { reading.textContent = remark; });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !link) return;
    event.preventDefault();
    link.set(Math.max(0, Math.min(columns - 1, (link.column ?? 0) + step)));
  });
  link?.listen((column) => {
    cursor.hidden = column === null || column >= columns;
    if (!cursor.hidden) cursor.style.left = `${(column + 0.5) * cell - 1}px`;
  });
  return h("section", {}, h("div", { class: "tools" }, h("h2", {}, title), reading), box);
}

// A cursor that several views share.
export function makeLink() {
  const listeners = [];
  const link = {
    column: null,
    listen: (call) => listeners.push(call),
    set: (column) => { if (column === link.column) return; link.column = column; listeners.forEach((call) => call(column)); },
  };
  return link;
}
