// Claims of the literature as experiments.

import { get, post } from "../api.js";
import { clear, errorBox, h } from "../dom.js";
import { number } from "../format.js";
import { address } from "../router.js";

const CLASSES = { holds: "finished", "does not hold here": "diverged", "not decided": "stopped" };

export async function showLab(main, query) {
  const { experiments } = await get("/api/lab");
  const topics = [...new Set(experiments.map((experiment) => experiment.topic))];
  clear(main, h("div", { class: "bar" }, h("h1", {}, "Lab"), h("span", { class: "soft" }, "Claims of the literature as experiments: run one here, and see whether it holds on this machine.")),
    topics.map((topic) => h("section", { class: "topic" }, h("h2", {}, topic),
      h("div", { class: "grid" }, experiments.filter((experiment) => experiment.topic === topic).map(card)))));
  document.getElementById(`claim-${query.get("claim")}`)?.scrollIntoView({ block: "start" });
}

function card(experiment) {
  const outcome = h("div", { "aria-live": "polite" });
  const buttons = [["default", "Run (a few minutes)"], ["quick", "Quick look"]].map(([preset, label]) =>
    h("button", { type: "button", onclick: () => run(preset) }, label));
  const box = h("section", { class: "card", id: `claim-${experiment.name}` }, h("h2", {}, h("a", { class: "plain", href: address("/lab", { claim: experiment.name }) }, experiment.question)), h("p", {}, experiment.claim), h("p", { class: "small soft" }, experiment.source),
    h("details", {}, h("summary", { class: "small" }, "Rule of the verdict"), h("p", { class: "small" }, experiment.rule)),
    h("p", { class: "buttons never" }, buttons), outcome);

  async function run(preset) {
    buttons.forEach((button) => { button.disabled = true; });
    clear(outcome, h("p", { class: "soft" }, preset === "quick" ? "Running …" : "Running; this takes a few minutes …"));
    try {
      show(await post("/api/lab/run", { name: experiment.name, preset }));
    } catch (error) {
      clear(outcome, errorBox(error));
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
    }
  }

  function show(result) {
    const { status, sentence } = result.verdict, figure = address("/api/lab/figure", { name: experiment.name, at: String(Date.now()) });
    clear(outcome, h("p", {}, h("span", { class: `badge ${CLASSES[status] || ""}` }, status), " ", sentence),
      result.preset === "quick" ? h("p", { class: "note" }, "A quick look: the verdict means little.") : null,
      h("img", { class: "picture", alt: `Figure: ${experiment.question}`, src: figure }),
      h("p", { class: "small faint" }, `${number(result.minutes, 2)} minutes · `, h("a", { class: "never", href: figure, download: `${experiment.name}.svg` }, "save the figure as SVG")));
  }

  if (experiment.result) show(experiment.result);
  return box;
}
