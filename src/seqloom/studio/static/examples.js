// Dev examples to begin with, as a list.

import { h } from "./dom.js";
import { thumbnail } from "./texts.js";

export function exampleName(example) {
  return example.input.replaceAll("\t", " ") || example.place.split("/").at(-1);
}

// Nothing in the list is what the model reads now.
export function unpress(box) {
  for (const button of box.querySelectorAll(".list [aria-pressed=true]")) button.setAttribute("aria-pressed", "false");
}

// run: whose dev data they are. call(example): one was chosen.
export function exampleList(run, model, chosen, call) {
  if (!model.examples.length) return model.note ? h("p", { class: "small soft" }, model.note) : null;
  return h("div", { class: "examples never" }, h("h3", {}, model.reads_text ? "or an example of the dev data" : "An example of the dev data"),
    h("div", { class: `list${model.pictures ? " pictured" : ""}` }, model.examples.map((example) => h("button", { type: "button", "aria-pressed": String(chosen === example.example), "aria-label": exampleName(example), title: `${example.place}${example.target && !example.target.includes("\t") ? `: ${example.target}` : ""}`, onclick: (event) => {
      call(example);
      event.currentTarget.setAttribute("aria-pressed", "true");
    } }, model.pictures ? thumbnail(run, example.example) : null, model.pictures ? null : exampleName(example), example.target && !example.target.includes("\t") ? h("small", {}, example.target.split("\n")[0]) : model.pictures ? h("small", {}, exampleName(example)) : null))));
}
