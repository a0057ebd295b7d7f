// Two runs on the same dev examples: the paired interval of the difference, and where their answers differ.

import { post } from "./api.js";
import { clear, errorBox, h } from "./dom.js";
import { number } from "./format.js";
import { address } from "./router.js";
import { answerText, inputText, targetText, thumbnail } from "./texts.js";

const SHOWN = 20; // examples, and as many more at each click

// pair: the ids of two runs. tint(id): the colour of a run. side: which examples are listed first. choose(pair), keep(side): others were chosen.
export function disagreementCard(runs, { pair, tint, side: listed, choose, keep }) {
  const body = h("div", { "aria-live": "polite" });
  const selects = [0, 1].map((side) => h("select", { "aria-label": side ? "Second run" : "First run", onchange: () => choose([selects[0].value, selects[1].value]) },
    runs.map((run) => h("option", { value: run.id, selected: run.id === pair[side] }, run.id))));
  const box = h("section", { class: "card full" }, h("div", { class: "tools" }, h("h2", {}, "Where two runs disagree"), h("span", {}, selects[0], " and ", selects[1])), body);
  load();
  return box;

  async function load() {
    if (pair[0] === pair[1]) { clear(body, h("p", { class: "soft" }, "Choose two different runs.")); return; }
    clear(body, h("p", { class: "faint" }, "Both models answer the dev data …"));
    try {
      draw(await post("/api/disagreements", { runs: pair }));
    } catch (error) {
      clear(body, errorBox(error));
    }
  }

  function draw(result) {
    const sides = [["all", "largest difference first"], ["0", `${pair[0]} is better`], ["1", `${pair[1]} is better`]];
    const list = h("tbody"), counted = h("span", { class: "small soft", role: "status" });
    const more = h("button", { type: "button", class: "never", onclick: () => { shown += SHOWN; fill(); } }, "Show more");
    let shown = SHOWN;
    const select = h("select", { "aria-label": "Which examples", onchange: () => { keep(select.value === "all" ? "" : select.value); shown = SHOWN; fill(); } }, sides.map(([value, text]) => h("option", { value, selected: value === listed }, text)));
    const sign = result.higher_is_better ? 1 : -1;
    function fill() {
      const gap = ({ scores }) => sign * ((scores[1] ?? 0) - (scores[0] ?? 0));
      const all = result.shown.filter((each) => select.value === "all" || (select.value === "1" ? gap(each) > 0 : gap(each) < 0)), kept = all.slice(0, shown);
      counted.textContent = all.length > kept.length ? `${number(kept.length)} of ${number(all.length)} shown` : "";
      more.hidden = all.length <= kept.length;
      clear(list, kept.map((each) => h("tr", {},
        h("td", { class: "wrap" }, h("a", { href: address("/inside", { run: pair[0], example: String(each.example) }), title: each.place }, result.pictures ? thumbnail(pair[0], each.example) : null, inputText(each))),
        hasTarget ? h("td", { class: "wrap" }, targetText(each)) : null,
        [0, 1].map((side) => h("td", { class: "wrap" }, answerText(each.answers[side], each.target, each.input))),
        [0, 1].map((side) => h("td", { class: "number soft" }, number(each.scores[side], 3))))));
      if (!kept.length) clear(list, h("tr", {}, h("td", { colSpan: 6, class: "soft" }, "There are none.")));
    }
    const hasTarget = result.shown.some((each) => each.target);
    const swatch = (side) => h("span", { class: "swatch", style: { "--colour": tint(pair[side]) } }, pair[side]);
    clear(body, verdict(result),
      h("div", { class: "bar" }, h("span", { class: "soft" }, `${number(result.disagreements)} of ${number(result.examples)} dev examples differ`), h("span", { class: "grow" }), select),
      h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "input"), hasTarget ? h("th", {}, "target") : null, [0, 1].map((side) => h("th", {}, swatch(side))), [0, 1].map((side) => h("th", { class: "number" }, h("span", { class: "swatch", style: { "--colour": tint(pair[side]) } }, `${result.metric} of ${pair[side]}`))))), list)),
      h("p", {}, counted, " ", more),
      result.note ? h("p", { class: "small soft" }, result.note) : null);
    fill();
  }

  // Of the better run; of the first if none is.
  function verdict({ scores, interval, better, metric, higher_is_better: higher }) {
    if (!scores) return h("p", { class: "note" }, "This task has no paired difference.");
    const own = better ?? 0, other = 1 - own, difference = scores[own] - scores[other], signed = (value) => `${value > 0 ? "+" : ""}${number(value, 3)}`;
    const ends = interval && (own ? interval : [-interval[1], -interval[0]]);
    const range = interval ? `, 95 % confidence interval [${ends.map(signed).join(", ")}] by a paired bootstrap over the examples` : "";
    const words = better === null || better === undefined
      ? (interval ? "The interval includes 0: these examples do not decide which is better." : "There are too few examples for an interval.")
      : `${pair[better]} is better on these examples.`;
    return h("p", { class: "verdict" }, h("b", {}, words), h("span", { class: "soft" }, ` ${metric} ${number(scores[own])} of ${pair[own]} against ${number(scores[other])} of ${pair[other]}: difference ${signed(difference)} (${higher ? "higher" : "lower"} is better)${range}. It does not cover chance in training: seqloom compare trains several seeds.`));
  }
}
