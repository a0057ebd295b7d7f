// The hypotheses of a search as a tree: time from left to right, what was kept in colour, what was pruned in grey.

import { clear, h } from "./dom.js";
import { number } from "./format.js";
import { saveSvg } from "./save.js";

const STEP = 52, ROW = 18, LEFT = 8, TOP = 12;

// Keep the branches that lead to a kept hypothesis, and of the rest those that went on for a while.
function shownNodes(nodes, all) {
  if (all) return nodes;
  const parents = new Set(nodes.map((node) => node.parent));
  return nodes.filter((node) => node.kept || parents.has(node.number));
}

function layout(nodes) {
  const children = new Map(), places = new Map();
  for (const node of nodes) {
    if (!children.has(node.parent)) children.set(node.parent, []);
    children.get(node.parent).push(node);
  }
  let row = 0, depth = 0;
  const visit = (node, level) => {
    depth = Math.max(depth, level);
    const inner = children.get(node.number) || [];
    inner.forEach((child) => visit(child, level + 1));
    const y = inner.length ? places.get(inner[0].number).y : TOP + ROW * row++;
    places.set(node.number, { x: LEFT + STEP * level, y });
  };
  for (const root of children.get(-1) || []) visit(root, 0);
  return { places, width: LEFT + STEP * (depth + 1) + 320, height: TOP + ROW * row + 4 };
}

// all: also pruned branches; keep(all): that was changed.
export function beamTree(nodes, { all = false, keep = () => {} } = {}) {
  const kept = new Set();
  const byNumber = new Map(nodes.map((node) => [node.number, node]));
  for (const node of nodes) {
    for (let at = node.kept ? node : null; at; at = byNumber.get(at.parent)) kept.add(at.number);
  }
  const best = new Set(); // the path of what was returned
  for (const node of nodes) for (let at = node.best ? node : null; at; at = byNumber.get(at.parent)) best.add(at.number);
  const box = h("div", { class: "tree", tabindex: 0, role: "group", "aria-label": "Search tree, can be scrolled" });
  const state = { all };
  const toggle = h("button", { type: "button", class: "save", "aria-pressed": "false", onclick: () => { state.all = !state.all; keep(state.all); draw(); } }, "pruned branches");
  const save = h("button", { type: "button", class: "save", onclick: () => saveSvg(box.querySelector("svg"), "search tree") }, "SVG");

  function draw() {
    toggle.setAttribute("aria-pressed", String(state.all));
    const shown = shownNodes(nodes, state.all);
    const { places, width, height } = layout(shown);
    const parents = new Set(shown.map((node) => node.parent));
    const svg = h("svg:svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": describe(nodes, byNumber) });
    for (const node of shown) {
      const to = places.get(node.number), from = places.get(node.parent);
      if (from) svg.append(h("svg:path", { d: `M${from.x + 20} ${from.y}C${from.x + 36} ${from.y} ${to.x - 16} ${to.y} ${to.x - 2} ${to.y}`, fill: "none", stroke: kept.has(node.number) ? "var(--accent)" : "var(--faint)", opacity: best.has(node.number) ? 1 : kept.has(node.number) ? 0.4 : 0.5, "stroke-width": best.has(node.number) ? 2.5 : kept.has(node.number) ? 1.5 : 1 }));
    }
    for (const node of shown) {
      const { x, y } = places.get(node.number);
      const text = h("svg:text", { x, y: y + 4, class: best.has(node.number) ? "best-path" : kept.has(node.number) ? "kept" : "pruned" }, node.token === " " ? "␣" : node.token || "·");
      text.append(h("svg:title", {}, `log-probability ${number(node.score)}; ${node.end}`));
      svg.append(text);
      if (!parents.has(node.number)) svg.append(h("svg:text", { x: x + 26 + 6 * Math.max(0, node.token.length - 2), y: y + 4, class: "end" }, `${number(node.score, 3)} · ${node.end}`));
    }
    clear(box, svg);
  }

  draw();
  return h("section", { class: "card full" }, h("div", { class: "tools" }, h("h2", {}, "Search"), h("span", {}, toggle, " ", save)),
    h("p", { class: "small soft" }, "Time from left to right. Bold: what was returned; blue: kept in the beam; grey: pruned. At the end of each branch: its log-probability and how it ended."), box);
}

function describe(nodes, byNumber) {
  const texts = nodes.filter((node) => node.kept).map((node) => {
    let text = "";
    for (let at = node; at; at = byNumber.get(at.parent)) text = `${at.token} ${text}`;
    return `${text.trim()} (${number(node.score)})`;
  });
  return `Search with ${nodes.length} hypotheses. Kept: ${texts.join("; ")}`;
}
