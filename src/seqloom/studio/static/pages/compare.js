// Several runs: their curves, scores, and what differed.

import { get } from "../api.js";
import { lineChart } from "../chart.js";
import { clear, colour, h, message } from "../dom.js";
import { count, duration, interval, number, setting } from "../format.js";
import { address, remember } from "../router.js";
import { badge, bestRuns, loadRuns } from "../runs.js";

const AXES = { update: "updates", epoch: "epochs" };
const MOST = 10;

export async function showCompare(main, query) {
  const { runs: all } = await loadRuns();
  const usable = all.filter((run) => run.state !== "damaged");
  const state = { ids: query.getAll("runs").filter((id) => usable.some((run) => run.id === id)), axis: query.get("axis") in AXES ? query.get("axis") : "update" };
  const content = h("div");
  const list = h("details", { open: !state.ids.length }, h("summary", {}, "Choose runs"), h("div", { class: "strip", style: { "margin-top": "8px" } }, usable.map((run) => {
    const box = h("input", { type: "checkbox", checked: state.ids.includes(run.id), onchange: () => {
      state.ids = box.checked ? [...state.ids, run.id].slice(-MOST) : state.ids.filter((id) => id !== run.id);
      draw();
    } });
    return h("label", { class: "chip" }, box, ` ${run.id} `, h("i", {}, run.task));
  })));
  const axis = h("select", { "aria-label": "Horizontal axis", onchange: () => { state.axis = axis.value; draw(); } },
    Object.entries(AXES).map(([value, name]) => h("option", { value, selected: value === state.axis }, `over ${name}`)));
  clear(main, h("div", { class: "bar" }, h("h1", {}, "Compare"), h("span", { class: "grow" }), axis), list, content);

  async function draw() {
    remember("/compare", { runs: state.ids, axis: state.axis === "update" ? "" : state.axis });
    if (state.ids.length < 2) {
      clear(content, message("Choose two or more runs", "Their curves, scores and settings appear side by side."));
      return;
    }
    const details = await Promise.all(state.ids.map((id) => get("/api/run", { run: id })));
    const runs = details.map((detail) => detail.run);
    const best = bestRuns(runs);
    const curves = (points) => details.map((detail, index) => ({ name: detail.run.id, colour: colour(index), points: points(detail) }));
    const x = (row) => row[state.axis];
    const metrics = [...new Set(runs.map((run) => run.metric))];
    const charts = metrics.map((metric) => lineChart({ title: `${metric} on the dev data`, xLabel: AXES[state.axis],
      series: curves((detail) => detail.rows.filter((row) => typeof row.dev?.[metric] === "number").map((row) => [x(row), row.dev[metric]])) }));
    charts.push(lineChart({ title: "Training loss", xLabel: AXES[state.axis],
      series: curves((detail) => detail.rows.filter((row) => typeof row.loss === "number").map((row) => [x(row), row.loss])) }));
    clear(content,
      metrics.length > 1 ? h("p", { class: "note" }, "These runs have different metrics: their scores cannot be compared.") : null,
      h("div", { class: "grid", style: { margin: "16px 0" } }, charts),
      h("div", { class: "two" }, scoreTable(runs, best), differenceTable(runs)));
  }

  await draw();
}

function scoreTable(runs, best) {
  const rows = runs.map((run, index) => h("tr", {},
    h("td", { class: "swatch", style: { "--colour": colour(index) } }, h("a", { href: address("/run", { run: run.id }) }, run.id)),
    h("td", {}, badge(run)),
    h("td", { class: "number" }, run.best ? h("span", { class: best.has(run.id) ? "best" : "" }, number(run.best.value) + (best.has(run.id) ? " ★" : "")) : "–"),
    h("td", { class: "number soft" }, interval(run.best)),
    h("td", { class: "number soft" }, count(run.parameters)),
    h("td", { class: "number soft" }, duration(run.seconds))));
  return h("section", {}, h("h2", {}, "Scores"), h("div", { class: "table" }, h("table", {},
    h("thead", {}, h("tr", {}, ["run", "state", "best", "95 % interval", "parameters", "time"].map((name, index) => h("th", { class: index > 1 ? "number" : "" }, name)))), h("tbody", {}, rows))),
  overlap(runs));
}

// What the intervals allow to say about the two best.
function overlap(runs) {
  const scored = runs.filter((run) => run.best && run.best.low !== null && run.metric === runs[0].metric);
  if (scored.length < 2) return null;
  const sign = scored[0].higher_is_better ? 1 : -1;
  const [first, second] = [...scored].sort((a, b) => sign * (b.best.value - a.best.value));
  const apart = sign > 0 ? first.best.low > second.best.high : first.best.high < second.best.low;
  return h("p", { class: "note" }, apart
    ? `The 95 % confidence intervals of ${first.id} and ${second.id} do not overlap: ${first.id} is better.`
    : `The 95 % confidence intervals of ${first.id} and ${second.id} overlap: the difference may be chance. seqloom compare tests it example by example.`);
}

function differenceTable(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].sort();
  const different = keys.filter((key) => new Set(runs.map((run) => setting(run.settings[key] ?? null))).size > 1);
  const rows = different.map((key) => h("tr", {}, h("td", { class: "mono" }, key),
    runs.map((run) => h("td", { class: "mono" }, key in run.settings ? setting(run.settings[key]) : h("span", { class: "faint" }, "–")))));
  return h("section", {}, h("h2", {}, "Settings that differ"), rows.length ? h("div", { class: "table" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "key"), runs.map((run) => h("th", {}, run.id)))), h("tbody", {}, rows)))
    : h("p", { class: "soft" }, "None: the runs have the same configuration."));
}
