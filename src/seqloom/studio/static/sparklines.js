// Curves without axes: one in each row of a table, and all of them as one picture.

import { h } from "./dom.js";
import { number } from "./format.js";
import { saveSvg } from "./save.js";

const WIDTH = 96, HEIGHT = 24;
const MOST = 60, COLUMNS = 4, CELL = [200, 76]; // of the picture: curves, side by side, and the size of each in pixels

// band: [[low, high]] of each value; stroke: its colour.
export function sparkline(values, { band = [], stroke = "var(--accent)" } = {}) {
  return h("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" }, parts(values, band, stroke));
}

function parts(values, band, stroke) {
  const points = values.map((value, index) => [index, value]).filter(([, value]) => value !== null);
  if (points.length === 1) return [h("svg:circle", { cx: 94, cy: 12, r: 2, fill: stroke })];
  if (points.length < 2) return [];
  const all = [...points.map(([, y]) => y), ...band.flat()], low = Math.min(...all), high = Math.max(...all);
  const place = (x, y) => `${(2 + (x / (values.length - 1)) * 92).toFixed(1)} ${(21 - ((y - low) / (high - low || 1)) * 18).toFixed(1)}`;
  return [
    band.length ? h("svg:path", { d: `M${[...band.map(([, top], x) => place(x, top)), ...band.map(([bottom], x) => place(x, bottom)).reverse()].join("L")}Z`, fill: stroke, opacity: 0.2 }) : null,
    h("svg:path", { d: `M${points.map(([x, y]) => place(x, y)).join("L")}`, fill: "none", stroke, "stroke-width": 1.5 }),
  ];
}

// The curves of the first runs or groups, each with its name and its best score. tint(run): its colour.
export function saveSparklines(runs, tint) {
  const shown = runs.filter((run) => run.curve?.length).slice(0, MOST), columns = Math.min(COLUMNS, shown.length || 1);
  const svg = h("svg:svg", { viewBox: `0 0 ${columns * CELL[0]} ${Math.ceil(shown.length / columns) * CELL[1] + 8}` });
  shown.forEach((run, index) => {
    const name = run.title || run.id, text = { x: 12, fill: "var(--ink)", "font-size": 12, "font-family": "system-ui, sans-serif" };
    svg.append(h("svg:g", { transform: `translate(${(index % columns) * CELL[0]} ${Math.floor(index / columns) * CELL[1]})` },
      h("svg:text", { ...text, y: 14, "font-weight": 600 }, name.length > 26 ? `${name.slice(0, 25)}…` : name),
      h("svg:text", { ...text, y: 30, fill: "var(--soft)" }, run.best ? `best ${run.metric} ${number(run.best.value)}` : "no evaluation"),
      h("svg:g", { transform: "translate(10 38) scale(1.5 1)" }, parts(run.curve, run.band || [], tint(run)))));
  });
  document.body.append(svg); // its colours are those of the page
  saveSvg(svg, runs.length > shown.length ? `curves of ${shown.length} of ${runs.length} runs` : "curves");
  svg.remove();
}
