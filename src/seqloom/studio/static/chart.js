// Line charts as SVG: several curves over one axis, with a crosshair that reads all of them. Dragging zooms.

import { colour, h, clear } from "./dom.js";
import { axisNumber, number } from "./format.js";
import { saveSvg } from "./save.js";

const HEIGHT = 240, LEFT = 52, RIGHT = 12, TOP = 8, BOTTOM = 40; // LEFT and RIGHT also in style.css, of what stands below a chart
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
  if (high - low < 0.5) return ticks(10 ** low, 10 ** high, most - 1).filter((value) => value > 0).map(Math.log10);
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

const NARROWEST = 1e-4; // of the whole axis, the least that can be zoomed in to
let charts = 0;

// What several charts of one page share: the part of the axis that is shown, and the place under the pointer.
// changed(range): the part [low, high] was chosen; null: all of it.
export function makeView(range = null, changed = () => {}) {
  const listeners = [];
  const tell = (what) => listeners.forEach((call) => call(what));
  const view = {
    range, at: null,
    listen: (call) => listeners.push(call),
    zoom: (chosen) => { view.range = chosen; changed(chosen); tell("range"); },
    point: (x) => { if (x !== view.at) { view.at = x; tell("at"); } },
  };
  return view;
}

// The charts of a page whose axis is not the usual one, by their titles. changed(titles): another one was chosen.
export function makeScales(titles = [], changed = () => {}) {
  const kept = new Set(titles);
  return { has: (title) => kept.has(title), all: () => [...kept], change: (title) => { if (!kept.delete(title)) kept.add(title); changed([...kept]); } };
}

// A range as part of an address, and back.
export function rangeText(range) {
  return range ? range.map((end) => String(Number(end.toPrecision(6)))).join("~") : "";
}

export function parseRange(text) {
  const ends = (text || "").split("~").map(Number);
  return ends.length === 2 && ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
}

// domain: [low, high] of the axis, which then cannot be zoomed, as of pictures that stand one below the other
// series: [{name, points: [[x, y]], band?: [[x, low, high]], bandName?, colour?, dashed?, dots?, ghost?}]; a ghost is drawn faintly, and named nowhere; marks: [{y, name}]; view: shared with other charts
export function lineChart({ title, series, xLabel = "updates", logarithmic = false, marks = [], limits = null, wide = false, plain = false, empty = "no values", view = makeView(), domain = null, scales = makeScales() }) {
  let WIDTH = 0;  // of the place where it stands, so that texts have one size everywhere
  const box = h("section", { class: plain ? "chart" : wide ? "card chart wide" : "card chart", "aria-label": title });
  const body = h("div", { class: "chart" });
  const state = { logarithmic: logarithmic !== scales.has(title), series, xLabel, legend: [] };
  const clip = `chart-${++charts}`;
  const toggle = h("button", { class: "save", type: "button", title: "Logarithmic axis", onclick: () => { state.logarithmic = !state.logarithmic; scales.change(title); draw(); } }, "log");
  const save = h("button", { class: "save", type: "button", title: "Save as SVG", "aria-label": `Save ${title} as SVG`, onclick: () => saveSvg(body.querySelector("svg"), title, { yLabel: `${title.replace(/ on the .*/, "")}${state.logarithmic ? " (logarithmic)" : ""}`, legend: state.legend }) }, "SVG");
  const reset = h("button", { class: "save", type: "button", title: "Show the whole axis", hidden: true, onclick: () => view.zoom(null) }, "Reset zoom");
  box.append(h("div", { class: "tools" }, h(plain ? "h3" : "h2", {}, title), h("span", { class: "buttons-right" }, reset, toggle, save)), body);
  let show = () => {};  // the crosshair at view.at

  function draw() {
    if (!WIDTH) return;
    const usable = (y) => Number.isFinite(y) && (!state.logarithmic || y > 0);
    const curves = state.series.map((curve, index) => ({
      ...curve, colour: curve.colour || colour(index), points: curve.points.filter(([, y]) => usable(y)), band: (curve.band || []).filter(([, low, high]) => usable(low) && usable(high)),
    })).filter((curve) => curve.points.length);
    toggle.setAttribute("aria-pressed", String(state.logarithmic));
    reset.hidden = !view.range;
    save.disabled = !curves.length;
    show = () => {};
    if (!curves.length) { clear(body, h("p", { class: "faint" }, typeof empty === "function" ? empty() : empty)); return; }
    const lines = marks.filter((mark) => usable(mark.y));
    const transform = state.logarithmic ? Math.log10 : (value) => value;
    const whole = domain || extent(curves.flatMap((curve) => curve.points), ([x]) => x);
    const [xLow, xHigh] = view.range || (whole[0] < whole[1] ? whole : [Math.min(0, whole[0]), whole[1] > 0 ? whole[1] : 1]);
    const inside = (x) => x >= xLow && x <= xHigh;
    const heights = curves.flatMap((curve) => [...curve.points.filter(([x]) => inside(x)).map(([, y]) => transform(y)), ...curve.band.filter(([x]) => inside(x)).flatMap(([, low, high]) => [transform(low), transform(high)])]);
    if (!view.range || !heights.length) heights.push(...lines.map((mark) => transform(mark.y)));
    let [yLow, yHigh] = heights.length ? extent(heights, (y) => y) : [0, 1];
    const room = yLow === yHigh ? (state.logarithmic ? 0.2 : Math.abs(yLow) * 0.1 || 1) : (yHigh - yLow) * 0.06;
    yLow -= room; yHigh += room;
    if (limits && !state.logarithmic) [yLow, yHigh] = limits;
    const px = (x) => LEFT + ((x - xLow) / (xHigh - xLow)) * (WIDTH - LEFT - RIGHT);
    const height = (y) => HEIGHT - BOTTOM - ((y - yLow) / (yHigh - yLow)) * (HEIGHT - TOP - BOTTOM);
    const py = (y) => height(transform(y));
    const svg = h("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: 0, "aria-label": describe(title, curves, view.range, state.xLabel), "aria-keyshortcuts": "ArrowLeft ArrowRight + - 0" });
    svg.append(h("svg:clipPath", { id: clip }, h("svg:rect", { x: LEFT - 4, y: TOP - 4, width: WIDTH - LEFT - RIGHT + 8, height: HEIGHT - TOP - BOTTOM + 8 })));
    for (const tick of state.logarithmic ? logTicks(yLow, yHigh) : ticks(yLow, yHigh, 4)) {
      svg.append(h("svg:line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: height(tick), y2: height(tick) }));
      svg.append(h("svg:text", { x: LEFT - 6, y: height(tick) + 4, "text-anchor": "end" }, axisNumber(state.logarithmic ? Number((10 ** tick).toPrecision(3)) : tick)));
    }
    for (const tick of ticks(xLow, xHigh, Math.max(2, Math.min(8, Math.round(WIDTH / 72))))) {
      const end = px(tick) > WIDTH - RIGHT - 16;
      svg.append(h("svg:text", { x: end ? WIDTH - RIGHT : px(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": end ? "end" : "middle" }, axisNumber(tick, 4)));
    }
    svg.append(h("svg:text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, state.xLabel));
    const drawing = h("svg:g", { "clip-path": `url(#${clip})` });
    svg.append(drawing);
    for (const mark of lines.filter(({ y }) => transform(y) >= yLow && transform(y) <= yHigh)) {
      drawing.append(h("svg:line", { x1: LEFT, x2: WIDTH - RIGHT, y1: py(mark.y), y2: py(mark.y), stroke: "var(--faint)", "stroke-dasharray": "4 4" }));
      svg.append(h("svg:text", { x: WIDTH - RIGHT, y: py(mark.y) + (py(mark.y) > TOP + 16 ? -4 : 14), "text-anchor": "end" }, mark.name));
    }
    const place = (x, y) => `${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
    for (const curve of curves) {
      const band = visible(curve.band, xLow, xHigh);
      if (band.length > 1) drawing.append(h("svg:path", { d: `M${[...band.map(([x, , high]) => place(x, high)), ...band.map(([x, low]) => place(x, low)).reverse()].join("L")}Z`, fill: curve.colour, opacity: 0.16, stroke: "none" }));
    }
    for (const curve of curves) {
      const points = thinned(visible(curve.points, xLow, xHigh));
      if (!curve.dots) drawing.append(h("svg:path", { d: points.length ? `M${points.map(([x, y]) => place(x, y)).join("L")}` : "", fill: "none", stroke: curve.colour, "stroke-width": curve.ghost ? 1 : 1.75, opacity: curve.ghost ? 0.35 : null, "stroke-linejoin": "round", "stroke-dasharray": curve.dashed ? "5 4" : null }));
      if ((points.length < 40 && !curve.ghost) || curve.dots) for (const [x, y] of points) drawing.append(h("svg:circle", { cx: px(x), cy: py(y), r: curve.dots ? 4 : 2.5, fill: curve.dots ? "var(--ground)" : curve.colour, stroke: curve.dots ? curve.colour : "none", "stroke-width": 1.75 }));
    }
    const cross = h("svg:line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--faint)", visibility: "hidden" });
    const chosen = h("svg:rect", { class: "chosen", y: TOP, height: HEIGHT - TOP - BOTTOM, fill: "var(--accent)", opacity: 0.15, visibility: "hidden" });
    svg.append(cross, chosen);
    const tip = h("div", { class: "tip", hidden: true, role: "status" });
    const nearby = (x) => nearest((curves.find((curve) => curve.points.some(([place]) => inside(place))) || curves[0]).points, x)[0];
    show = () => {
      const at = view.at === null ? null : nearby(view.at);
      if (at === null || !inside(at)) { cross.setAttribute("visibility", "hidden"); tip.hidden = true; return; }
      for (const end of ["x1", "x2"]) cross.setAttribute(end, px(at));
      cross.setAttribute("visibility", "visible");
      if (!svg.matches(":hover, :focus")) { tip.hidden = true; return; }
      clear(tip, h("div", { class: "soft" }, `${number(at)} ${state.xLabel}`), curves.filter((curve) => !curve.ghost).map((curve) => h("div", { class: "swatch", style: { "--colour": curve.colour } }, `${curve.name}: ${number(nearest(curve.points, at)[1])}${spread(curve, at)}`)));
      tip.hidden = false;
      const left = (px(at) / WIDTH) * body.clientWidth + 14;
      tip.style.left = `${left + tip.offsetWidth > body.clientWidth ? Math.max(0, left - tip.offsetWidth - 28) : left}px`;
      tip.style.top = `${TOP}px`;
    };
    const value = (event) => {
      const area = svg.getBoundingClientRect();
      return xLow + (((event.clientX - area.left) / area.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * (xHigh - xLow);
    };
    const limit = (x) => Math.max(xLow, Math.min(xHigh, x));
    let from = null;
    const select = (to) => {
      const [start, end] = [from, to].sort((a, b) => a - b);
      chosen.setAttribute("x", px(start)); chosen.setAttribute("width", px(end) - px(start));
      chosen.setAttribute("visibility", from === null ? "hidden" : "visible");
    };
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0 && !domain) { from = limit(value(event)); svg.setPointerCapture(event.pointerId); } });
    svg.addEventListener("pointermove", (event) => {
      const x = value(event);
      if (from !== null) select(limit(x));
      view.point(inside(x) ? x : null);
    });
    svg.addEventListener("pointerup", (event) => {
      const start = from, end = limit(value(event));
      from = null;
      chosen.setAttribute("visibility", "hidden");
      if (start !== null && Math.abs(px(end) - px(start)) > 6) zoom(Math.min(start, end), Math.max(start, end));
    });
    svg.addEventListener("pointercancel", () => { from = null; chosen.setAttribute("visibility", "hidden"); });
    svg.addEventListener("pointerleave", () => { if (from === null) view.point(null); });
    svg.addEventListener("dblclick", () => view.zoom(null));
    svg.addEventListener("blur", () => view.point(null));
    // Arrow keys move along the curve; + and - zoom about that place; 0 shows everything.
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
      if (step) {
        const all = curves[0].points, at = view.at === null ? -1 : all.findIndex(([x]) => x === nearby(view.at));
        view.point(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))][0]);
      } else if (factor && !domain) {
        const middle = view.at ?? (xLow + xHigh) / 2;
        zoom(middle - (middle - xLow) * factor, middle + (xHigh - middle) * factor);
      } else if (event.key === "0" || event.key === "Escape") view.zoom(null);
      else return;
      event.preventDefault();
    });
    function zoom(low, high) {
      const [first, last] = [Math.max(low, whole[0]), Math.min(high, whole[1])];
      if (last - first < NARROWEST * (whole[1] - whole[0])) return;
      view.zoom(first <= whole[0] && last >= whole[1] ? null : [first, last]);
    }
    const named = curves.filter((curve) => !curve.ghost);
    state.legend = named;
    const entries = [...named.map((curve) => h("span", { class: curve.dots ? "dots" : curve.dashed ? "dashed" : "", style: { "--colour": curve.colour } }, curve.name)), ...named.filter((curve) => curve.bandName).map((curve) => h("span", { class: "banded", style: { "--colour": curve.colour } }, curve.bandName))];
    const legend = entries.length > 1 ? h("div", { class: "legend" }, entries) : null;
    const focused = body.contains(document.activeElement);
    clear(body, svg, tip, legend);
    if (focused) svg.focus({ preventScroll: true });
    show();
  }

  view.listen((what) => (what === "range" ? draw() : show()));
  new ResizeObserver(() => {
    const width = Math.round(body.clientWidth);
    if (width && width !== WIDTH) { WIDTH = width; draw(); }
  }).observe(body);
  box.update = (series, label = state.xLabel) => { state.series = series; state.xLabel = label; draw(); };
  return box;
}

function extent(items, value) {
  let low = Infinity, high = -Infinity;
  for (const item of items) { low = Math.min(low, value(item)); high = Math.max(high, value(item)); }
  return [low, high];
}

// The points of a part of the axis, and the next ones on both sides, to which lines lead.
function visible(points, low, high) {
  let first = 0, last = points.length;
  while (first + 1 < points.length && points[first + 1][0] < low) first++;
  while (last > 1 && points[last - 2][0] > high) last--;
  return points.slice(first, last);
}

function spread(curve, x) {
  const at = curve.band.find(([place]) => place === x);
  return at ? ` (${number(at[1], 3)} … ${number(at[2], 3)})` : "";
}

function describe(title, curves, range, label) {
  const part = range ? `, ${label} ${number(range[0])} to ${number(range[1])}` : "";
  const parts = curves.filter((curve) => !curve.ghost).map((curve) => {
    const [first, last] = [curve.points[0], curve.points[curve.points.length - 1]];
    return `${curve.name} from ${number(first[1])} to ${number(last[1])}`;
  });
  return `${title}${part}: ${parts.join("; ")}`;
}
