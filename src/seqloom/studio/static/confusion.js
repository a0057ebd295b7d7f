// Which labels a model confuses: a matrix whose cells can be chosen.

import { h } from "./dom.js";
import { number, percent } from "./format.js";
import { shadeCss } from "./heatmap.js";
import { saveSvg } from "./save.js";

const CELL = 26, MARGIN = 8, LETTER = 7.8; // pixels; the last one is the width of a letter, about
const MOST = 24; // labels
const LONGEST = 18; // letters of a label
const LISTED = 8; // errors in words

// pairs: [{label, predicted, count}]. chosen: {label, predicted}; empty texts: any. choose({label, predicted}): a cell, a row or a column was chosen.
export function confusionCard({ labels, pairs, chosen, choose }) {
  const shown = mostConfused(labels, pairs).sort((a, b) => a.localeCompare(b, "en", { numeric: true })), row = new Map(shown.map((label, index) => [label, index]));
  const totals = new Map();
  for (const pair of pairs) totals.set(pair.label, (totals.get(pair.label) || 0) + pair.count);
  const longest = Math.max(...shown.map((label) => Math.min(LONGEST, label.length)));
  const left = MARGIN + LETTER * longest + 8, TOP = MARGIN + 8 + 0.71 * LETTER * longest + 8;
  const width = left + CELL * shown.length + 0.7 * (left - MARGIN), height = TOP + CELL * shown.length + MARGIN;
  const svg = h("svg:svg", { class: "confusion", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": describe(pairs) });
  const cells = [];
  const add = (element, label, choice) => {
    const current = choice.label === chosen.label && choice.predicted === chosen.predicted;
    for (const [name, value] of Object.entries({ role: "button", tabindex: -1, "aria-label": label, "aria-pressed": String(current) })) element.setAttribute(name, value);
    element.append(h("svg:title", {}, label));
    element.addEventListener("click", () => choose(current ? { label: "", predicted: "" } : choice));
    svg.append(element);
    return element;
  };
  const place = (index) => index * CELL;
  const text = (attributes, label) => h("svg:text", attributes, label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label || "∅");
  const rows = shown.map((label, index) => add(h("svg:g", { class: "name" }, text({ x: left - 8, y: TOP + place(index) + CELL / 2 + 4, "text-anchor": "end" }, label)), `${label}: ${number(totals.get(label) || 0)} in the dev data`, { label, predicted: "" }));
  const columns = shown.map((label, index) => {
    const x = left + place(index) + CELL / 2 + 4;
    return add(h("svg:g", { class: "name" }, text({ x, y: TOP - 8, transform: `rotate(-45 ${x} ${TOP - 8})` }, label)), `${label} as the answer`, { label: "", predicted: label });
  });
  const counts = new Map(pairs.map((pair) => [`${row.get(pair.label)} ${row.get(pair.predicted)}`, pair.count]));
  shown.forEach((label, y) => {
    cells.push(shown.map((predicted, x) => {
      const count = counts.get(`${y} ${x}`) || 0, share = count / (totals.get(label) || 1);
      const cell = h("svg:g", { class: "cell" },
        h("svg:rect", { x: left + place(x), y: TOP + place(y), width: CELL - 2, height: CELL - 2, rx: 3, fill: count ? shadeCss((x === y ? 1 : -1) * (0.12 + 0.88 * share)) : "var(--raised)" }),
        count ? h("svg:text", { x: left + place(x) + CELL / 2 - 1, y: TOP + place(y) + CELL / 2 + 3, "text-anchor": "middle", class: share > 0.55 ? "count strong" : "count" }, count > 9999 ? `${Math.round(count / 1000)}k` : String(count)) : null);
      return add(cell, `${label} answered as ${predicted}: ${number(count)} (${percent(share)} of ${label})`, { label, predicted });
    }));
  });
  const grid = [[null, ...columns], ...cells.map((list, index) => [rows[index], ...list])];
  moveByKeys(svg, grid);
  const save = h("button", { type: "button", class: "save", "aria-label": "Save the confusion matrix as SVG", onclick: () => saveSvg(svg, "confusion matrix") }, "SVG");
  return h("section", { class: "card" }, h("div", { class: "tools" }, h("h2", {}, "Which labels are confused"), save), h("div", { class: "scrolled" }, svg),
    h("p", { class: "small soft" }, h("span", { class: "key positive" }, "right"), h("span", { class: "key negative" }, "wrong"), "as a share of the row. Rows: labels of the data. Columns: answers.", h("span", { class: "never" }, " Choose a cell, a row or a column to see its examples.")),
    shown.length < labels.length ? h("p", { class: "small soft" }, `The ${shown.length} labels with most errors, of ${labels.length}.`) : null);
}

// The labels of the matrix, the most frequent first; of many, those with most errors.
function mostConfused(labels, pairs) {
  if (labels.length <= MOST) return [...labels];
  const errors = new Map(labels.map((label) => [label, 0]));
  for (const { label, predicted, count } of pairs) if (label !== predicted) for (const each of [label, predicted]) errors.set(each, errors.get(each) + count);
  const kept = new Set([...labels].sort((a, b) => errors.get(b) - errors.get(a)).slice(0, MOST));
  return labels.filter((label) => kept.has(label));
}

function wrongPairs(pairs) {
  return pairs.filter((pair) => pair.label !== pair.predicted).sort((a, b) => b.count - a.count);
}

// The same in words.
export function errorsCard({ pairs, chosen, choose }) {
  const wrong = wrongPairs(pairs), total = pairs.reduce((sum, pair) => sum + pair.count, 0), errors = wrong.reduce((sum, pair) => sum + pair.count, 0);
  if (!wrong.length) return null;
  return h("section", { class: "card" }, h("h2", {}, "Most frequent errors"), h("ol", { class: "error-list" }, wrong.slice(0, LISTED).map(({ label, predicted, count }) => {
    const current = chosen.label === label && chosen.predicted === predicted;
    return h("li", {}, h("button", { type: "button", "aria-pressed": String(current), onclick: () => choose(current ? { label: "", predicted: "" } : { label, predicted }) }, h("b", {}, label), " answered as ", h("b", {}, predicted)), h("span", { class: "number soft" }, number(count)));
  })), h("p", { class: "small soft" }, `${number(errors)} of ${number(total)} labels are wrong (${percent(errors / total)}).`));
}

function describe(pairs) {
  const wrong = wrongPairs(pairs);
  const parts = wrong.slice(0, 5).map(({ label, predicted, count }) => `${label} as ${predicted} ${count} times`);
  return `Confusion matrix; arrow keys move, Enter chooses. ${parts.length ? `Most frequent errors: ${parts.join(", ")}` : "No errors"}`;
}

// One place of the tab order; arrow keys move through the grid, Enter and space choose.
export function moveByKeys(svg, grid) {
  let at = grid[1] ? [1, Math.min(1, grid[1].length - 1)] : [0, 0];
  const pressed = grid.flatMap((list, y) => list.map((cell, x) => [cell, y, x])).find(([cell]) => cell?.getAttribute("aria-pressed") === "true");
  if (pressed) at = pressed.slice(1);
  grid[at[0]]?.[at[1]]?.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const [down, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
    const current = grid[at[0]][at[1]];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); current.dispatchEvent(new MouseEvent("click", { bubbles: true })); return; }
    const next = (down || across) && grid[at[0] + down]?.[at[1] + across];
    if (!next) return;
    event.preventDefault();
    current.setAttribute("tabindex", "-1");
    at = [at[0] + down, at[1] + across];
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  svg.addEventListener("focusin", (event) => {
    grid.forEach((list, y) => list.forEach((cell, x) => {
      if (!cell?.contains(event.target)) return;
      grid[at[0]][at[1]].setAttribute("tabindex", "-1");
      at = [y, x];
      cell.setAttribute("tabindex", "0");
    }));
  });
}
