// The mean score of parts of the dev data, as bars that can be chosen: by length, by label, by answer, or by a word.

import { moveByKeys } from "./confusion.js";
import { clear, h } from "./dom.js";
import { number } from "./format.js";
import { deviation, mean } from "./groups.js";
import { saveSvg } from "./save.js";
import { ticks } from "./chart.js";

const BINS = 8, MOST_LABELS = 12; // bars
const FEWEST = 10; // examples
const LETTER = 6; // pixels
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

// The words of a text, in lowercase, each once.
export function wordsOf(row) {
  row.words ??= new Set(row.input.toLowerCase().split(/[\s,;:.!?"()]+/).filter(Boolean));
  return row.words;
}

// The words whose examples have scores that are farthest on the bad side of the others, by Welch's t.
export function worstWords(rows, higher, most = BINS) {
  const scored = rows.filter((row) => row.score !== null), counts = new Map(), fewest = Math.max(5, Math.min(FEWEST, Math.ceil(scored.length / 50)));
  for (const row of scored) for (const word of wordsOf(row)) counts.set(word, (counts.get(word) || 0) + 1);
  const facts = [...counts].filter(([, count]) => count >= fewest && count <= scored.length - fewest).map(([word]) => {
    const sides = [true, false].map((has) => scored.filter((row) => wordsOf(row).has(word) === has).map((row) => row.score));
    const [gap, error] = [mean(sides[0]) - mean(sides[1]), Math.sqrt(sides.reduce((sum, side) => sum + (deviation(side) ** 2 || 0) / side.length, 0))];
    return { word, t: (higher ? -1 : 1) * (gap / (error || Infinity)) };
  });
  return facts.sort((a, b) => b.t - a.t || a.word.localeCompare(b.word)).slice(0, most).filter(({ t }) => t > 0).map(({ word }) => word);
}

function withScore(slices) {
  return slices.map((slice) => ({ ...slice, count: slice.rows.length, score: mean(slice.rows.map((row) => row.score).filter((value) => value !== null)) })).filter((slice) => slice.score !== null);
}

// The ways in which rows can be cut: [{name, title, unit, note, total?, slices(most)}]; a slice is {name, rows, filter}.
export function features({ rows, single, higher, length_unit: unit, isText }) {
  const byLabel = (name) => (most) => {
    const groups = new Map();
    for (const row of rows) groups.set(row[name], [...(groups.get(row[name]) || []), row]);
    return [...groups].map(([label, members]) => ({ name: label || "∅", rows: members, filter: name === "target" ? { label, predicted: "" } : { label: "", predicted: label } })).sort((a, b) => b.rows.length - a.rows.length).slice(0, Math.min(most, MOST_LABELS)).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  };
  const all = [{ name: "length", title: "length", unit, note: "Bins of about the same number of examples.", slices: (most) => lengthBins(rows, Math.min(most, BINS)).map(([low, high]) => ({ name: low === high ? number(low, 3) : `${number(low, 3)}–${number(high, 3)}`, rows: rows.filter((row) => row.length >= low && row.length <= high), filter: { length: [low, high] } })) }];
  if (single) for (const [name, title, unit, key] of [["label", "label", "label of the data", "target"], ["answer", "answer", "answer", "answer"]]) all.push({ name, title, unit, note: "", total: new Set(rows.map((row) => row[key])).size, slices: byLabel(key) });
  if (isText) {
    let worst = null;
    all.push({ name: "word", title: "word", unit: "examples with this word", note: "The words with which the scores are worst, compared with the other examples (Welch's t); of many words, some are here by chance. Type a word into the filter to see any other." + (rows.some((row) => row.input.endsWith("…")) ? " Of long inputs, only the part that the table shows is searched." : ""), slices: (most) => (worst ??= worstWords(rows, higher)).slice(0, Math.min(most, BINS)).map((word) => ({ name: word, rows: rows.filter((row) => wordsOf(row).has(word)), filter: { word } })) });
  }
  return all.filter((feature) => withScore(feature.slices(2)).length > 1);
}

// by: the name of a feature. chosen: the filters of the page. choose(filter), change(by): something was chosen.
export function sliceCard({ offered, metric, by, chosen, choose, change }) {
  if (!offered.length) return null;
  const feature = offered.find(({ name }) => name === by) || offered[0];
  const isChosen = ({ filter }) => Object.values(filter).some(Boolean) && Object.entries(filter).every(([key, value]) => String(chosen[key] || "") === String(value || ""));
  let svg = null, WIDTH = lastWidth;
  const place = h("div"), remark = h("p", { class: "small soft" });
  function draw() {
    const bins = withScore(feature.slices(Math.max(2, Math.floor(WIDTH / 60))));
    const scores = bins.map((bin) => bin.score), highest = Math.max(...scores), top = highest <= 1 && Math.min(...scores) >= 0 ? 1 : highest * 1.08, lowest = Math.min(0, ...scores);
    const y = (value) => HEIGHT - BOTTOM - ((value - lowest) / (top - lowest || 1)) * (HEIGHT - BOTTOM - TOP), step = (WIDTH - LEFT) / bins.length;
    svg = h("svg:svg", { class: "slices", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `Mean ${metric} by ${feature.title}; arrow keys move, Enter chooses` });
    for (const tick of ticks(lowest, top, 4)) svg.append(h("svg:line", { class: "axis", x1: LEFT, x2: WIDTH, y1: y(tick), y2: y(tick) }), h("svg:text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, number(tick, 3)));
    const bars = bins.map((bin, index) => {
      const current = isChosen(bin), room = Math.floor((step - 4) / LETTER), name = bin.name.length > room ? `${bin.name.slice(0, Math.max(1, room - 1))}…` : bin.name;
      const label = `${bin.name}${feature.name === "length" ? ` ${feature.unit}` : ""}: mean ${metric} ${number(bin.score, 3)}, ${number(bin.count)} ${bin.count === 1 ? "example" : "examples"}`;
      const bar = h("svg:g", { class: "bar-mark", role: "button", tabindex: -1, "aria-label": label, "aria-pressed": String(current), onclick: () => choose(current ? Object.fromEntries(Object.keys(bin.filter).map((key) => [key, key === "length" ? null : ""])) : bin.filter) },
        h("svg:title", {}, label), h("svg:rect", { x: LEFT + step * index, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM, fill: "transparent" }),
        h("svg:rect", { class: "fill", x: LEFT + step * index + 4, y: Math.min(y(bin.score), y(0)), width: Math.max(1, step - 8), height: Math.max(1, Math.abs(y(0) - y(bin.score))), rx: 3, fill: "var(--accent)" }),
        h("svg:text", { x: LEFT + step * (index + 0.5), y: Math.min(y(bin.score), y(0)) - 5, "text-anchor": "middle" }, number(bin.score, 2)),
        h("svg:text", { x: LEFT + step * (index + 0.5), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, name));
      svg.append(bar);
      return bar;
    });
    svg.append(h("svg:text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, feature.unit));
    moveByKeys(svg, [bars]);
    clear(place, svg);
    clear(remark, [feature.total > bins.length ? `The ${bins.length} most frequent of ${feature.total}. ` : "", feature.note ? `${feature.note} ` : ""].join(""), h("span", { class: "never" }, "Choose a bar to see its examples."));
  }
  new ResizeObserver(() => {
    const width = Math.min(720, Math.round(place.clientWidth));
    if (width && width !== WIDTH) { WIDTH = lastWidth = width; draw(); }
  }).observe(place);
  draw();
  const select = h("select", { "aria-label": "Slices of the dev data", onchange: () => change(select.value) }, offered.map(({ name, title }) => h("option", { value: name, selected: name === feature.name }, `by ${title}`)));
  const save = h("button", { type: "button", class: "save", "aria-label": `Save the scores by ${feature.title} as SVG`, onclick: () => saveSvg(svg, `${metric} by ${feature.title}`) }, "SVG");
  return h("section", { class: "card chart" }, h("div", { class: "tools" }, h("div", { class: "tools start grow" }, h("h2", {}, `Mean ${metric}`), offered.length > 1 ? select : h("span", { class: "soft" }, `by ${feature.title}`)), save), place, remark);
}
