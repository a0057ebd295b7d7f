// Dev examples to begin with, as a list.

import { h, rove } from "./dom.js";
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
  const label = (example) => `${example.place}${example.target && !example.target.includes("\t") ? `: ${example.target}` : ""}`;
  const remark = (example) => (example.target && !example.target.includes("\t") ? example.target.split("\n")[0] : model.pictures ? exampleName(example) : "");
  const buttons = model.examples.map((example) => h("button", { type: "button", "aria-pressed": String(chosen === example.example), "aria-label": exampleName(example), title: label(example), onclick: (event) => {
    call(example);
    event.currentTarget.setAttribute("aria-pressed", "true");
  } }, model.pictures ? thumbnail(run, example.example) : exampleName(example), remark(example) ? h("small", {}, remark(example)) : null));
  const list = h("div", { class: `list${model.pictures ? " pictured" : ""}`, role: "toolbar", "aria-label": "Dev examples, arrow keys move" }, buttons);
  rove(list, buttons, model.examples.findIndex((example) => example.example === chosen));
  return h("div", { class: "examples never" }, h("h3", {}, model.reads_text ? "or an example of the dev data" : "An example of the dev data"), list);
}
