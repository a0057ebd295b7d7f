// Why a model does not learn: findings in words, with the evidence.

import { post } from "../api.js";
import { lineChart } from "../chart.js";
import { clear, errorBox, h, message } from "../dom.js";
import { number, percent } from "../format.js";
import { go, remember } from "../router.js";
import { loadRuns, runSelect } from "../runs.js";

const CLASSES = { problem: "diverged", warning: "stopped", healthy: "finished" };

export async function showDoctor(main, query) {
  const { runs } = await loadRuns();
  const usable = runs.filter((run) => run.state !== "damaged");
  const id = query.get("run") || "";
  const reach = h("input", { type: "number", min: 0, value: query.get("reach") || "", placeholder: "automatic", "aria-label": "Steps back that the model has to see" });
  const ask = h("button", { class: "primary", type: "button", disabled: !id, onclick: () => examine() }, "Examine");
  const content = h("div", { "aria-live": "polite" });
  const choices = id ? usable : [{ id: "", task: "choose one", state: "" }, ...usable];
  clear(main, h("div", { class: "bar" }, h("h1", {}, "Doctor"), runSelect(choices, id, (run) => go("/doctor", { run })),
    h("label", { class: "soft" }, "Steps back that it has to remember: ", reach), h("span", { class: "grow" }), ask), content);
  if (!id) {
    clear(content, message("Choose a run", "The doctor measures gradients, gates, units and the record of the training, and says what to change."));
    return;
  }

  async function examine() {
    remember("/doctor", { run: id, reach: reach.value });
    ask.disabled = true;
    clear(content, h("p", { class: "message" }, "Measuring gradients, gates and units …"));
    try {
      clear(content, draw(await post("/api/doctor", { run: id, reach: Number(reach.value) || 0 })));
    } catch (error) {
      clear(content, errorBox(error));
    } finally {
      ask.disabled = false;
    }
  }

  await examine();
}

function title(finding) {
  return finding.part ? `${finding.name} (${finding.part})` : finding.name;
}

// What to look at first.
function summary(all) {
  const count = (severity) => all.filter((finding) => finding.severity === severity).length;
  const parts = [["problem", "problems"], ["warning", "warnings"], ["healthy", "healthy"]].filter(([name]) => count(name)).map(([name, many]) => h("span", { class: `badge ${CLASSES[name]}` }, `${count(name)} ${count(name) > 1 ? many : name}`));
  const worst = all.find((finding) => finding.severity === "problem") || all.find((finding) => finding.severity === "warning");
  return parts.length ? h("p", { class: "bar" }, h("b", {}, worst ? `First look at: ${title(worst).toLowerCase()}.` : "Nothing is wrong with what the doctor measures."), parts) : null;
}

function draw(diagnosis) {
  const healthy = diagnosis.findings.filter((finding) => finding.severity === "healthy");
  const findings = (list) => list.map((finding) => h("section", { class: "card" },
    h("div", { class: "tools" }, h("h2", {}, title(finding)), h("span", { class: `badge ${CLASSES[finding.severity]}` }, finding.severity)),
    h("p", {}, finding.verdict),
    finding.keys.length ? h("p", { class: "small soft" }, "key to change: ", finding.keys.map((key) => h("span", { class: "chip mono" }, key))) : null,
    evidence(finding.evidence)));
  const charts = diagnosis.parts.flatMap((part) => part.gradients.length ? [lineChart({
    title: `Share of the gradient that remains, by the number of steps (${part.name})`, xLabel: "steps back", logarithmic: true,
    series: part.gradients.map((curve) => ({ name: `${curve.layer}, ${curve.direction}`, points: curve.left.map((value, lag) => [lag, value]) })),
    marks: [{ y: 0.01, name: "1 % left" }],
  })] : []);
  return [
    diagnosis.source ? h("p", { class: "soft", title: diagnosis.source }, `Measured on ${diagnosis.source.split("/").slice(-2).join("/")}.`) : null,
    diagnosis.notes.map((note) => h("p", { class: "note" }, note)),
    summary(diagnosis.findings),
    healthy.length < diagnosis.findings.length ? h("div", { class: "grid findings" }, findings(diagnosis.findings.filter((finding) => finding.severity !== "healthy"))) : null,
    charts.length ? h("div", { class: "grid" }, charts) : null,
    healthy.length ? h("section", { class: "card full" }, h("h2", {}, "Healthy"), h("dl", { class: "pairs" }, healthy.map((finding) => [h("dt", {}, title(finding)), h("dd", {}, finding.verdict, evidence(finding.evidence))]))) : null,
    units(diagnosis),
  ];
}

function evidence(values) {
  const shown = Object.entries(values).filter(([, value]) => ["number", "string"].includes(typeof value));
  return shown.length ? h("details", {}, h("summary", { class: "small" }, "evidence"), h("table", {}, h("tbody", {}, shown.map(([name, value]) =>
    h("tr", {}, h("td", { class: "small soft" }, name.replaceAll("_", " ")), h("td", { class: "small number" }, typeof value === "number" ? number(value) : value)))))) : null;
}

// Tables of all layers.
function units(diagnosis) {
  const layer = (part, each) => h("td", {}, [part.name, each.layer, each.direction].join(", "));
  const share = (value) => h("td", { class: "number" }, percent(value));
  const rows = diagnosis.parts.flatMap((part) => part.units.map((unit) => h("tr", {}, layer(part, unit),
    [unit.units, unit.dead, unit.redundant].map((value) => h("td", { class: "number" }, number(value))), h("td", { class: "number" }, number(unit.effective_rank, 3)))));
  // The gates of a layer stand below its name.
  const gates = diagnosis.parts.flatMap((part) => part.gates.flatMap((gate, index) => {
    const before = part.gates[index - 1], isNew = !before || before.layer !== gate.layer || before.direction !== gate.direction;
    return [isNew ? h("tr", { class: "group-name" }, h("th", { colSpan: 4, scope: "rowgroup" }, [part.name, gate.layer, gate.direction].join(", "))) : null,
      h("tr", {}, h("td", {}, gate.gate, gate.effect ? h("span", { class: "soft" }, ` (open: ${gate.effect})`) : null), h("td", { class: "number" }, number(gate.mean, 3)), share(gate.low), share(gate.high))];
  }));
  const table = (heading, names, body, note) => body.length ? h("section", { class: "card" }, h("h2", {}, heading), h("div", { class: "table short", tabindex: 0, role: "region", "aria-label": `${heading}, can be scrolled` }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name, index) => h("th", { scope: "col", class: index ? "number" : "" }, name)))), h("tbody", {}, body))), h("p", { class: "small soft", style: { "margin-top": "8px" } }, note)) : null;
  return h("div", { class: "measures" },
    table("Units", ["layer", "units", "dead", "redundant", "rank"], rows, "Dead: does not change. Redundant: repeats another unit. Rank: how many dimensions the states fill (effective rank)."),
    table("Gates", ["gate", "mean", "low", "high"], gates, "Low and high: the share of values at which the gate is saturated, so that it passes no gradient."));
}
