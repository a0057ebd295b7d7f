// Controls of the decoding method: its name, and settings that differ from their defaults, as one text.

import { clear, h } from "./dom.js";
import { popover } from "./popover.js";

// "beam size=3" → {name, values}
function parse(text) {
  const [name = "", ...pairs] = text.trim().split(/\s+/);
  return { name, values: Object.fromEntries(pairs.map((pair) => pair.split("="))) };
}

// searches: as /api/model describes them. call(text): another method or setting was chosen; empty: that of the run.
export function searchMenu(searches, text, call) {
  const state = parse(text);
  const fields = h("div", { class: "settings" });
  const select = h("select", { "aria-label": "Decoding method", onchange: () => { state.name = select.value; state.values = {}; draw(); tell(); } },
    h("option", { value: "", selected: !state.name }, "as in the run"), searches.map(({ name }) => h("option", { value: name, selected: name === state.name }, name.replaceAll("_", " "))));
  const menu = popover("Decoding", [select, fields]);
  const summary = menu.querySelector("summary");

  function tell() {
    const chosen = searches.find(({ name }) => name === state.name);
    const changed = (chosen?.settings || []).filter(({ name, default: usual }) => name in state.values && state.values[name] !== "" && state.values[name] !== String(usual));
    const written = chosen ? [state.name, ...changed.map(({ name }) => `${name}=${state.values[name]}`)].join(" ") : "";
    summary.textContent = written ? `Decoding: ${written}` : "Decoding";
    call(written);
  }

  function draw() {
    const chosen = searches.find(({ name }) => name === state.name);
    clear(fields, chosen ? [h("p", { class: "small soft" }, chosen.about), chosen.settings.map(({ name, default: usual, about, choices }) => {
      const value = state.values[name] ?? String(usual);
      const keep = (event) => { state.values[name] = event.target.value; tell(); };
      const field = choices.length
        ? h("select", { onchange: keep }, choices.map((choice) => h("option", { value: choice, selected: choice === value }, choice)))
        : h("input", { type: "number", value, step: "any", min: 0, onchange: keep });
      return h("label", { title: about }, h("span", {}, name.replaceAll("_", " ")), field);
    })] : h("p", { class: "small soft" }, "The method with which the run was evaluated.", h("span", { class: "never" }, " Choose another one to change its settings.")));
  }

  draw();
  summary.textContent = text ? `Decoding: ${text}` : "Decoding";
  return menu;
}
