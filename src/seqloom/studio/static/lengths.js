// The mean score of examples by the length of their inputs, as bars that can be chosen.

import { moveByKeys } from "./confusion.js";
import { clear, h } from "./dom.js";
import { number } from "./format.js";
import { mean } from "./groups.js";
import { saveSvg } from "./save.js";
import { ticks } from "./chart.js";

const BINS = 8, FEWEST = 10; // examples
let lastWidth = 480; // pixels
const HEIGHT = 200, LEFT = 48, BOTTOM = 44, TOP = 20;

// Bins with about the same number of examples: [[shortest, longest]].
export function lengthBins(rows, most = BINS) {
  const lengths = rows.map((row) => row.length).sort((a, b) => a - b);
  const count = Math.max(1, Math.min(most, Math.floor(lengths.length / FEWEST))), bins = [];
  for (let index = 0; index < count; index++) {
    const end = lengths[Math.ceil(((index + 1) / count) * lengths.length) - 1];
    if (bins.length && end <= bins.at(-1)[1]) continue;
    bins.push([bins.length ? lengths.find((length) => length > bins.at(-1)[1]) : lengths[0], end]);
  }
  return bins;
}

// chosen: [shortest, longest] or null; choose(bin): null for all lengths.
export function lengthCard({ rows, metric, unit, chosen, choose }) {
  const scored = (most) => lengthBins(rows, most).map(([low, high]) => {
    const inside = rows.filter((row) => row.length >= low && row.length <= high);
    return { low, high, count: inside.length, score: mean(inside.map((row) => row.score).filter((value) => value !== null)) };
  }).filter((bin) => bin.score !== null);
  if (scored(2).length < 2) return null;
  let svg = null, WIDTH = lastWidth;
  const place = h("div");
  function draw() {
    const bins = scored(Math.max(2, Math.min(BINS, Math.floor(WIDTH / 64))));
    const highest = Math.max(...bins.map((bin) => bin.score)), top = highest <= 1 && Math.min(...bins.map((bin) => bin.score)) >= 0 ? 1 : highest * 1.08, lowest = Math.min(0, ...bins.map((bin) => bin.score));
    const y = (value) => HEIGHT - BOTTOM - ((value - lowest) / (top - lowest || 1)) * (HEIGHT - BOTTOM - TOP), step = (WIDTH - LEFT) / bins.length;
    svg = h("svg:svg", { class: "lengths", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `Mean ${metric} by length; arrow keys move, Enter chooses` });
    for (const tick of ticks(lowest, top, 4)) svg.append(h("svg:line", { class: "axis", x1: LEFT, x2: WIDTH, y1: y(tick), y2: y(tick) }), h("svg:text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, number(tick, 3)));
    const bars = bins.map((bin, index) => {
      const name = bin.low === bin.high ? number(bin.low, 3) : `${number(bin.low, 3)}–${number(bin.high, 3)}`, current = chosen && chosen[0] === bin.low && chosen[1] === bin.high;
      const label = `${name} ${unit}: mean ${metric} ${number(bin.score, 3)}, ${number(bin.count)} examples`;
      const bar = h("svg:g", { class: "bar-mark", role: "button", tabindex: -1, "aria-label": label, "aria-pressed": String(Boolean(current)), onclick: () => choose(current ? null : [bin.low, bin.high]) },
        h("svg:title", {}, label), h("svg:rect", { x: LEFT + step * index, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM, fill: "transparent" }),
        h("svg:rect", { class: "fill", x: LEFT + step * index + 4, y: Math.min(y(bin.score), y(0)), width: step - 8, height: Math.max(1, Math.abs(y(0) - y(bin.score))), rx: 3, fill: "var(--accent)" }),
        h("svg:text", { x: LEFT + step * (index + 0.5), y: Math.min(y(bin.score), y(0)) - 5, "text-anchor": "middle" }, number(bin.score, 2)),
        h("svg:text", { x: LEFT + step * (index + 0.5), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, name));
      svg.append(bar);
      return bar;
    });
    svg.append(h("svg:text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, unit));
    moveByKeys(svg, [bars]);
    clear(place, svg);
  }
  new ResizeObserver(() => {
    const width = Math.min(720, Math.round(place.clientWidth));
    if (width && width !== WIDTH) { WIDTH = lastWidth = width; draw(); }
  }).observe(place);
  draw();
  const save = h("button", { type: "button", class: "save", "aria-label": "Save the scores by length as SVG", onclick: () => saveSvg(svg, `${metric} by length`) }, "SVG");
  return h("section", { class: "card chart" }, h("div", { class: "tools" }, h("h2", {}, `Mean ${metric} by length`), save), place, h("p", { class: "small soft" }, "Bins of about the same number of examples. Choose one to see them."));
}
