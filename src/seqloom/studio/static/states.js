// Hidden states: gates over time, places in the dev data with similar states, what excites a unit, how far gradients reach.

import { post } from "./api.js";
import { saveBoxesButton } from "./boxes.js";
import { clear, errorBox, h } from "./dom.js";
import { number } from "./format.js";
import { heatmap, ORDERS, range, scaled, shadeCss, unitOrder } from "./heatmap.js";
import { address } from "./router.js";
import { visible } from "./strip.js";
import { thumbnail } from "./texts.js";

const AUTOMATIC_REACH = 64; // elements up to which gradients are measured at once
const THRESHOLD = 0.3; // as in LSTMVis
const MOST_ACTIVE = 40; // units that are listed
const MOST_SHADED = 600; // tokens that are shown in the colours of a unit

export function layerName(name) {
  const words = name.split(".").flatMap((part) => {
    if (/^\d+$/.test(part)) return [`layer ${Number(part) + 1}`];
    if (["layer", "layers", "module"].includes(part)) return [];
    return [part.replace(/_layer$/, "").replaceAll("_", " ")];
  });
  return words.join(", ") || "recurrent layer";
}

// Names for people: layers are counted from 1 among those that are shown, as the doctor does.
export function nameLayers(layers) {
  const numbers = new Map(); // the numbers that occur after each prefix of a name
  for (const { name } of layers) {
    name.split(".").forEach((part, index, parts) => {
      const prefix = parts.slice(0, index).join(".");
      if (/^\d+$/.test(part)) numbers.set(prefix, (numbers.get(prefix) || new Set()).add(Number(part)));
    });
  }
  return (name) => layerName(name.split(".").flatMap((part, index, parts) => {
    const all = /^\d+$/.test(part) ? [...(numbers.get(parts.slice(0, index).join(".")) || [])].sort((a, b) => a - b) : [];
    return all.length ? [String(all.indexOf(Number(part)))] : [part];
  }).join("."));
}

// All gates and states of a layer, in one order of units. Of a layer that reads an image, each unit has its rows.
export function layerCard(layer, values, { link, linked, base, title, order: chosen, onOrder, onUnit, onPhrase }) {
  const rows = layer.rows || 1;
  const name = (column) => layer.names[column] || (layer.rows ? `column ${column + 1}` : layer.step_seconds ? `${number(column * layer.step_seconds, 3)} s` : `step ${column + 1}`);
  const part = (each) => values.subarray(each.start, each.start + each.units * layer.steps);
  const output = outputOf(layer);
  const body = h("div", { class: `views ${layer.parts.length % 3 === 0 ? "threes" : "fours"}` });
  const sort = h("select", { "aria-label": `Order of the units of ${title}`, onchange: () => { onOrder(sort.value === "time" ? "" : sort.value); draw(); } }, Object.entries(ORDERS).map(([value, text]) => h("option", { value, selected: value === chosen }, `units ${text}`)));
  function draw() {
    const units = unitOrder(part(output), output.units / rows, rows * layer.steps, sort.value);
    const order = units.flatMap((unit) => [...Array(rows).keys()].map((row) => unit * rows + row));
    clear(body, layer.parts.map((each) => {
      const numbers = part(each), [low, high] = range(numbers);
      const isOutput = each === output;
      return heatmap({
        ...(linked ? scaled(layer.steps, base) : {}),
        title: each.kind === "gate" ? (low < 0 ? each.name : `${each.name} gate`) : `${each.name} state`,
        remark: each.effect ? `blue: open, ${each.effect}` : "",
        values: numbers, rows: each.units, columns: layer.steps, columnName: name, tickName: (column) => name(column).replace(/^(step|column) /, ""),
        rowName: (line) => (layer.rows ? `unit ${Math.floor(line / rows) + 1}, row ${(line % rows) + 1}` : `unit ${line + 1}`),
        limits: each.kind === "gate" && low >= 0 && high <= 1 ? [0, 1] : [Math.min(low, 0), Math.max(high, 0)],
        link: linked ? link : undefined, order: each.units === output.units ? order : undefined,
        onRow: isOutput ? onUnit : null, onBrush: isOutput && linked ? onPhrase : null,
      });
    }));
  }
  draw();
  const hint = !onUnit ? "" : linked ? `Click a unit of the ${output.name} state to see what it does; drag over steps to find similar ones.` : `Click a unit of the ${output.name} state to see what it does.`;
  return h("section", { class: "card full" }, h("div", { class: "tools" }, h("h2", {}, title), sort), hint ? h("p", { class: "small soft never" }, hint) : null, body);
}

function outputOf(layer) {
  return layer.parts.find((each) => each.kind === "state") || layer.parts[0];
}

// A place in the dev data; of a unit, each token in the colour of its value.
function place(run, match, note, { scale = 0, timed = false } = {}) {
  const link = { href: address("/inside", { run, example: String(match.example), from: String(match.start), to: String(match.stop) }), title: match.place };
  const piece = (tokens, numbers) => (scale ? shaded(tokens, numbers, scale) : joined(tokens));
  const text = match.phrase.length
    ? h("span", { class: "context" }, h("span", { class: "left" }, h("bdi", {}, match.cut ? "… " : "", piece(match.before, (match.values_before || []).slice(-match.before.length || Infinity)))), scale ? h("span", { class: "centre" }, shaded(match.phrase, [match.value], scale, 0)) : h("mark", {}, joined(match.phrase)), h("span", {}, piece(match.after, match.values_after)))
    : h("span", { class: "pictured-place" }, picture(run, match, timed), h("span", {}, match.place.split(/[\\/]/).at(-1)), h("mark", {}, match.stop - match.start > 1 ? `steps ${match.start + 1}–${match.stop}` : `step ${match.start + 1}`));
  return h("tr", {}, h("td", {}, h("a", link, text)), h("td", { class: "number" }, note));
}

// A small picture of a dev example with its steps marked, where time runs from left to right.
function picture(run, { example, start, stop, steps }, timed) {
  const share = (step) => `${(100 * step) / steps}%`;
  return h("span", { class: "framed" }, thumbnail(run, example), timed ? h("i", { style: { left: share(start), width: share(stop - start) } }) : null);
}

// Tokens in the colours of numbers; `peak`: that is framed.
function shaded(tokens, numbers, scale, peak = -1) {
  const separator = isShort(tokens) ? "" : " ";
  return tokens.map((token, index) => {
    const strength = (numbers[index] ?? 0) / scale;
    return [index ? separator : "", h("span", { class: Math.abs(strength) > 0.7 ? "shaded strong" : "shaded", "data-peak": index === peak ? "" : null, style: { background: shadeCss(0.85 * strength) }, title: `${visible(token)}: ${number(numbers[index], 3)}` }, visible(token))];
  });
}

function isShort(tokens) {
  return tokens.every((token) => token.length <= 1 || /^<.*>$/.test(token));
}

function joined(tokens) {
  return isShort(tokens) ? tokens.join("") : tokens.join(" ");
}

function rows(caption, body) {
  return h("div", { class: "table" }, h("table", { class: "places" }, h("thead", {}, h("tr", {}, h("th", {}, caption[0]), h("th", { class: "number" }, caption[1]))), h("tbody", {}, body)));
}

// The units of a layer that stand out in a phrase: how far their mean lies from that of the rest, in standard deviations of the whole input.
export function standOut(numbers, units, steps, start, stop, most = 6) {
  if (stop - start >= steps) return [];
  const facts = [...Array(units).keys()].map((unit) => {
    let inside = 0, outside = 0, squares = 0;
    for (let step = 0; step < steps; step++) {
      const value = numbers[unit * steps + step];
      squares += value * value;
      if (step >= start && step < stop) inside += value; else outside += value;
    }
    const mean = (inside + outside) / steps, deviation = Math.sqrt(Math.max(0, squares / steps - mean * mean));
    return { unit, gap: deviation > 1e-6 ? (inside / (stop - start) - outside / (steps - stop + start)) / deviation : 0 };
  });
  return facts.sort((a, b) => Math.abs(b.gap) - Math.abs(a.gap)).slice(0, most).filter(({ gap }) => Math.abs(gap) > 0.5);
}

// The units that are at least at a threshold in all steps of a phrase, and below it in the steps before and after, as in LSTMVis.
export function activeUnits(numbers, units, steps, [start, stop], threshold) {
  const value = (unit, step) => numbers[unit * steps + step], phrase = [...Array(stop - start).keys()].map((index) => start + index);
  return [...Array(units).keys()].filter((unit) => phrase.every((step) => value(unit, step) >= threshold) && [start - 1, stop].every((step) => step < 0 || step >= steps || value(unit, step) < threshold));
}

// A panel that shows the places of a phrase or of a unit. `input(fields)`: the body of a request about the input of the page. `values`: the states of all layers.
// hasStrip: tokens stand above, which can be dragged over. timed: time runs from left to right in pictures of inputs. chosen("layer:unit"): a unit is shown; empty: none. threshold: above which a unit counts as active; changed(threshold).
export function statePanel({ hasStrip, timed, run, input, layers, values, nameLayer, tokens, chosen, threshold = THRESHOLD, changed }) {
  const how = hasStrip ? "drag over the tokens above, or hold Shift and press an arrow key" : "drag over steps of a hidden state below";
  const [what, act] = hasStrip ? ["this phrase", "Select a phrase"] : ["these steps", "Select some steps"];
  const content = h("div", { "aria-live": "polite" }, h("p", { class: "never" }, h("b", {}, act), h("span", { class: "soft" }, `: ${how}. The places in the dev data at which the model is in the same state appear here.`)), h("p", { class: "never" }, h("b", {}, "Click a unit"), h("span", { class: "soft" }, " of a hidden state below, or type its number: its values in this input, and where in the dev data they are highest and lowest.")));
  const select = h("select", { "aria-label": "Layer of the states", onchange: () => { limitField(); if (state.phrase) similar(...state.phrase); else chooseUnit(); } }, layers.map((layer) => h("option", { value: layer.name }, nameLayer(layer.name))));
  const state = { phrase: null };
  const unitsOf = (name) => outputOf(layers.find((layer) => layer.name === name)).units;
  const field = h("input", { type: "number", min: 1, max: unitsOf(select.value), step: 1, placeholder: `1–${unitsOf(select.value)}`, "aria-label": "Number of a unit", onchange: () => chooseUnit() });
  const chooseUnit = () => {
    const index = Number(field.value) - 1;
    if (Number.isInteger(index) && index >= 0 && index < unitsOf(select.value)) unit(select.value, index, false);
    else if (field.value) field.reportValidity();
  };
  const limitField = () => { field.max = unitsOf(select.value); field.placeholder = `1–${field.max}`; };
  const title = h("h2", {}, "Where else is the model in this state?");
  const box = h("section", { class: "card", id: "states" }, h("div", { class: "tools" }, title, h("span", { class: "pick never" }, layers.length > 1 ? select : null, h("label", { class: "small soft" }, "unit ", field))), content);
  const numbersOf = (layer) => { const part = outputOf(layer); return values.subarray(part.start, part.start + part.units * layer.steps); };

  async function load(heading, path, body, draw) {
    const request = state.request = {};
    clear(content, heading, h("p", { class: "faint" }, "Computing the states of the dev data …"));
    try {
      const result = await post(path, await body);
      if (request === state.request) clear(content, heading, draw(result));
    } catch (error) {
      if (request === state.request) clear(content, heading, errorBox(error));
    }
  }

  async function similar(start, stop, words = state.words) {
    Object.assign(state, { phrase: [start, stop], words });
    title.textContent = "Where else is the model in this state?";
    field.value = "";
    const layer = layers.find(({ name }) => name === select.value), output = outputOf(layer);
    const units = standOut(numbersOf(layer), output.units, layer.steps, start, stop);
    const heading = [h("p", {}, "Places with states like those of ", h("mark", {}, joined(words)), `, in ${nameLayer(select.value)}:`)];
    const button = (index, text, title) => h("button", { type: "button", class: "chip-button", title, onclick: () => unit(layer.name, index) }, text);
    const active = h("span", { class: "chosen-parts", role: "status" });
    const list = () => {
      const found = activeUnits(numbersOf(layer), output.units, layer.steps, [start, stop], threshold);
      clear(active, found.slice(0, MOST_ACTIVE).map((index) => button(index, String(index + 1), `unit ${index + 1}`)), found.length ? null : h("span", { class: "small" }, "none"), found.length > MOST_ACTIVE ? h("span", { class: "small" }, `and ${found.length - MOST_ACTIVE} more`) : null);
    };
    const limit = h("input", { type: "number", step: 0.1, value: threshold, "aria-label": "Threshold", oninput: () => { if (limit.value === "") return; threshold = Number(limit.value); changed(threshold === THRESHOLD ? "" : limit.value); list(); } });
    list();
    await load(heading, "/api/similar", input({ layer: select.value, start, stop }), (result) => [
      rows(["dev data", "similarity"], result.matches.map((match) => place(run, match, number(match.value, 3), { timed }))),
      h("p", { class: "small soft" }, `Cosine of the states, after the mean of each unit was subtracted, among ${number(result.examples)} dev examples (${number(result.elements)} elements); the best place of each example.`),
      units.length ? h("p", { class: "chosen-parts never" }, h("span", { class: "small soft" }, `Units that differ most between ${what} and the rest: `), units.map(({ unit: index, gap }) => button(index, `${index + 1} ${gap > 0 ? "↑" : "↓"}`, `${number(Math.abs(gap), 2)} standard deviations ${gap > 0 ? "above" : "below"} the rest of the input`))) : null,
      h("p", { class: "chosen-parts pick never" }, h("label", { class: "small soft" }, "Units at or above ", limit, ` in all of ${what}, and below it right before and after: `), active)]);
  }

  async function unit(name, index, isNew = true) {
    state.phrase = null;
    chosen(`${name}:${index + 1}`);
    title.textContent = `What does unit ${index + 1} do?`;
    if (layers.some((layer) => layer.name === name)) select.value = name;
    limitField();
    field.value = String(index + 1);
    const layer = layers.find((each) => each.name === name), own = numbersOf(layer).subarray(index * layer.steps, (index + 1) * layer.steps), peak = own.reduce((best, value, step) => (Math.abs(value) > Math.abs(own[best]) ? step : best), 0), scale = Math.abs(own[peak]) || 1;
    const here = tokens.length === layer.steps && tokens.length <= MOST_SHADED
      ? h("p", { class: "shaded-text", tabindex: 0 }, shaded(tokens, [...own], scale, peak))
      : heatmap({ title: "Its value at each step", values: own, rows: 1, columns: layer.steps, rowName: () => `unit ${index + 1}`, height: 24, limits: [Math.min(0, ...own), Math.max(0, ...own)] });
    const heading = [h("div", { class: "tools" }, h("h3", {}, `Unit ${index + 1} of ${nameLayer(name)} in this input`), here.matches("p") ? saveBoxesButton(`unit ${index + 1}`, () => here) : null), here, h("p", { class: "small soft" }, h("span", { class: "key positive" }, "positive"), h("span", { class: "key negative" }, "negative"), ` Strongest: ${number(own[peak], 3)} at ${tokens.length === layer.steps ? `“${visible(tokens[peak])}” (${peak + 1})` : `step ${peak + 1}`}.`)];
    await load(heading, "/api/unit", { run, layer: name, unit: index }, (result) => {
      const extreme = Math.max(...[...result.highest, ...result.lowest].map((match) => Math.abs(match.value))) || 1, list = (matches) => matches.map((match) => place(run, match, number(match.value, 3), { scale: extreme, timed }));
      const places = h("div", { class: "halves" }, rows(["highest in the dev data", "value"], list(result.highest)), rows(["lowest in the dev data", "value"], list(result.lowest)));
      return [h("div", { class: "tools" }, h("h3", {}, "In the dev data"), saveBoxesButton(`where unit ${index + 1} is highest and lowest`, () => places)), places,
        h("p", { class: "small soft" }, `Mean ${number(result.mean, 3)}, standard deviation ${number(result.deviation, 3)} over ${number(result.examples)} dev examples; at most one place of each example.`)];
    });
    if (isNew) box.scrollIntoView({ block: "start" }); // below the header, which stays
  }

  // A unit of an address: layer and number.
  function restore(text) {
    const at = text.lastIndexOf(":"), layer = layers.find(({ name }) => name === text.slice(0, at)), index = Number(text.slice(at + 1)) - 1;
    if (layer && Number.isInteger(index) && index >= 0 && index < outputOf(layer).units) unit(layer.name, index, false);
  }

  return { box, similar, unit, restore };
}

// How strongly each output depends on each step.
export function reachCard({ input, tokens, link, nameLayer, steps }) {
  const body = h("div");
  const start = h("button", { type: "button", onclick: () => measure() }, "Measure");
  const name = (column) => tokens[column] ?? `step ${column + 1}`;

  async function measure() {
    clear(body, h("p", { class: "faint" }, "Following gradients back …"));
    try {
      const { layers } = await post("/api/reach", await input());
      clear(body, h("div", { class: "views reach" }, layers.map((layer) => {
        const columns = layer.norms[0]?.length || 0;
        const relative = layer.norms.map((row) => { const peak = Math.max(...row) || 1; return row.map((value) => value / peak); });
        const linked = columns === tokens.length, follows = linked || !tokens.length;
        return heatmap({ title: `${nameLayer(layer.layer)}${layer.direction === "both" || nameLayer(layer.layer).includes(layer.direction) ? "" : `, reading ${layer.direction}`}`, values: relative.flat(), rows: relative.length, columns, limits: [0, 1],
          rowName: (row) => (layer.outputs[row] < 0 ? "final state" : `output at ${layer.outputs.length && tokens.length === columns ? name(layer.outputs[row]) : layer.outputs[row] + 1}`),
          rowTicks: (row) => (layer.outputs[row] < 0 ? "final state" : linked ? name(layer.outputs[row]) : String(layer.outputs[row] + 1)), columnName: linked ? name : (column) => String(column + 1), link: follows ? link : undefined, ...(linked ? {} : scaled(columns, steps)), height: Math.min(200, Math.max(24, relative.length * 12)) });
      })), h("p", { class: "small soft" }, "Rows: outputs, in the order of time. Columns: steps. The norm of the gradient of the loss at that output with respect to the hidden state at that step, as a share of the largest in its row; the loss takes the model's own answer as the target."));
    } catch (error) {
      clear(body, h("p", { class: "soft" }, `Not shown: ${error.message}`));
    }
  }

  const automatic = steps <= AUTOMATIC_REACH;
  const box = h("section", { class: "card full" }, h("h2", {}, "How far back does each output see?"), body);
  if (automatic) measure();
  else clear(body, h("p", { class: "soft" }, "The gradient of each output with respect to the hidden state at each step: which steps it depends on. "), start);
  return box;
}
