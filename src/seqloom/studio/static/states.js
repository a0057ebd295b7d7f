// Hidden states: gates over time, places in the dev data with similar states, what excites a unit, how far gradients reach.

import { post } from "./api.js";
import { clear, errorBox, h } from "./dom.js";
import { number } from "./format.js";
import { heatmap, ORDERS, range, unitOrder } from "./heatmap.js";
import { address } from "./router.js";

const AUTOMATIC_REACH = 40; // elements up to which gradients are measured at once

export function layerName(name) {
  const words = name.split(".").flatMap((part) => {
    if (/^\d+$/.test(part)) return [`layer ${Number(part) + 1}`];
    if (["layer", "layers", "module"].includes(part)) return [];
    return [part.replace(/_layer$/, "").replaceAll("_", " ")];
  });
  return words.join(", ") || "recurrent layer";
}

// All gates and states of a layer, in one order of units.
export function layerCard(layer, values, { link, linked, onUnit, onPhrase }) {
  const name = (column) => layer.names[column] || (layer.step_seconds ? `${number(column * layer.step_seconds, 3)} s` : `step ${column + 1}`);
  const part = (each) => values.subarray(each.start, each.start + each.units * layer.steps);
  const output = layer.parts.find((each) => each.kind === "state") || layer.parts[0];
  const body = h("div", { class: `views ${layer.parts.length % 3 === 0 ? "threes" : "fours"}` });
  const sort = h("select", { "aria-label": `Order of the units of ${layerName(layer.name)}`, onchange: () => draw() }, Object.entries(ORDERS).map(([value, text]) => h("option", { value }, `units ${text}`)));
  function draw() {
    const order = unitOrder(part(output), output.units, layer.steps, sort.value);
    clear(body, layer.parts.map((each) => {
      const numbers = part(each), [low, high] = range(numbers);
      const isOutput = each === output;
      return heatmap({
        title: each.kind === "gate" ? (low < 0 ? each.name : `${each.name} gate`) : `${each.name} state`,
        remark: each.effect ? `blue: open, ${each.effect}` : "",
        values: numbers, rows: each.units, columns: layer.steps, columnName: name, tickName: (column) => name(column).replace(/^step /, ""),
        limits: each.kind === "gate" && low >= 0 && high <= 1 ? [0, 1] : [Math.min(low, 0), Math.max(high, 0)],
        link: linked ? link : undefined, order: each.units === output.units ? order : undefined,
        onRow: isOutput ? onUnit : null, onBrush: isOutput && linked ? onPhrase : null,
      });
    }));
  }
  draw();
  const hint = linked ? `Click a unit of the ${output.name} state to see what excites it; drag over steps to find similar ones.` : `Click a unit of the ${output.name} state to see what excites it.`;
  return h("section", { class: "card full" }, h("div", { class: "tools" }, h("h2", {}, layerName(layer.name)), sort), h("p", { class: "small soft never" }, hint), body);
}

function place(run, match, note) {
  const text = match.phrase.length
    ? h("span", { class: "context" }, h("span", { class: "left" }, (match.cut ? "… " : "") + joined(match.before)), h("mark", {}, joined(match.phrase)), h("span", {}, joined(match.after)))
    : h("span", { class: "context" }, h("span", { class: "left" }, match.place), h("mark", {}, match.stop - match.start > 1 ? `steps ${match.start + 1}–${match.stop}` : `step ${match.start + 1}`), h("span"));
  return h("tr", {}, h("td", {}, h("a", { href: address("/inside", { run, example: String(match.example), from: String(match.start), to: String(match.stop) }), title: match.place }, text)), h("td", { class: "number" }, note));
}

function joined(tokens) {
  const short = tokens.every((token) => token.length <= 1);
  return short ? tokens.join("") : tokens.join(" ");
}

function rows(caption, body) {
  return h("div", { class: "table" }, h("table", { class: "places" }, h("thead", {}, h("tr", {}, h("th", {}, caption[0]), h("th", { class: "number" }, caption[1]))), h("tbody", {}, body)));
}

// A panel that shows the places of a phrase or of a unit. `input`: the input of the page for a request.
export function statePanel({ run, input, layers, hasTokens }) {
  const how = hasTokens ? "drag over the tokens above, or hold Shift and press an arrow key" : "drag over steps of a hidden state below";
  const content = h("div", { "aria-live": "polite" }, h("p", { class: "soft" }, `Select a phrase: ${how}. The places in the dev data whose hidden states are most alike appear here. Click a unit of a hidden state to see what excites it.`));
  const select = h("select", { "aria-label": "Layer of the states", onchange: () => state.phrase && similar(...state.phrase) }, layers.map((layer) => h("option", { value: layer.name }, layerName(layer.name))));
  const state = { phrase: null };
  const box = h("section", { class: "card", id: "states" }, h("div", { class: "tools" }, h("h2", {}, "Where else is the model in this state?"), layers.length > 1 ? select : null), content);

  async function load(title, path, body, draw) {
    clear(content, h("p", { class: "faint" }, "Computing the states of the dev data …"));
    try {
      const result = await post(path, body);
      clear(content, h("p", {}, title), draw(result));
    } catch (error) {
      clear(content, errorBox(error));
    }
  }

  async function similar(start, stop, words = state.words) {
    state.phrase = [start, stop];
    state.words = words;
    await load(h("span", {}, "Places with states like those of ", h("mark", {}, joined(words)), `, in ${layerName(select.value)}:`), "/api/similar", { ...input(), layer: select.value, start, stop }, (result) => [
      rows(["dev data", "similarity"], result.matches.map((match) => place(run, match, number(match.value, 3)))),
      h("p", { class: "small soft" }, `Cosine of the states, after the mean of each unit was subtracted, among ${number(result.examples)} dev examples (${number(result.elements)} elements); the best place of each example.`)]);
  }

  async function unit(layer, index) {
    state.phrase = null;
    await load(`Unit ${index + 1} of ${layerName(layer)}: where it is highest and lowest in the dev data.`, "/api/unit", { run, layer, unit: index }, (result) => [
      h("div", { class: "stack" }, rows(["highest", "value"], result.highest.map((match) => place(run, match, number(match.value, 3)))), rows(["lowest", "value"], result.lowest.map((match) => place(run, match, number(match.value, 3))))),
      h("p", { class: "small soft" }, `Mean ${number(result.mean, 3)}, standard deviation ${number(result.deviation, 3)} over ${number(result.examples)} dev examples; at most one place of each example.`)]);
    box.scrollIntoView({ block: "nearest" });
  }

  return { box, similar, unit };
}

// How strongly each output depends on each step.
export function reachCard({ input, tokens, link }) {
  const body = h("div");
  const start = h("button", { type: "button", onclick: () => measure() }, "Measure");
  const name = (column) => tokens[column] ?? `step ${column + 1}`;

  async function measure() {
    clear(body, h("p", { class: "faint" }, "Following gradients back …"));
    try {
      const { layers } = await post("/api/reach", input());
      clear(body, h("div", { class: "views" }, layers.map((layer) => {
        const columns = layer.norms[0]?.length || 0;
        const relative = layer.norms.map((row) => { const peak = Math.max(...row) || 1; return row.map((value) => value / peak); });
        const linked = columns === tokens.length;
        return heatmap({ title: `${layerName(layer.layer)}${layer.direction === "both" || layerName(layer.layer).includes(layer.direction) ? "" : `, reading ${layer.direction}`}`, values: relative.flat(), rows: relative.length, columns, limits: [0, 1],
          rowName: (row) => (layer.outputs[row] < 0 ? "final state" : `output at ${layer.outputs.length && tokens.length === columns ? name(layer.outputs[row]) : layer.outputs[row] + 1}`),
          rowTicks: (row) => (layer.outputs[row] < 0 ? "final state" : linked ? name(layer.outputs[row]) : String(layer.outputs[row] + 1)), columnName: linked ? name : (column) => String(column + 1), link: linked ? link : undefined, height: Math.min(200, Math.max(24, relative.length * 12)) });
      })), h("p", { class: "small soft" }, "Rows: outputs, in the order of time. Columns: steps. The norm of the gradient of the loss at that output with respect to the hidden state at that step, as a share of the largest in its row; the loss takes the model's own answer as the target."));
    } catch (error) {
      clear(body, h("p", { class: "soft" }, error.message));
    }
  }

  if (tokens.length && tokens.length <= AUTOMATIC_REACH) measure();
  else clear(body, h("p", { class: "soft" }, "The gradient of each output with respect to the hidden state at each step: which steps it depends on. "), start);
  return h("section", { class: "card full" }, h("h2", {}, "How far back does each output see?"), body);
}
