// The score of runs by each setting in which they differ: small pictures with one dot for each run.

import { ticks } from "./chart.js";
import { clear, h } from "./dom.js";
import { number, setting } from "./format.js";
import { mean } from "./groups.js";
import { differences, isReporting, shortKey } from "./runs.js";
import { saveSvg } from "./save.js";

const HEIGHT = 176, LEFT = 44, RIGHT = 12, TOP = 8, BOTTOM = 28;
const MOST = 8; // settings
const MOST_VALUES = 12; // of a setting that are words
const LETTER = 6.5; // pixels
const isSeed = (key) => /(^|\.)seed$/.test(key);

// runs: of one task and metric. tint(id): the colour of a run.
export function settingCard(runs, tint) {
  const scored = runs.filter((run) => run.best && run.metric === runs[0].metric && run.task === runs[0].task);
  if (scored.length < 3) return null;
  const keys = [...differences(scored).values()].flat().filter((key) => !isReporting(key));
  const settings = keys.map((key) => ({ key, runs: scored.filter((run) => key in run.settings) })).filter(({ key, runs: having }) => having.length > 2 && new Set(having.map((run) => setting(run.settings[key]))).size > 1);
  if (!settings.length) return null;
  const ordered = settings.map((each) => ({ ...each, share: explained(each) })).sort((a, b) => isSeed(a.key) - isSeed(b.key) || b.share - a.share).slice(0, MOST);
  return h("section", { class: "card full" }, h("h2", {}, `Best ${scored[0].metric} by setting`), h("p", { class: "small soft" }, `A dot for each run, a line for the mean; ${scored[0].higher_is_better ? "higher" : "lower"} is better. The setting that goes best with the score comes first. Where runs differ in several settings, this does not say which of them is the cause.`),
    h("div", { class: "views setting-plots" }, ordered.map((each) => plot(each, scored[0].metric, tint))));
}

// The share of the variance of the scores that lies between the values of a setting; few runs with one value each explain nothing.
function explained({ key, runs }) {
  const scores = runs.map((run) => run.best.value), middle = mean(scores), total = scores.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const groups = new Map();
  for (const run of runs) groups.set(setting(run.settings[key]), [...(groups.get(setting(run.settings[key])) || []), run]);
  if (!total || groups.size === runs.length) return 0;
  const spare = runs.length - groups.size; // runs beyond one for each value
  const between = [...groups.values()].reduce((sum, members) => sum + members.length * (mean(members.map((run) => run.best.value)) - middle) ** 2, 0);
  return 1 - ((1 - between / total) * (runs.length - 1)) / spare; // adjusted for the number of values
}

function plot({ key, runs }, metric, tint) {
  const place = h("div"), numeric = runs.every((run) => typeof run.settings[key] === "number");
  const values = [...new Set(runs.map((run) => (numeric ? run.settings[key] : setting(run.settings[key]))))].sort((a, b) => (numeric ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }))).slice(0, numeric ? Infinity : MOST_VALUES);
  const logarithmic = numeric && values[0] > 0 && values.at(-1) / values[0] >= 8, scale = logarithmic ? Math.log : (value) => value;
  const scores = runs.map((run) => run.best.value), room = (Math.max(...scores) - Math.min(...scores)) * 0.08 || Math.abs(scores[0]) * 0.1 || 1, low = Math.min(...scores) - room, high = Math.max(...scores) + room;
  let svg = null, WIDTH = 0;
  function draw() {
    const inner = WIDTH - LEFT - RIGHT - 24;
    const x = (value) => LEFT + 12 + inner * (numeric ? (scale(value) - scale(values[0])) / (scale(values.at(-1)) - scale(values[0])) : (values.indexOf(value) + 0.5) / values.length);
    const y = (score) => HEIGHT - BOTTOM - ((score - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    svg = h("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": `${metric} by ${key}: ${values.map((value) => `${value}: ${number(mean(at(value).map((run) => run.best.value)), 3)}`).join(", ")}` });
    for (const tick of ticks(low, high, 3)) svg.append(h("svg:line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }), h("svg:text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, number(tick, 3)));
    let end = -Infinity;
    values.forEach((value, index) => {
      const text = numeric ? number(value, 3) : value === '""' ? "none" : String(value), size = Math.min(text.length * LETTER, inner / (numeric ? 1 : values.length)), from = x(value) - size / 2;
      const means = mean(at(value).map((run) => run.best.value));
      svg.append(h("svg:line", { x1: x(value) - 10, x2: x(value) + 10, y1: y(means), y2: y(means), stroke: "var(--faint)", "stroke-width": 2 }));
      if (from < end + 6 && index) return;
      end = from + size;
      svg.append(h("svg:text", { x: Math.max(LEFT, Math.min(WIDTH - RIGHT, x(value))), y: HEIGHT - 8, "text-anchor": "middle" }, text.length * LETTER > size + 1 ? `${text.slice(0, Math.max(1, Math.floor(size / LETTER) - 1))}…` : text));
    });
    for (const run of runs) {
      const value = numeric ? run.settings[key] : setting(run.settings[key]);
      if (!values.includes(value)) continue;
      svg.append(h("svg:circle", { cx: x(value), cy: y(run.best.value), r: 4.5, fill: tint(run.id), stroke: "var(--ground)", "stroke-width": 1 }, h("svg:title", {}, `${run.id}: ${key} = ${setting(run.settings[key])}, ${metric} ${number(run.best.value)}`)));
    }
    clear(place, svg);
  }
  const at = (value) => runs.filter((run) => (numeric ? run.settings[key] : setting(run.settings[key])) === value);
  new ResizeObserver(() => { const width = Math.round(place.clientWidth); if (width && width !== WIDTH) { WIDTH = width; draw(); } }).observe(place);
  const save = h("button", { type: "button", class: "save", "aria-label": `Save ${metric} by ${key} as SVG`, onclick: () => saveSvg(svg, `${metric} by ${key}`) }, "SVG");
  return h("section", { class: "view chart" }, h("div", { class: "tools" }, h("h3", { title: key }, shortKey(key)), save), place);
}
