// What happens inside a model for one input: one strip of tokens drives every view.

import { get, postPacked } from "../api.js";
import { showAnswer, targetLine, unknownNote } from "../answer.js";
import { beamTree } from "../beam.js";
import { saveBoxesButton } from "../boxes.js";
import { differenceCard, sameTarget } from "../difference.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { exampleList, unpress } from "../examples.js";
import { expectedCard } from "../expected.js";
import { percent } from "../format.js";
import { framesCard } from "../frames.js";
import { inputBody, isOwn, keepInput, keptInput, missingInput, takesPlace } from "../given.js";
import { heatmap, makeLink, scaled } from "../heatmap.js";
import { otherInputs } from "../inputs.js";
import { showMedia } from "../media.js";
import { go, remember } from "../router.js";
import { loadRuns, runSelect } from "../runs.js";
import { layerCard, nameLayers, reachCard, statePanel } from "../states.js";
import { tokenStrip } from "../strip.js";
import { wordMapCard } from "../wordmap.js";

const METHODS = { "": "automatic", integrated_gradients: "integrated gradients", input_x_gradient: "input × gradient", occlusion: "occlusion" };
const MOST_HEADS = 24;
const MOST_NUMBERED = 16; // steps without names that are shown as tokens
const MOST_CHOICES = 200; // labels or words that can be explained

export async function showInside(main, query) {
  const { runs } = await loadRuns();
  const usable = runs.filter((run) => run.state !== "damaged");
  const id = query.get("run") || usable[0]?.id;
  if (!id) {
    clear(main, message("No model yet", "Train one first; then its gates, attention and probabilities can be seen here."));
    return;
  }
  const model = await get("/api/model", { run: id, example: query.get("example") || "" });
  const state = { text: query.get("text") || "", example: query.get("example"), search: query.get("search") || "", beam: query.get("beam") === "1", method: query.get("method") || "", from: query.get("from"), to: query.get("to"), before: query.get("before"), given: query.get("given"), target: query.get("target") || "", word: query.get("word") || "", unit: query.get("unit") || "", order: query.get("order") || "", pruned: query.get("pruned") === "1", threshold: Number.isFinite(Number(query.get("threshold"))) ? query.get("threshold") || "" : "" };
  const own = await keptInput(state.given), missing = state.given && own === null;
  const addresses = new WeakMap(own ? [[own, state.given]] : []); // the parts of addresses that stand for inputs
  let sources = null;
  if (!state.text && state.example === null && !state.given && model.examples.length) state.example = String(model.examples[0].example);
  let value = state.example !== null ? { example: Number(state.example) } : own ?? state.text;
  const views = h("div", { class: "inside" });
  const bar = h("div", { class: "bar" }, h("h1", {}, "Inside"), runSelect(usable, id, (run) => go("/inside", { run, text: state.text, example: state.example, given: state.given })), h("span", { class: "grow" }));
  if (model.uses_search) {
    const beam = h("input", { type: "checkbox", checked: state.beam, onchange: () => { state.beam = beam.checked; look(); } });
    bar.append(h("label", { class: "soft" }, beam, " show the search"));
  }
  if (model.can_attribute) {
    const method = h("select", { "aria-label": "Method of attribution", onchange: () => { state.method = method.value; look(); } }, Object.entries(METHODS).map(([name, text]) => h("option", { value: name, selected: name === state.method }, text)));
    bar.append(h("label", { class: "soft" }, "attribution method ", method));
  }
  const input = h("div", { class: "card full" });
  clear(main, bar, input, views);
  let controller = null;

  const request = (fields = {}) => inputBody(value, model, { run: id, search: state.search, ...fields });

  // Another page has its own address.
  const keep = (options) => input.isConnected && remember("/inside", { run: id, text: model.reads_text && state.example === null ? state.text : "", example: state.example, given: state.given, search: state.search, beam: state.beam ? "1" : "", method: state.method, from: state.from, to: state.to, before: state.before, target: state.target, word: state.word, unit: state.unit, order: state.order, pruned: state.pruned ? "1" : "", threshold: state.threshold }, options);

  // The text with which an edit is compared, explained for the same label.
  const kept = new Map();
  async function beforeEdit(after) {
    if (state.before === null) return null;
    const ask = async (more) => {
      const question = { run: id, search: state.search, method: state.method, input: state.before, ...more }, key = JSON.stringify(question);
      if (!kept.has(key)) kept.set(key, await postPacked("/api/inside", question, controller.signal));
      return kept.get(key);
    };
    const plain = await ask({}), more = sameTarget(plain.content.tokens, after.content);
    return Object.keys(more).length ? ask(more) : plain;
  }

  async function look(given = value) {
    if (given !== value) Object.assign(state, { from: null, to: null, target: "", word: "" }); // a unit stays: what does it do here?
    if (given !== value) unpress(input);
    const isNew = takesPlace(given, value);
    value = given;
    state.example = value && value.example !== undefined ? String(value.example) : null;
    sources?.show(value);
    state.given = addresses.get(value) ?? null;
    keep({ isNew });
    let problem = value instanceof File ? null : await keepGiven(value);
    if (given !== value) return;
    if (typeof value === "string" && !value.trim()) {
      clear(views, message(model.reads_text ? "Type a text" : "Choose an input", "Every view follows it: change it and watch what changes."));
      return;
    }
    controller?.abort();
    controller = new AbortController();
    views.classList.add("loading");
    try {
      const after = await postPacked("/api/inside", await body(), controller.signal), before = await beforeEdit(after);
      const { content, values } = after;
      problem ??= await keepGiven(given); // of files, only those that the model could read
      if (given !== value) return;
      clear(views, problem, before ? differenceCard(before, after, () => compareEdit(null)) : null, draw(content, values));
      if (model.reads_text && state.example !== null) input.querySelector("textarea").value = content.text;
      views.classList.remove("loading");
    } catch (error) {
      if (error.name !== "AbortError") clear(views, errorBox(error));
    }
  }

  const body = () => request({ beam: state.beam, method: state.method, target: state.target, word: state.word && Number(state.word) });

  // Keep an input of one's own in the address; what went wrong, if anything.
  async function keepGiven(given) {
    if (!isOwn(given)) return null;
    let problem = null;
    if (!addresses.has(given)) addresses.set(given, await keepInput(given).catch((error) => { problem = h("p", { class: "note" }, `This browser cannot keep the file (${error.message}): there is no link to this input.`); return null; }));
    if (given !== value) return null;
    state.given = addresses.get(given);
    sources?.accept(given);
    keep();
    return problem;
  }

  // Keep a text as the one before an edit, or none.
  function compareEdit(text) {
    state.before = text;
    edit.setAttribute("aria-pressed", String(text !== null));
    look();
    if (text !== null) input.querySelector("textarea").focus();
  }
  const edit = h("button", { type: "button", class: "never", "aria-pressed": String(state.before !== null), onclick: () => compareEdit(state.before === null ? input.querySelector("textarea").value : null) }, "Compare with an edit");

  function draw(content, values) {
    const { explanation, layers, tokens, headline } = content;
    const link = makeLink();
    const names = explanation.attribution?.tokens?.length ? explanation.attribution.tokens : tokens;
    // The layers that read the input as a sequence; those of a decoder have the names of what was generated.
    const readers = layers.filter((layer) => !layer.rows && (tokens.length ? layer.steps === tokens.length && !layer.name.startsWith("decoder") : !layer.names.length));
    const nameLayer = nameLayers(layers);
    // Without tokens, layers and pictures may have different numbers of steps: the cursor is a place in the longest of them.
    const steps = [...layers.filter((layer) => readers.includes(layer)).map((layer) => layer.steps), ...content.media.filter(({ kind }) => ["line", "vectors"].includes(kind)).map(({ shape }) => shape[0]), explanation.frames?.blank.length || 0];
    const base = tokens.length || Math.max(1, ...steps);
    const hasStrip = names.length > 0 && !(isNumbered(names) && content.media.length) && content.media[0]?.kind !== "music";
    const panel = readers.length ? statePanel({ hasStrip: hasStrip && names.length === tokens.length, timed: ["line", "vectors", "sound", "music"].includes(model.input_kind), run: id, input: request, layers: readers, values, nameLayer, tokens, threshold: state.threshold ? Number(state.threshold) : undefined, changed: (text) => { state.threshold = text; keep(); }, chosen: (unit) => { state.unit = unit; if (unit) Object.assign(state, { from: null, to: null }); keep(); } }) : null;
    const phrase = (start, stop, words = []) => {
      Object.assign(state, { from: String(start), to: String(stop), unit: "" });
      keep();
      panel?.similar(start, stop, words.length ? words : tokens.length ? tokens.slice(start, stop) : [`steps ${start + 1}–${stop}`]);
    };
    const chosen = state.from !== null && state.to !== null ? [Number(state.from), Number(state.to)] : null;
    const target = model.examples.find((each) => String(each.example) === state.example)?.target;
    const answer = h("section", { class: "card" }, h("h2", {}, "Answer"), showAnswer(explanation.prediction, target), targetLine(target, explanation.prediction), unknownNote(content.unknown, explanation.prediction), headline && explanation.frames ? h("p", { class: "soft small" }, headline.split("\n").slice(1).join(" ")) : null, explanation.notes.map((note) => h("p", { class: "note" }, note)));
    const media = (options) => showMedia(content.media, values, link, { ...options, base });
    const strip = hasStrip ? tokenStrip({ tokens: names, scores: plainScores(explanation.attribution), link, select: panel && names.length === tokens.length ? phrase : null, chosen }) : null;
    const mattered = names.length || (content.media.length && !explanation.frames) ? h("section", { class: "card" }, h("div", { class: "tools" }, matteredTitle(explanation, (chosen) => { Object.assign(state, chosen); look(); }), strip ? saveBoxesButton("the tokens", () => strip.querySelector(".strip")) : null),
      explanation.frames ? null : media({ large: true, forecast: explanation.prediction.columns ? explanation.prediction : null, target }),
      isNumbered(names) && content.media.length ? scoreRow(explanation.attribution, names, link, base) : strip,
      explanation.attribution ? attributionNote(explanation.attribution) : h("p", { class: "small soft never" }, hasStrip ? "Move over the tokens, or use the arrow keys: every view below marks the same place." : "")) : null;
    const result = [h("div", { class: mattered ? "two" : "stack" }, answer, mattered)];
    const cards = [];
    if (explanation.label_choices.length) cards.push(choices(explanation.label_choices, link));
    if (explanation.frames) cards.push(framesCard(explanation.frames, media({}), { link, base }));
    if (explanation.token_values) cards.push(expectedCard(explanation.token_values, link));
    if (explanation.attention && !explanation.grid && explanation.heads.length < 2) cards.push(card(attentionMap(explanation.attention, explanation.attention.name === "alignment" ? "Alignment" : "Attention", tokens, link)));
    if (panel) {
      if (!cards.filter((each) => !each.classList.contains("full")).length) panel.box.classList.add("full");
      cards.push(panel.box);
    }
    if (explanation.grid && explanation.attention) cards.push(imageAttention(explanation.attention, explanation.grid, content.media.find((item) => item.kind === "image"), values));
    if (explanation.embedding_map) cards.push(wordMapCard(explanation.embedding_map, content.text.split(/\s+/)));
    if (explanation.beam.length) cards.push(beamTree(explanation.beam, { all: state.pruned, keep: (all) => { state.pruned = all; keep(); } }));
    result.push(h("div", { class: "grid" }, cards));
    for (const layer of layers) {
      const isReader = readers.includes(layer);
      result.push(layerCard(layer, values, { link, linked: isReader || layer.rows > 0, base, title: nameLayer(layer.name), order: state.order, onOrder: (order) => { state.order = order; keep(); }, onUnit: panel && isReader ? (unit) => panel.unit(layer.name, unit) : null, onPhrase: panel && isReader ? phrase : null }));
    }
    if (layers.length) result.push(reachCard({ input: request, tokens, link, nameLayer, steps: base }));
    if (explanation.heads.length > 1) {
      const heads = explanation.heads.slice(0, MOST_HEADS);
      result.push(h("section", { class: "card full" }, h("h2", {}, "Attention of every head"), h("div", { class: "views" }, explanation.attention && !explanation.grid ? attentionMap(explanation.attention, "mean of the heads of the last layer", tokens, link) : null, heads.map((head) => attentionMap(head, head.name, tokens, link))),
        explanation.heads.length > MOST_HEADS ? h("p", { class: "small soft" }, `${MOST_HEADS} of ${explanation.heads.length} heads`) : null));
    }
    if (chosen && panel) phrase(...chosen);
    else if (state.unit && panel) panel.restore(state.unit);
    return result;
  }

  if (model.reads_text) {
    const start = model.examples.find((example) => String(example.example) === state.example);
    const typing = debounce(() => { state.text = field.value; look(field.value); }, 300);
    const field = h("textarea", { rows: 2, value: state.text || start?.input.replaceAll("\t", " ") || "", placeholder: "Type a text", "aria-label": "Input", oninput: typing, onchange: typing.now });
    input.append(field, h("p", { class: "edit-bar never" }, edit, h("span", { class: "small soft" }, " Keeps this text, and shows what a change of it does.")), exampleList(id, model, value.example, (example) => { field.value = example.input.replaceAll("\t", " "); look({ example: example.example }); }) || "");
  } else {
    sources = otherInputs(look, model, { wiped: () => isOwn(value) && look(""), shown: own });
    input.append(exampleList(id, model, value.example, (example) => look({ example: example.example })) || "", h("details", { class: "never", open: value === "" || isOwn(value) }, h("summary", {}, "or an input of your own"), sources));
  }
  if (missing) clear(views, missingInput(state.given));
  else await look();
}

function card(...children) {
  return h("div", { class: "card" }, children);
}

// Steps without names, as of sound: a row of colours says more than numbers.
function isNumbered(names) {
  return names.length > MOST_NUMBERED && names.every((name) => /^\d+$/.test(name));
}

function scoreRow(attribution, names, link, base) {
  const scores = plainScores(attribution);
  return scores ? heatmap({ ...scaled(scores.length, base), title: "What mattered at each step", values: scores, rows: 1, columns: scores.length, rowName: () => "", columnName: (column) => `step ${names[column]}`, tickName: (column) => names[column], link, height: 24 }) : null;
}

function plainScores(attribution) {
  return attribution?.values && typeof attribution.values[0] === "number" ? attribution.values : null;
}

// A select of what is explained: the labels of a classifier, or the words of a tagger.
function matteredTitle({ attribution, label_probabilities: labels, label_choices: words }, choose) {
  if (!attribution) return h("h2", {}, "Input");
  const options = words.length ? words.slice(0, MOST_CHOICES).map(({ word, label }, index) => [String(index + 1), `${label} at “${word}”`]) : Object.keys(labels).slice(0, MOST_CHOICES).map((label) => [label, label]);
  const current = words.length ? String(attribution.position) : attribution.target;
  if (options.length < 2 || !options.some(([value]) => value === current)) return h("h2", {}, "What mattered for ", attribution.target || "the answer", attribution.word ? ` at “${attribution.word}”` : "");
  const select = h("select", { "aria-label": "What is explained", onchange: () => choose(words.length ? { word: select.value } : { target: select.value }) }, options.map(([value, text]) => h("option", { value, selected: value === current }, text)));
  return h("div", { class: "tools start grow" }, h("h2", {}, "What mattered for"), select);
}

function attributionNote(attribution) {
  const unit = attribution.is_number ? "the value" : "the log-odds";
  return h("p", { class: "small soft" }, h("span", { class: "key positive" }, "raises it"), h("span", { class: "key negative" }, "lowers it"), ` ${METHODS[attribution.method] || attribution.method}, in ${unit}`);
}

function choices(list, link) {
  const rows = list.map((choice, index) => h("tr", { onpointerenter: () => link.set(index) }, h("td", {}, choice.word), h("td", {}, choice.label), h("td", { class: "number" }, percent(choice.probability)),
    h("td", { class: "soft" }, choice.alternative), h("td", { class: "number soft" }, percent(choice.alternative_probability))));
  let current = null;
  link.listen((column) => {
    rows[current]?.removeAttribute("aria-selected");
    current = column;
    rows[current]?.setAttribute("aria-selected", "true");
  });
  return h("section", { class: "card" }, h("h2", {}, "Labels and the most probable alternatives"), h("div", { class: "table short", tabindex: 0 }, h("table", {},
    h("thead", {}, h("tr", {}, ["word", "label", "probability", "otherwise", ""].map((name, index) => h("th", { class: index === 2 ? "number" : "" }, name)))), h("tbody", {}, rows))));
}

function attentionMap(map, title, tokens, link) {
  const rows = map.rows.length, columns = map.columns.length, relation = map.name === "alignment" ? "belongs to" : "attends to";
  return heatmap({ title, values: map.weights.flat(), rows, columns, limits: [0, 1], rowName: (row) => `${map.rows[row]} ${relation}`, rowTicks: (row) => map.rows[row], columnName: (column) => map.columns[column], link: columns === tokens.length ? link : undefined, height: Math.min(260, Math.max(24, rows * 18)) });
}

// Where a caption looks: the picture once for each word, dark where it does not look.
function imageAttention(map, [rows, columns], picture, values) {
  const view = (word, index) => {
    const weights = map.weights[index], most = Math.max(...weights) || 1;
    if (!picture) return heatmap({ title: word, values: weights, rows, columns, limits: [0, most], rowName: (row) => `row ${row + 1}`, columnName: (column) => `${column + 1}`, height: 96 });
    const [height, width] = picture.shape, numbers = values.slice(picture.start, picture.start + height * width * picture.shape[2]), channels = picture.shape[2];
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
      const share = 0.2 + 0.8 * (weights[Math.floor((y * rows) / height) * columns + Math.floor((x * columns) / width)] / most);
      for (let channel = 0; channel < channels; channel++) numbers[(y * width + x) * channels + channel] *= share;
    }
    return h("figure", {}, showMedia([{ ...picture, start: 0 }], numbers), h("figcaption", {}, word));
  };
  return h("section", { class: "card full" }, h("h2", {}, "Where each word looks"), h("p", { class: "small soft" }, "Bright: the parts of the picture that the model attends to when it writes the word."), h("div", { class: "frames" }, map.rows.map(view)));
}
