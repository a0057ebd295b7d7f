// A prediction as people read it, whatever the task.

import { saveBoxesButton } from "./boxes.js";
import { h } from "./dom.js";
import { number, percent } from "./format.js";
import { visible } from "./strip.js";

const SHOWN = 8;

// Whether an answer is the target, or one of several.
export function isRight(text, target) {
  return Boolean(target) && (text === target || target.split("\n").includes(text));
}

// target: of a dev example, its elements separated by tabs where there are several.
export function showAnswer(prediction, target = "") {
  const parts = [];
  if (prediction.labels && prediction.words) parts.push(tagged(prediction, target));
  else if (prediction.label !== undefined) parts.push(h("p", { class: "answer" }, String(prediction.label)));
  if (prediction.probabilities && !Array.isArray(prediction.probabilities)) parts.push(meter(prediction.probabilities));
  if (typeof prediction.text === "string" && prediction.nll === undefined) parts.push(h("p", { class: "answer" }, prediction.text || h("span", { class: "faint" }, "(empty)")));
  if (prediction.masks?.length) parts.push(prediction.masks.map((tokens, index) => h("div", {}, h("h3", {}, prediction.masks.length > 1 ? `Most probable at gap ${index + 1}` : "Most probable in the gap"), meter(Object.fromEntries(tokens.map((each) => [each.token, each.probability]))))));
  if (prediction.nbest?.length > 1) parts.push(nbest(prediction.nbest));
  if (prediction.perplexity !== undefined) parts.push(h("p", { class: "answer" }, `perplexity ${number(prediction.perplexity)}`), h("p", { class: "soft" }, `On average, the model was as unsure about the next token as in a choice among ${number(prediction.perplexity, 2)} equally probable ones. Log-probability of the text: ${number(prediction.log_probability)}.`));
  if (prediction.log_likelihoods && prediction.nll !== undefined) {
    const unit = prediction.text === undefined ? "frame" : "point";  // of music or of handwriting
    parts.push(h("p", { class: "answer" }, `${number(prediction.nll)} nats per ${unit}`), h("p", { class: "soft" }, `How much each ${unit} surprised the model, on average (negative log-likelihood): the lower, the more it is like what the model learned from.`));
  }
  if (prediction.columns && prediction.values) parts.push(forecast(prediction));
  if (prediction.value !== undefined) parts.push(h("p", { class: "answer" }, [prediction.value].flat().map((value) => number(value)).join(", ")));
  if (prediction.neighbours) parts.push(meter(Object.fromEntries(prediction.neighbours.map((item) => [item.word ?? item[0], item.similarity ?? item[1]])), (value) => value.toFixed(3), "the similarities"));
  if (prediction.kind && prediction.words && prediction.scores) parts.push(nearestWords(prediction));
  if (prediction.warning) parts.push(h("p", { class: "note" }, prediction.warning));
  if (!parts.length) parts.push(h("pre", {}, JSON.stringify(prediction, null, 2)));
  return h("div", {}, parts);
}

const MOST_UNKNOWN = 8; // words

// Says which words of a text the model does not know; nothing if it knows all of them, or if a prediction says it already.
export function unknownNote({ words, read_by: aids }, prediction) {
  if (!words.length || prediction.warning) return null;
  const one = words.length === 1, named = words.slice(0, MOST_UNKNOWN).map((word) => `“${visible(word)}”`).join(", "), more = words.length - MOST_UNKNOWN;
  return h("p", { class: "note" }, `${named}${more > 0 ? ` and ${more} more` : ""} ${one ? "is" : "are"} not in the vocabulary: the model reads ${one ? "it" : "them"} as <unk>${aids ? `, and by ${one ? "its" : "their"} ${aids}` : ""}.`);
}

// Whether an answer is that of the data; nothing if they have none, or one for each element.
export function targetLine(target, prediction) {
  if (!target || target.includes("\t") || prediction.nll !== undefined) return null;
  const answer = prediction.label ?? prediction.text ?? (prediction.kind === "analogy" ? prediction.words?.[0] : undefined), text = target.replaceAll("\n", " / ");
  if (typeof answer !== "string") return h("p", { class: "target soft" }, "In the data: ", text);
  return isRight(answer, target) ? h("p", { class: "target right" }, "✓ as in the data") : h("p", { class: "target" }, h("span", { class: "bad" }, "✗ "), h("span", { class: "soft" }, "in the data: "), text);
}

// Of word vectors: the words that answer a question, or those near a word.
function nearestWords({ kind, words, scores, unknown = [] }) {
  if (kind === "odd") return h("p", { class: "answer" }, `${words[0]} is the odd one out`);
  return h("div", {}, words.length ? h("p", { class: "answer" }, words[0]) : null, meter(Object.fromEntries(words.map((word, index) => [word, scores[index]])), (value) => value.toFixed(3), "the similarities"), h("p", { class: "small soft" }, "Cosine similarity of the word vectors."),
    unknown.length ? h("p", { class: "note" }, `Unknown: ${unknown.join(", ")}`) : null);
}

export function meter(values, format = percent, title = "the probabilities") {
  const entries = Object.entries(values).sort((a, b) => b[1] - a[1]);
  const rows = entries.slice(0, SHOWN).flatMap(([name, value]) => [
    h("span", {}, name),
    h("div", { role: "img", "aria-label": `${name} ${format(value)}` }, h("i", { style: { width: `${Math.max(0, Math.min(1, value)) * 100}%` } })),
    h("span", { class: "number small" }, format(value)),
  ]);
  const bars = h("div", { class: "meter" }, rows);
  return h("div", { class: "meters savable" }, bars, saveBoxesButton(title, () => bars), entries.length > SHOWN ? h("p", { class: "faint small" }, `and ${entries.length - SHOWN} more`) : null);
}

function tagged({ words, labels, probabilities }, target) {
  const wanted = target.split("\t"), known = wanted.length === labels.length && target !== "", isRight = (index) => !known || labels[index] === wanted[index];
  const right = labels.filter((_, index) => isRight(index)).length;
  return h("div", {}, h("div", { class: "strip" }, words.map((word, index) => h("span", { class: "token", title: `${Array.isArray(probabilities) ? percent(probabilities[index]) : ""}${isRight(index) ? "" : `; target: ${wanted[index]}`}` }, word || String(index + 1), h("small", { class: isRight(index) ? "" : "wrong" }, labels[index]), isRight(index) ? null : h("small", { class: "right" }, wanted[index])))),
    known ? h("p", { class: "small soft" }, right === labels.length ? "All labels are those of the data." : `${right} of ${labels.length} labels are those of the data; where not, the right one stands below in green.`) : null);
}

function nbest(candidates) {
  return h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, ["", "answer", "score"].map((name) => h("th", {}, name)))),
    h("tbody", {}, candidates.map((candidate, index) => h("tr", {}, h("td", { class: "faint" }, String(index + 1)), h("td", {}, candidate.text), h("td", { class: "number" }, number(candidate.score)))))));
}

function forecast({ columns, values, times = [], quantiles = {} }) {
  const [low, high] = [quantiles["0.1"], quantiles["0.9"]];
  const range = (row, column) => (low && high ? h("small", { class: "unit" }, `${number(low[row][column], 3)} … ${number(high[row][column], 3)}`) : null);
  return h("div", {}, h("div", { class: "table short" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, times.length ? "time" : "step"), columns.map((name) => h("th", { class: "number" }, name)))),
    h("tbody", {}, values.map((row, index) => h("tr", {}, h("td", { class: "soft" }, times[index] ?? String(index + 1)), row.map((value, column) => h("td", { class: "number" }, number(value), range(index, column)))))))),
    low && high ? h("p", { class: "small soft" }, "Below each value: the range in which the model expects 80 % of the values.") : null);
}
