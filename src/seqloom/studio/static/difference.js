// What an edit of the input changes: the answer, what mattered, and the hidden states, before and after.

import { showAnswer } from "./answer.js";
import { saveBoxesButton } from "./boxes.js";
import { h } from "./dom.js";
import { number, percent } from "./format.js";
import { heatmap, shadeCss } from "./heatmap.js";
import { layerName } from "./states.js";
import { visible } from "./strip.js";

const MOST = 600; // elements that are aligned
const SHOWN = 8; // labels

// Pairs [i, j] of two lists in order: equal elements together, others with null. Replaced ones stand together.
export function align(before, after) {
  const rows = before.length, columns = after.length, lengths = Array.from({ length: rows + 1 }, () => new Uint16Array(columns + 1));
  for (let i = rows - 1; i >= 0; i--) for (let j = columns - 1; j >= 0; j--) {
    lengths[i][j] = before[i] === after[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const pairs = [];
  let i = 0, j = 0, left = [], right = [];
  const flush = () => {
    for (let place = 0; place < Math.max(left.length, right.length); place++) pairs.push([left[place] ?? null, right[place] ?? null]);
    left = []; right = [];
  };
  while (i < rows || j < columns) {
    if (i < rows && j < columns && before[i] === after[j]) { flush(); pairs.push([i++, j++]); }
    else if (j >= columns || (i < rows && lengths[i + 1][j] >= lengths[i][j + 1])) left.push(i++);
    else right.push(j++);
  }
  flush();
  return pairs;
}

// What to explain of the text before an edit, so that it can be compared: the same label at the same word.
export function sameTarget(tokens, after) {
  const { attribution } = after.explanation;
  if (!attribution?.target || attribution.is_number) return {};
  if (!attribution.position) return { target: attribution.target };
  const pair = Math.max(tokens.length, after.tokens.length) > MOST ? null : align(tokens, after.tokens).find(([, j]) => j === attribution.position - 1);
  return pair && pair[0] !== null ? { target: attribution.target, word: pair[0] + 1 } : {};
}

// before, after: {content, values} of /api/inside for two texts.
export function differenceCard(before, after, close) {
  const box = h("section", { class: "card full", id: "difference" },
    h("div", { class: "tools" }, h("h2", {}, "What the edit changes"), h("button", { type: "button", class: "save never", onclick: close }, "Close")));
  if (before.content.text === after.content.text) {
    box.append(h("p", { class: "soft" }, "This text is kept as “before”. Edit it above, one word or one letter: the answers before and after appear side by side, with what changed."));
    return box;
  }
  const sides = [before.content, after.content];
  const lists = sides.map(tokensOf);
  const pairs = lists.every((list) => list.length && list.length <= MOST) ? align(...lists) : [];
  box.append(h("p", {}, h("b", {}, verdict(sides, pairs))),
    h("div", { class: "two" }, sides.map((content, side) => h("div", {}, h("h3", {}, side ? "After" : "Before"), h("p", { class: "soft" }, markedText(sides, side)), answer(sides, side)))));
  const changes = labelChanges(sides);
  if (changes) box.append(changes);
  if (pairs.length) box.append(tokenTable(sides, lists, pairs));
  const reach = stateChanges(before, after, lists, pairs);
  if (reach) box.append(reach);
  return box;
}

function tokensOf(content) {
  const named = content.explanation.attribution?.tokens;
  return named?.length ? named : content.tokens;
}

// In one sentence.
function verdict(sides, pairs) {
  const [before, after] = sides.map((content) => content.explanation.prediction);
  if (before.labels && after.labels && pairs.length) {
    const same = pairs.filter(([i, j]) => i !== null && j !== null);
    const changed = same.filter(([i, j]) => before.labels[i] !== after.labels[j]).length;
    return changed ? `${changed} of ${same.length} labels ${changed === 1 ? "changes" : "change"}.` : "No label changes.";
  }
  if (before.label !== undefined) return before.label === after.label ? `The answer stays ${after.label}.` : `The answer changes from ${before.label} to ${after.label}.`;
  if (typeof before.text === "string") return before.text === after.text ? "The answer stays the same." : "The answer changes.";
  if (before.perplexity !== undefined) return `The perplexity ${after.perplexity < before.perplexity ? "falls" : "rises"} from ${number(before.perplexity)} to ${number(after.perplexity)}: the text becomes ${after.perplexity < before.perplexity ? "less" : "more"} surprising.`;
  if (typeof before.value === "number") return `The answer changes from ${number(before.value)} to ${number(after.value)}.`;
  return "Both answers:";
}

// A generated text with its changes marked; other answers as they are shown elsewhere. Labels stand in the table of tokens.
function answer(sides, side) {
  const predictions = sides.map((content) => content.explanation.prediction);
  if (predictions[side].labels) return null;
  if (predictions.every((each) => typeof each.text === "string") && !predictions[side].label) return h("p", { class: "answer" }, marked(predictions.map((each) => each.text), side));
  const { probabilities, ...rest } = predictions[side];
  return showAnswer(Array.isArray(probabilities) || rest.label === undefined ? predictions[side] : rest);
}

function markedText(sides, side) {
  return marked(sides.map((content) => content.text), side);
}

function marked(texts, side) {
  const lists = texts.every((text) => text.length <= MOST) && texts.some((text) => !text.includes(" ")) ? texts.map((text) => [...text]) : texts.map((text) => text.split(/(?<=\s)/));
  if (lists.some((list) => list.length > MOST)) return texts[side];
  const words = lists.map((list) => list.map((text) => text.trim() || text)); // a space behind a word is no change of it
  return align(...words).filter((pair) => pair[side] !== null).map(([i, j]) => {
    const text = side ? lists[1][j] : lists[0][i];
    return i !== null && j !== null && words[0][i] === words[1][j] ? text : h("mark", {}, text);
  });
}

// The probabilities of a classifier, those that change most first.
function labelChanges(sides) {
  const [before, after] = sides.map((content) => content.explanation.prediction.probabilities);
  if (!before || Array.isArray(before) || !after) return null;
  const labels = Object.keys(after).sort((a, b) => Math.abs(after[b] - before[b]) - Math.abs(after[a] - before[a])).slice(0, SHOWN);
  const bar = (value, name) => h("td", {}, h("div", { class: "meter-bar", role: "img", "aria-label": `${name} ${percent(value)}` }, h("i", { style: { width: `${100 * value}%` } })), h("span", { class: "small" }, percent(value)));
  const table = h("div", { class: "table changes" }, h("table", {}, h("thead", {}, h("tr", {}, ["label", "before", "after", "change"].map((name) => h("th", { class: name === "change" ? "number" : "" }, name)))),
    h("tbody", {}, labels.map((label) => h("tr", {}, h("td", {}, label), bar(before[label] ?? 0, "before"), bar(after[label], "after"),
      h("td", { class: "number" }, signed(100 * (after[label] - (before[label] ?? 0)), 1), " points"))))));
  return h("div", {}, h("div", { class: "tools" }, h("h3", {}, "Probabilities of the labels, those that change most first"), saveBoxesButton("the change of the probabilities", () => table)), table);
}

function signed(value, digits) {
  const text = value.toFixed(digits);
  return `${value > 0 ? "+" : value < 0 ? "−" : ""}${text.replace("-", "")}`;
}

// Tokens before and after, one below the other, with their scores and labels.
function tokenTable(sides, lists, pairs) {
  const scores = sides.map(({ explanation }) => (typeof explanation.attribution?.values?.[0] === "number" ? explanation.attribution.values : null));
  const values = sides.map(({ explanation }, side) => (explanation.token_values?.values.length === lists[side].length ? explanation.token_values.values : null));
  const labels = sides.map(({ explanation }, side) => (explanation.prediction.labels?.length === lists[side].length ? explanation.prediction.labels : null));
  const comparable = new Set(sides.map(({ explanation }) => explanation.attribution?.target)).size === 1;
  const shown = scores.every(Boolean) && comparable ? scores : values.every(Boolean) ? values : null;
  const extreme = shown ? shown.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12) : 1;
  const cell = (side, place, other) => {
    if (place === null) return h("td", { class: "faint" }, "–");
    const edited = other === null || lists[0][side ? other : place] !== lists[1][side ? place : other];
    const strength = shown ? shown[side][place] / extreme : 0;
    return h("td", { class: Math.abs(strength) > 0.7 ? "strong" : "", style: shown ? { background: shadeCss(strength * 0.8) } : {} }, edited ? h("mark", { class: "edit" }, visible(lists[side][place])) : visible(lists[side][place]), shown ? h("small", {}, number(shown[side][place], 2)) : null);
  };
  const row = (name, cells) => h("tr", {}, h("th", { scope: "row" }, name), cells);
  const label = (side) => pairs.map((pair) => {
    const place = pair[side], other = pair[1 - side];
    const changed = place !== null && other !== null && labels[side][place] !== labels[1 - side][other];
    return h("td", { class: "small" }, place === null ? "" : changed ? h("b", {}, h("mark", {}, labels[side][place])) : labels[side][place]);
  });
  const { attribution } = sides[1].explanation;
  const about = shown === scores ? `How much each token mattered for ${attribution.target || "the answer"}${attribution.word ? ` at “${attribution.word}”` : ""}` : values.every(Boolean) ? sides[1].explanation.token_values.label : "The tokens";
  const table = h("div", { class: "table aligned-tokens", tabindex: 0, role: "region", "aria-label": "Tokens before and after" }, h("table", {}, h("tbody", {},
    row("before", pairs.map(([i, j]) => cell(0, i, j))), labels.every(Boolean) ? row("", label(0)) : null,
    row("after", pairs.map(([i, j]) => cell(1, j, i))), labels.every(Boolean) ? row("", label(1)) : null,
    shown ? row("change", pairs.map(([i, j]) => h("td", { class: "small" }, i === null || j === null ? "" : signed(shown[1][j] - shown[0][i], 2)))) : null)));
  return h("div", {}, h("div", { class: "tools" }, h("h3", {}, `${about}, before and after; edited tokens are underlined`), saveBoxesButton("the tokens before and after", () => table)), table);
}

// How different the hidden states are at each token that both texts have: how long the edit is remembered.
function stateChanges(before, after, lists, pairs) {
  const same = pairs.filter(([i, j]) => i !== null && j !== null);
  const rows = [];
  for (const layer of after.content.layers) {
    const other = before.content.layers.find((each) => each.name === layer.name);
    const part = layer.parts.find((each) => each.kind === "state"), first = other?.parts.find((each) => each.kind === "state");
    if (!first || layer.steps !== lists[1].length || other.steps !== lists[0].length || first.units !== part.units) continue;
    const at = (side, each, steps, column) => Float32Array.from({ length: each.units }, (_, unit) => side.values[each.start + unit * steps + column]);
    rows.push([layerName(layer.name), same.map(([i, j]) => {
      const a = at(before, first, other.steps, i), b = at(after, part, layer.steps, j);
      const norm = (vector) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
      return norm(a.map((value, unit) => value - b[unit])) / (norm(a) + norm(b) || 1);
    })]);
  }
  if (!rows.length || !same.length) return null;
  return h("div", {}, heatmap({ title: "How much the hidden states change", values: rows.flatMap(([, values]) => values), rows: rows.length, columns: same.length, limits: [0, Math.max(0.05, ...rows.flatMap(([, values]) => values))],
    rowName: (row) => rows[row][0], rowTicks: (row) => rows[row][0], columnName: (column) => visible(lists[1][same[column][1]]), height: Math.max(24, rows.length * 20) }),
    h("p", { class: "small soft" }, "At the tokens that both texts have: ‖after − before‖ / (‖after‖ + ‖before‖), from 0 (the same state) to 1. It shows how far the edit is remembered."));
}
