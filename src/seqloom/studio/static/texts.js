// Inputs, targets and answers side by side; of aligned sequences, each label under its word.

import { h } from "./dom.js";
import { address } from "./router.js";

// A target or an answer; parts that differ from the target are marked.
export function answerText(text, target, input = "") {
  if (!text) return h("span", { class: "faint" }, "(empty)");
  if (!text.includes("\t") && !input.includes("\t")) return h("span", { class: target && text !== target && !target.split("\n").includes(text) ? "wrong" : target ? "right" : "" }, text);
  const wanted = target.split("\t"), words = input.split("\t");
  return h("span", { class: "aligned" }, text.split("\t").map((label, index) => h("span", { class: target && label !== wanted[index] ? "wrong" : "" }, h("small", {}, words[index] ?? ""), label)));
}

// The target of an example; of aligned sequences, labels that an answer misses are marked.
export function targetText({ input, target, answers = [] }) {
  if (!target.includes("\t") && !input.includes("\t")) return target.split("\n").map((line) => h("div", {}, line));
  const words = input.split("\t"), given = answers.map((answer) => answer.split("\t"));
  return h("span", { class: "aligned" }, target.split("\t").map((label, index) => h("span", { class: given.some((labels) => labels[index] !== label) ? "right" : "" }, h("small", {}, words[index] ?? ""), label)));
}

export function inputText(example) {
  return example.input.replaceAll("\t", " ") || example.place.split("/").at(-1);
}

// A small picture of a dev example that is no text; nothing if there is none.
export function thumbnail(run, example) {
  const image = h("img", { class: "thumbnail", alt: "", loading: "lazy", src: address("/api/thumbnail", { run, example: String(example) }), onerror: () => image.remove() });
  return image;
}
