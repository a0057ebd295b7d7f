// What happens inside a model for one input: one strip of tokens drives every view.

import { get, postPacked } from "../api.js";
import { showAnswer } from "../answer.js";
import { lineChart } from "../chart.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { number, percent } from "../format.js";
import { heatmap, makeLink, shadeCss } from "../heatmap.js";
import { otherInputs } from "../inputs.js";
import { go, remember } from "../router.js";
import { loadRuns, runSelect } from "../runs.js";
import { savePage } from "../save.js";

export async function showInside(main, query) {
  const { runs } = await loadRuns();
  const usable = runs.filter((run) => run.state !== "damaged");
  const id = query.get("run") || usable[0]?.id;
  if (!id) {
    clear(main, message("No model yet", "Train one first; then its gates, attention and probabilities can be seen here."));
    return;
  }
  const model = await get("/api/model", { run: id });
  const state = { text: query.get("text") || "", search: query.get("search") || "", beam: query.get("beam") === "1", unit: query.get("unit") || "" };
  const views = h("div", { "aria-live": "polite" });
  const save = h("button", { type: "button", class: "save", onclick: () => savePage(views, `inside ${id}`) }, "Save as HTML");
  const bar = h("div", { class: "bar" }, h("h1", {}, "Inside"), runSelect(usable, id, (run) => go("/inside", { run, text: state.text })), h("span", { class: "grow" }));
  if (model.uses_search) {
    const beam = h("input", { type: "checkbox", checked: state.beam, onchange: () => { state.beam = beam.checked; look(); } });
    bar.append(h("label", { class: "soft" }, beam, " show the search"));
  }
  bar.append(save);
  const input = h("div", { style: { "margin-bottom": "16px" } });
  clear(main, bar, input, views);
  let controller = null;
  let value = state.text;

  async function look(given = value) {
    value = given;
    remember("/inside", { run: id, text: model.reads_text ? state.text : "", search: state.search, beam: state.beam ? "1" : "" });
    if (typeof value === "string" && !value.trim()) {
      clear(views, message("Type a text", "Every view below follows it: edit a word and watch what changes."));
      return;
    }
    controller?.abort();
    controller = new AbortController();
    try {
      const { content, values } = await postPacked("/api/inside", request(value), controller.signal);
      clear(views, draw(content, values));
    } catch (error) {
      if (error.name !== "AbortError") clear(views, errorBox(error));
    }
  }

  function request(given) {
    if (!(given instanceof File)) return { run: id, input: given, search: state.search, beam: state.beam };
    const form = new FormData();
    form.append("run", id);
    form.append("file", given);
    return form;
  }

  if (model.reads_text) {
    const field = h("textarea", { rows: 2, value: state.text, placeholder: "Your text", "aria-label": "Input", oninput: debounce(() => { state.text = field.value; look(field.value); }, 300) });
    input.append(field);
    field.focus();
  } else {
    input.append(h("details", { open: true }, h("summary", {}, "Input"), otherInputs(look)));
  }
  await look();
}

function draw(content, values) {
  const { explanation, layers, tokens, headline } = content;
  const link = makeLink();
  const result = [h("section", { class: "card", style: { "margin-bottom": "16px" } }, h("h2", {}, "Answer"), showAnswer(explanation.prediction), headline ? h("p", { class: "soft small" }, headline) : null)];
  result.push(strip(tokens, explanation, link));
  for (const note of explanation.notes) result.push(h("p", { class: "note" }, note));
  const cards = [];
  if (explanation.label_choices.length) cards.push(choices(explanation.label_choices, link));
  if (explanation.token_values) cards.push(tokenValues(explanation.token_values, link));
  if (explanation.attention) cards.push(card(attentionMap(explanation.attention, "Attention, mean of the heads of the last layer", tokens, link)));
  if (explanation.frames) cards.push(framesChart(explanation.frames));
  if (explanation.beam.length) cards.push(beamTree(explanation.beam));
  for (const layer of layers) cards.push(card(...gateViews(layer, values, tokens, link)));
  for (const head of explanation.heads.slice(0, 24)) cards.push(card(attentionMap(head, head.name, tokens, link)));
  result.push(h("div", { class: "grid" }, cards));
  return result;
}

function card(...children) {
  return h("div", { class: "card" }, children);
}

// The tokens, coloured by how much each mattered.
function strip(tokens, explanation, link) {
  const attribution = explanation.attribution;
  const scores = attribution?.values && Array.isArray(attribution.values) && typeof attribution.values[0] === "number" ? attribution.values : null;
  const names = attribution?.tokens?.length ? attribution.tokens : tokens;
  if (!names.length) return h("div");
  const extreme = scores ? Math.max(...scores.map(Math.abs), 1e-12) : 1;
  const buttons = names.map((token, index) => h("button", { type: "button", class: `token ${scores && Math.abs(scores[index]) > 0.7 * extreme ? "strong" : ""}`, style: scores ? { background: shadeCss((scores[index] / extreme) * 0.75) } : {},
    onpointerenter: () => link.set(index), onfocus: () => link.set(index), title: scores ? `${number(scores[index])}` : "" }, token || " ", scores ? h("small", {}, number(scores[index], 2)) : null));
  link.listen((column) => buttons.forEach((button, index) => button.classList.toggle("current", index === column)));
  const title = scores ? `What mattered for ${attribution.target ?? "the answer"} (${attribution.method ?? ""}): blue raises it, orange lowers it` : "Input";
  return h("section", { style: { margin: "8px 0" } }, h("h2", {}, title), h("div", { class: "strip", onkeydown: (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = step && buttons[buttons.indexOf(document.activeElement) + step];
    if (next) { event.preventDefault(); next.focus(); }
  } }, buttons));
}

function choices(list, link) {
  const rows = list.map((choice, index) => h("tr", { onpointerenter: () => link.set(index) }, h("td", {}, choice.word), h("td", {}, choice.label), h("td", { class: "number" }, percent(choice.probability)),
    h("td", { class: "soft" }, choice.alternative), h("td", { class: "number soft" }, percent(choice.alternative_probability))));
  link.listen((column) => rows.forEach((row, index) => row.setAttribute("aria-selected", String(index === column))));
  return h("section", {}, h("h2", {}, "Labels and the most probable alternatives"), h("div", { class: "table" }, h("table", {},
    h("thead", {}, h("tr", {}, ["word", "label", "probability", "otherwise", ""].map((name) => h("th", {}, name)))), h("tbody", {}, rows))));
}

function tokenValues({ label, tokens, values }, link) {
  return card(heatmap({ title: label, values, rows: 1, columns: values.length, rowName: () => label, columnName: (column) => tokens[column] ?? "", link, height: 28 }));
}

function attentionMap(map, title, tokens, link) {
  const rows = map.rows.length, columns = map.columns.length;
  return heatmap({ title, values: map.weights.flat(), rows, columns, rowName: (row) => map.rows[row], columnName: (column) => `to ${map.columns[column]}`, link: columns === tokens.length ? link : undefined });
}

function gateViews(layer, values, tokens, link) {
  const name = (column) => layer.names[column] || (layer.step_seconds ? `${number(column * layer.step_seconds, 3)} s` : `step ${column + 1}`);
  return layer.parts.map((part) => heatmap({
    title: `${layer.name}: ${part.name}${part.kind === "gate" ? " gate" : ""}`, remark: part.effect ? `open: ${part.effect}` : "",
    values: values.subarray(part.start, part.start + part.units * layer.steps), rows: part.units, columns: layer.steps,
    columnName: name, link: layer.steps === tokens.length || !tokens.length ? link : undefined, sorted: true,
  }));
}

function framesChart(frames) {
  const time = (frame) => frame * frames.frame_length;
  const curves = frames.tokens.map((name, token) => ({ name, points: frames.probabilities[token].map((value, frame) => [time(frame), value]) }))
    .sort((a, b) => Math.max(...b.points.map(([, y]) => y)) - Math.max(...a.points.map(([, y]) => y))).slice(0, 9);
  curves.push({ name: "blank", colour: "var(--faint)", dashed: true, points: frames.blank.map((value, frame) => [time(frame), value]) });
  return lineChart({ title: "Probability of each token in each frame", series: curves, xLabel: frames.in_seconds ? "seconds" : "frames" });
}

// The hypotheses of a search, parents before their children.
function beamTree(nodes) {
  const children = new Map();
  for (const node of nodes) children.set(node.parent, [...(children.get(node.parent) || []), node]);
  const build = (parent, depth) => (children.get(parent) || []).map((node) => {
    const inner = build(node.number, depth + 1);
    const label = h("span", {}, h("span", { class: `mono ${node.kept ? "" : "faint"}` }, node.token), " ", h("span", { class: "faint small" }, `${number(node.score)}${inner.length ? "" : ` · ${node.end}`}`));
    return inner.length ? h("details", { open: depth < 6 }, h("summary", {}, label), h("div", { style: { "margin-left": "16px" } }, inner)) : h("div", { style: { "margin-left": "18px" } }, label);
  });
  return h("section", { class: "card" }, h("h2", {}, "The search, with the end of each branch"), build(-1, 0));
}
