// The tokens of an input: a cursor, a selection, and how much each mattered.

import { h } from "./dom.js";
import { number } from "./format.js";
import { shadeCss } from "./heatmap.js";

const MOST = 2000; // tokens that are shown

export function visible(token) {
  return token === " " ? "␣" : token.replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅";
}

// scores: a value for each token, or null. select(start, stop): a phrase was selected.
export function tokenStrip({ tokens, scores, link, select, chosen = null }) {
  const shown = tokens.slice(0, MOST);
  const extreme = scores ? scores.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12) : 1;
  const decimals = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(extreme)))), text = (value) => value.toFixed(decimals).replace(/^-(0\.?0*)$/, "$1");
  const dense = shown.length > 120 || shown.every((token) => token.length <= 1 || /^<.*>$/.test(token));
  const buttons = shown.map((token, index) => h("button", {
    type: "button", class: "token", tabindex: index ? -1 : 0, style: scores ? { background: shadeCss((scores[index] / extreme) * 0.8) } : {},
    title: scores ? `${token}: ${number(scores[index], 3)}` : token, "aria-label": scores ? `${token}, ${number(scores[index], 2)}` : token,
  }, visible(token), scores && !dense ? h("small", {}, Math.abs(scores[index]) < 0.05 * extreme ? "\u00a0" : text(scores[index])) : null));
  if (scores) buttons.forEach((button, index) => { if (Math.abs(scores[index]) > 0.7 * extreme) button.classList.add("strong"); });
  let anchor = null, dragging = false, current = null, selected = [0, 0];
  const mark = (start, stop) => {
    for (let index = selected[0]; index < selected[1]; index++) buttons[index]?.classList.remove("selected");
    selected = [start, stop];
    for (let index = start; index < stop; index++) buttons[index]?.classList.add("selected");
  };
  const extend = (index) => mark(Math.min(anchor, index), Math.max(anchor, index) + 1);
  const finish = () => { if (selected[1] > selected[0]) select?.(...selected, shown.slice(...selected)); };
  link.listen((column) => {
    buttons[current]?.classList.remove("current");
    current = column;
    buttons[current]?.classList.add("current");
  });
  const indexOf = (target) => buttons.indexOf(target.closest?.(".token"));
  const box = h("div", { class: `strip${dense ? " dense" : ""}`, role: "group", "aria-label": "Tokens: arrow keys move, with Shift they select a phrase" });
  box.append(...buttons);
  box.addEventListener("pointerover", (event) => {
    const index = indexOf(event.target);
    if (index < 0) return;
    link.set(index);
    if (dragging) extend(index);
  });
  box.addEventListener("pointerdown", (event) => {
    const index = indexOf(event.target);
    if (index < 0 || event.button) return;
    anchor = event.shiftKey && anchor !== null ? anchor : index;
    dragging = Boolean(select);
    extend(index);
  });
  box.addEventListener("pointerup", () => { if (dragging) { dragging = false; finish(); } });
  box.addEventListener("focusin", (event) => { const index = indexOf(event.target); if (index >= 0) link.set(index); });
  box.addEventListener("keydown", (event) => {
    const at = indexOf(document.activeElement);
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -at, End: shown.length - 1 - at }[event.key];
    const next = step !== undefined && buttons[at + step];
    if (next) {
      event.preventDefault();
      if (event.shiftKey) { anchor ??= at; extend(at + step); } else anchor = null;
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (selected[0] === selected[1]) mark(at, at + 1);
      finish();
    }
  });
  box.addEventListener("keyup", (event) => { if (event.key === "Shift" && selected[1] - selected[0] > 1) finish(); });
  if (chosen && chosen[1] <= shown.length) mark(...chosen);
  return h("div", {}, box, tokens.length > MOST ? h("p", { class: "small soft" }, `the first ${MOST} of ${tokens.length} tokens`) : null);
}
