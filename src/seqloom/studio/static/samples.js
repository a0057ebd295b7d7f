// A few dev examples that are answered again at each evaluation: what the model learns, and what it forgets.

import { isRight } from "./answer.js";
import { saveBoxesButton } from "./boxes.js";
import { clear, h } from "./dom.js";
import { number } from "./format.js";
import { answerText, inputText, targetText } from "./texts.js";

// Returns a function that draws the answers of the rows; the chosen evaluation stays chosen while rows arrive.
// chosen: its number; null: the last one. keep(chosen): another one was chosen.
export function sampleAnswers(box, samples, chosen, keep) {
  const slider = h("input", { type: "range", min: 0, "aria-label": "Evaluation", oninput: () => { chosen = slider.value === slider.max ? null : Number(slider.value); keep(chosen); fill(); } });
  const label = h("span", { class: "soft number" });
  const body = h("tbody");
  const hasTarget = samples.some((sample) => sample.target);
  let evaluations = [];

  function fill() {
    const last = evaluations.length - 1, at = chosen === null ? last : Math.min(chosen, last), now = evaluations[at];
    slider.max = String(last);
    slider.value = String(at);
    slider.hidden = last < 1;
    label.textContent = `epoch ${number(now.epoch, 3)}, update ${number(now.update)}`;
    clear(body, samples.map((sample, index) => h("tr", {},
      h("td", { class: "wrap" }, inputText(sample)),
      hasTarget ? h("td", { class: "wrap" }, targetText({ ...sample, answers: [now.answers[index] ?? ""] })) : null,
      h("td", { class: "wrap" }, answerText(now.answers[index] ?? "", sample.target, sample.input)),
      h("td", {}, history(sample, index, at)))));
  }

  // A dot for each evaluation: filled where the answer was right.
  function history(sample, index, at) {
    if (!sample.target) return null;
    const shown = evaluations.slice(-40), offset = evaluations.length - shown.length;
    const right = shown.map((each) => isRight(each.answers[index], sample.target));
    return h("svg:svg", { width: 8 * shown.length + 4, height: 12, role: "img", "aria-label": `right at ${right.filter(Boolean).length} of ${shown.length} evaluations` }, right.map((each, place) =>
      h("svg:circle", { cx: 6 + 8 * place, cy: 6, r: place + offset === at ? 4 : 2.5, fill: each ? "var(--good)" : "none", stroke: each ? "var(--good)" : "var(--faint)" })));
  }

  return (rows) => {
    evaluations = rows.filter((row) => Array.isArray(row.answers));
    if (!samples.length || !evaluations.length) return;
    if (!box.firstChild) {
      box.append(h("section", { class: "card full" }, h("div", { class: "tools" }, h("h2", {}, "What it answers to some dev examples"), h("span", {}, label, " ", slider, " ", saveBoxesButton("the answers to some dev examples", () => box.querySelector(".table")))),
        h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, ["input", hasTarget ? "target" : "", "answer", "right at each evaluation"].filter(Boolean).map((name) => h("th", {}, name)))), body))));
    }
    fill();
  };
}
