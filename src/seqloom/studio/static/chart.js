// Line charts as SVG: several curves over one axis, with a crosshair that reads all of them.

import { colour, h, clear } from "./dom.js";
import { number } from "./format.js";
import { saveSvg } from "./save.js";

const HEIGHT = 240, LEFT = 52, RIGHT = 12, TOP = 8, BOTTOM = 40;
const MOST_POINTS = 800;

export function ticks(low, high, most = 5) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= 0.7 * rough);
  const first = Math.ceil(low / step) * step;
  const result = [];
  for (let value = first; value <= high + step * 1e-9; value += step) result.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return result;
}

// Logarithms of round values; of 1, 2, 5, 10 … only powers of ten where there are enough of them.
export function logTicks(low, high, most = 5) {
  const all = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++) for (const factor of [1, 2, 5]) all.push([factor, power + Math.log10(factor)]);
  const inside = all.filter(([, value]) => value >= low && value <= high);
  const powers = inside.filter(([factor]) => factor === 1);
  const chosen = inside.length <= most || powers.length < 2 ? inside : powers;
  const step = Math.ceil(chosen.length / most);
  return chosen.filter((_, index) => index % step === 0).map(([, value]) => value);
}

function thinned(points) {
  if (points.length <= MOST_POINTS) return points;
  const size = points.length / (MOST_POINTS / 2);
  const kept = [];
  for (let start = 0; start < points.length; start += size) {
    const part = points.slice(Math.floor(start), Math.floor(start + size));
    if (!part.length) continue;
    let low = part[0], high = part[0];
    for (const point of part) {
      if (point[1] < low[1]) low = point;
      if (point[1] > high[1]) high = point;
    }
    kept.push(...(low[0] < high[0] ? [low, high] : [high, low]));
  }
  return kept;
}

function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle;
    else high = middle;
  }
  return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
}

// series: [{name, points: [[x, y]], colour?, dashed?}]; marks: [{y, name}]
export function lineChart({ title, series, xLabel = "updates", logarithmic = false, marks = [], limits = null, wide = false, plain = false, empty = "no values yet" }) {
  let WIDTH = 0;  // of the place where it stands, so that texts have one size everywhere
  const box = h("section", { class: plain ? "chart" : wide ? "card chart wide" : "card chart", "aria-label": title });
  const body = h("div", { class: "chart" });
  const state = { logarithmic, series, xLabel };
  const toggle = h("button", { class: "save", type: "button", onclick: () => { state.logarithmic = !state.logarithmic; draw(); } }, "log");
  const save = h("button", { class: "save", type: "button", onclick: () => saveSvg(body.querySelector("svg"), title) }, "SVG");
  box.append(h("div", { class: "tools" }, h(plain ? "h3" : "h2", {}, title), h("span", {}, toggle, " ", save)), body);

  function draw() {
    if (!WIDTH) return;
    const usable = (y) => Number.isFinite(y) && (!state.logarithmic || y > 0);
    const curves = state.series.map((curve, index) => ({
      ...curve, colour: curve.colour || colour(index), points: curve.points.filter(([, y]) => usable(y)),
    })).filter((curve) => curve.points.length);
    toggle.setAttribute("aria-pressed", String(state.logarithmic));
    if (!curves.length) {
      save.disabled = true;
      clear(body, h("p", { class: "faint" }, empty));
      return;
    }
    save.disabled = false;
    const lines = marks.filter((mark) => usable(mark.y));
    const all = curves.flatMap((curve) => curve.points);
    const transform = state.logarithmic ? Math.log10 : (value) => value;
    let xLow = Infinity, xHigh = -Infinity, yLow = Infinity, yHigh = -Infinity;
    for (const [x, y] of all) {
      xLow = Math.min(xLow, x); xHigh = Math.max(xHigh, x);
      yLow = Math.min(yLow, transform(y)); yHigh = Math.max(yHigh, transform(y));
    }
    for (const mark of lines) { yLow = Math.min(yLow, transform(mark.y)); yHigh = Math.max(yHigh, transform(mark.y)); }
    if (xLow === xHigh) { xLow = Math.min(0, xLow); if (xLow === xHigh) xHigh = xLow + 1; }
    if (yLow === yHigh) { const room = Math.abs(yLow) * 0.1 || 1; yLow -= room; yHigh += room; }
    const room = (yHigh - yLow) * 0.06;
    yLow -= room; yHigh += room;
    if (limits && !state.logarithmic) [yLow, yHigh] = limits;
    const px = (x) => LEFT + ((x - xLow) / (xHigh - xLow)) * (WIDTH - LEFT - RIGHT);
    const py = (y) => HEIGHT - BOTTOM - ((transform(y) - yLow) / (yHigh - yLow)) * (HEIGHT - TOP - BOTTOM);
    const svg = h("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": describe(title, curves) });
    for (const tick of state.logarithmic ? logTicks(yLow, yHigh) : ticks(yLow, yHigh, 4)) {
      const value = state.logarithmic ? 10 ** tick : tick;
      const y = HEIGHT - BOTTOM - ((tick - yLow) / (yHigh - yLow)) * (HEIGHT - TOP - BOTTOM);
      svg.append(h("svg:line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }));
      svg.append(h("svg:text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, number(value, 3)));
    }
    for (const tick of ticks(xLow, xHigh, Math.max(2, Math.min(8, Math.round(WIDTH / 72))))) {
      const end = px(tick) > WIDTH - RIGHT - 16;
      svg.append(h("svg:text", { x: end ? WIDTH - RIGHT : px(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": end ? "end" : "middle" }, number(tick, 4)));
    }
    svg.append(h("svg:text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, state.xLabel));
    for (const mark of lines) {
      svg.append(h("svg:line", { x1: LEFT, x2: WIDTH - RIGHT, y1: py(mark.y), y2: py(mark.y), stroke: "var(--faint)", "stroke-dasharray": "4 4" }));
      const above = py(mark.y) > TOP + 16;
      svg.append(h("svg:text", { x: WIDTH - RIGHT, y: py(mark.y) + (above ? -4 : 14), "text-anchor": "end" }, mark.name));
    }
    for (const curve of curves) {
      const points = thinned(curve.points);
      const path = points.map(([x, y], index) => `${index ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
      svg.append(h("svg:path", { d: path, fill: "none", stroke: curve.colour, "stroke-width": 1.75, "stroke-linejoin": "round", "stroke-dasharray": curve.dashed ? "5 4" : null }));
      if (points.length < 40) for (const [x, y] of points) svg.append(h("svg:circle", { cx: px(x), cy: py(y), r: 2.5, fill: curve.colour }));
    }
    const cross = h("svg:line", { y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--faint)", visibility: "hidden" });
    svg.append(cross);
    const tip = h("div", { class: "tip", hidden: true });
    svg.addEventListener("pointermove", (event) => {
      const area = svg.getBoundingClientRect();
      const x = xLow + (((event.clientX - area.left) / area.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * (xHigh - xLow);
      if (x < xLow || x > xHigh) { hide(); return; }
      const at = nearest(curves[0].points, x)[0];
      cross.setAttribute("x1", px(at)); cross.setAttribute("x2", px(at)); cross.setAttribute("visibility", "visible");
      clear(tip, h("div", { class: "soft" }, `${number(at)} ${state.xLabel}`),
        curves.map((curve) => h("div", {}, `${curve.name}: ${number(nearest(curve.points, at)[1])}`)));
      tip.hidden = false;
      const left = event.clientX - area.left + 14;
      tip.style.left = `${left + tip.offsetWidth > area.width ? left - tip.offsetWidth - 28 : left}px`;
      tip.style.top = `${Math.max(0, event.clientY - area.top - 20)}px`;
    });
    const hide = () => { cross.setAttribute("visibility", "hidden"); tip.hidden = true; };
    svg.addEventListener("pointerleave", hide);
    const legend = curves.length > 1
      ? h("div", { class: "legend" }, curves.map((curve) => h("span", { style: { "--colour": curve.colour } }, curve.name))) : null;
    clear(body, svg, tip, legend);
  }

  new ResizeObserver(() => {
    const width = Math.round(body.clientWidth);
    if (width && width !== WIDTH) { WIDTH = width; draw(); }
  }).observe(body);
  box.update = (series, label = state.xLabel) => { state.series = series; state.xLabel = label; draw(); };
  return box;
}

function describe(title, curves) {
  const parts = curves.map((curve) => {
    const [first, last] = [curve.points[0], curve.points[curve.points.length - 1]];
    return `${curve.name} from ${number(first[1])} to ${number(last[1])}`;
  });
  return `${title}: ${parts.join("; ")}`;
}

// A curve without axes, for a table.
export function sparkline(values) {
  const points = values.map((value, index) => [index, value]).filter(([, value]) => value !== null);
  const svg = h("svg:svg", { viewBox: "0 0 96 24", width: 96, height: 24, "aria-hidden": "true" });
  if (points.length < 2) return svg;
  const low = Math.min(...points.map(([, y]) => y)), high = Math.max(...points.map(([, y]) => y));
  const path = points.map(([x, y], index) =>
    `${index ? "L" : "M"}${(2 + (x / (values.length - 1)) * 92).toFixed(1)} ${(21 - ((y - low) / (high - low || 1)) * 18).toFixed(1)}`).join("");
  svg.append(h("svg:path", { d: path, fill: "none", stroke: "var(--accent)", "stroke-width": 1.5 }));
  return svg;
}
