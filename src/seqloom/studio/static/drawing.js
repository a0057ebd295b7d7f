// A drawing as lines of points: on a pad, as text of an address, as a picture, and as movements of a pen.

import { h } from "./dom.js";

const PER_PIXEL = 2; // places that a point can have along each axis
const LARGEST = 4000, MOST_POINTS = 100_000; // of a drawing that an address may hold
const LINES = [0.25, 0.75]; // of a pad for pen strokes, between which a drawing has the height of the dev data

// lines: [[[x, y]]] in pixels of a pad, y downwards.
export class Drawing {
  constructor(width, height, lines) {
    Object.assign(this, { width, height, lines });
  }
}

// Differences of points as numbers of one or two bytes, in the letters of base64url.
export function encodeDrawing({ width, height, lines }) {
  const bytes = [];
  const write = (number) => { for (; number > 127; number = Math.floor(number / 128)) bytes.push(128 + (number % 128)); bytes.push(number); };
  const signed = (number) => write(number < 0 ? -2 * number - 1 : 2 * number);
  let before = [0, 0];
  write(width); write(height);
  for (const line of lines) {
    write(line.length);
    for (const point of line) {
      const place = point.map((value) => Math.round(value * PER_PIXEL));
      place.forEach((value, axis) => signed(value - before[axis]));
      before = place;
    }
  }
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// null: the text is none of a drawing.
export function decodeDrawing(text) {
  let bytes;
  try {
    bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return null;
  }
  let at = 0, points = 0;
  const read = () => {
    let number = 0;
    for (let factor = 1; at < bytes.length && factor < 2 ** 36; factor *= 128) {
      const byte = bytes.charCodeAt(at++);
      number += (byte % 128) * factor;
      if (byte < 128) return number;
    }
    return NaN;
  };
  const signed = () => { const number = read(); return number % 2 ? -(number + 1) / 2 : number / 2; };
  const place = [0, 0], lines = [], [width, height] = [read(), read()];
  if (!(width > 0 && height > 0 && width <= LARGEST && height <= LARGEST)) return null;
  while (at < bytes.length) {
    const count = read();
    if (!(count > 0 && (points += count) <= MOST_POINTS)) return null;
    lines.push([...Array(count)].map(() => { place[0] += signed(); place[1] += signed(); return place.map((value) => value / PER_PIXEL); }));
  }
  return place.every((value) => Math.abs(value) <= LARGEST * PER_PIXEL) ? new Drawing(width, height, lines) : null;
}

// How a pad and its picture look to a model: pen: the size of the pen strokes that it reads; ink: ground and pen of its dev data.
function look({ pen, ink }, height) {
  const dark = !pen && ink?.dark;
  return { dark, ground: dark ? "#000000" : "#ffffff", line: dark ? "#ffffff" : "#111111", thickness: pen ? 3 : Math.max(3, (ink?.width ?? 0.06) * height) };
}

function drawLine(context, line, { line: colour, thickness }) {
  Object.assign(context, { lineWidth: thickness, lineCap: "round", lineJoin: "round", strokeStyle: colour });
  context.beginPath();
  context.moveTo(...line[0]);
  for (const point of line.slice(1)) context.lineTo(...point);
  context.stroke();
}

// A drawing as the model reads it: rows of dx, dy and lifted, or a PNG file.
export async function readable(drawing, model) {
  const { width, height, lines } = drawing;
  if (model.pen) return penStrokes(lines, model.pen.step, model.pen.height / ((LINES[1] - LINES[0]) * height));
  const canvas = h("canvas", { width, height }), context = canvas.getContext("2d"), style = look(model, height);
  context.fillStyle = style.ground;
  context.fillRect(0, 0, width, height);
  for (const line of lines) drawLine(context, line, style);
  const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
  return new File([blob], "drawing.png", { type: "image/png" });
}

// call(drawing): a line was drawn. wiped(): everything was cleared. shown: what is on the pad at first. The element has wipe().
export function drawingPad(call, { width = 480, height = 120, model = {}, wiped = () => {}, shown = null } = {}) {
  if (shown) ({ width, height } = shown);
  const canvas = h("canvas", { class: "pad", width, height, role: "img", "aria-label": "Draw here" });
  const context = canvas.getContext("2d"), style = look(model, height);
  let lines = shown ? [...shown.lines] : [], line = null;
  const draw = () => {
    context.fillStyle = style.ground; context.fillRect(0, 0, width, height);
    context.fillStyle = "#d5dbe1";
    if (model.pen) for (const place of LINES) context.fillRect(0, place * height, width, 1);
    for (const each of lines) drawLine(context, each, style);
  };
  draw();
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), place = [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
    return place.map((value) => Math.round(value * PER_PIXEL) / PER_PIXEL); // as an address keeps it: the answer is the same after a reload
  };
  canvas.addEventListener("pointerdown", (event) => { if (event.button) return; line = [at(event)]; lines.push(line); canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!line) return;
    const point = at(event);
    if (point.every((value, axis) => value === line.at(-1)[axis])) return;
    line.push(point);
    drawLine(context, line.slice(-2), style);
  });
  const end = () => {
    if (!line) return;
    line = null;
    draw(); // as it is drawn after a reload
    call(new Drawing(width, height, [...lines]));
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  const hint = model.pen ? "Draw between the lines: the model gets the movements of the pen, in the size and with the spacing of points of the dev data." : model.ink ? `${style.dark ? "Light on dark" : "Dark on light"}, as in the dev data.` : "";
  const wipe = () => { lines = []; draw(); };
  const box = h("div", {}, h("h3", {}, "Draw"), canvas, hint ? h("p", { class: "small soft never" }, hint) : null, h("p", {}, h("button", { type: "button", onclick: () => { wipe(); wiped(); } }, "Clear")));
  return Object.assign(box, { wipe });
}

// Lines of points (y downwards) as movements of a pen (y upwards) of length `step` each, with 1 where it is lifted.
export function penStrokes(lines, step, scale) {
  const rows = [];
  let before = null;
  for (const line of lines) {
    const points = spaced(line.map(([x, y]) => [x * scale, -y * scale]), step);
    points.forEach(([x, y], index) => {
      rows.push([x - (before ?? points[0])[0], y - (before ?? points[0])[1], index === points.length - 1 ? 1 : 0]);
      before = [x, y];
    });
  }
  return rows;
}

// Points at equal distances of about `step` along a line, with its ends.
function spaced(line, step) {
  const lengths = line.map((point, index) => (index ? Math.hypot(point[0] - line[index - 1][0], point[1] - line[index - 1][1]) : 0));
  const total = lengths.reduce((sum, length) => sum + length, 0), count = Math.max(1, Math.round(total / step));
  if (!total) return [line[0]];
  const points = [line[0]];
  let index = 1, passed = 0;
  for (let number = 1; number < count; number++) {
    const target = (number / count) * total;
    while (passed + lengths[index] < target) passed += lengths[index++];
    const share = (target - passed) / lengths[index];
    points.push([0, 1].map((axis) => line[index - 1][axis] + share * (line[index][axis] - line[index - 1][axis])));
  }
  return [...points, line.at(-1)];
}
