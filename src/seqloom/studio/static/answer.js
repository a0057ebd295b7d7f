// A prediction as people read it, whatever the task.

import { h } from "./dom.js";
import { number, percent } from "./format.js";

const SHOWN = 8;

export function showAnswer(prediction) {
  const parts = [];
  if (prediction.labels && prediction.words) parts.push(tagged(prediction));
  else if (prediction.label !== undefined) parts.push(h("p", { class: "answer" }, String(prediction.label)));
  if (prediction.probabilities && !Array.isArray(prediction.probabilities)) parts.push(meter(prediction.probabilities));
  if (typeof prediction.text === "string") parts.push(h("p", { class: "answer" }, prediction.text || h("span", { class: "faint" }, "(empty)")));
  if (prediction.nbest?.length > 1) parts.push(nbest(prediction.nbest));
  if (prediction.perplexity !== undefined) parts.push(h("p", { class: "answer" }, `perplexity ${number(prediction.perplexity)}`), h("p", { class: "soft" }, `log-probability ${number(prediction.log_probability)}`));
  if (prediction.columns && prediction.values) parts.push(forecast(prediction));
  if (prediction.value !== undefined) parts.push(h("p", { class: "answer" }, [prediction.value].flat().map((value) => number(value)).join(", ")));
  if (prediction.neighbours) parts.push(meter(Object.fromEntries(prediction.neighbours.map((item) => [item.word ?? item[0], item.similarity ?? item[1]]))));
  if (prediction.warning) parts.push(h("p", { class: "note" }, prediction.warning));
  if (!parts.length) parts.push(h("pre", {}, JSON.stringify(prediction, null, 2)));
  return h("div", {}, parts);
}

export function meter(values) {
  const entries = Object.entries(values).sort((a, b) => b[1] - a[1]);
  const rows = entries.slice(0, SHOWN).flatMap(([name, value]) => [
    h("span", {}, name),
    h("div", { role: "img", "aria-label": `${name} ${percent(value)}` }, h("i", { style: { width: `${Math.max(0, Math.min(1, value)) * 100}%` } })),
    h("span", { class: "number small" }, percent(value)),
  ]);
  return h("div", {}, h("div", { class: "meter" }, rows), entries.length > SHOWN ? h("p", { class: "faint small" }, `and ${entries.length - SHOWN} more`) : null);
}

function tagged({ words, labels, probabilities }) {
  return h("div", { class: "strip" }, words.map((word, index) => h("span", { class: "token", title: Array.isArray(probabilities) ? percent(probabilities[index]) : "" }, word, h("small", {}, labels[index]))));
}

function nbest(candidates) {
  return h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, ["", "answer", "score"].map((name) => h("th", {}, name)))),
    h("tbody", {}, candidates.map((candidate, index) => h("tr", {}, h("td", { class: "faint" }, String(index + 1)), h("td", {}, candidate.text), h("td", { class: "number" }, number(candidate.score)))))));
}

function forecast({ columns, values, times = [] }) {
  return h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, times.length ? "time" : "step"), columns.map((name) => h("th", {}, name)))),
    h("tbody", {}, values.map((row, index) => h("tr", {}, h("td", { class: "soft" }, times[index] ?? String(index + 1)), row.map((value) => h("td", { class: "number" }, number(value))))))));
}
