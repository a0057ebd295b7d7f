// One run: its curves while it trains, its scores, its settings.

import { get, post } from "../api.js";
import { axisLabel, axisSelect, chosenAxis, chosenSmoothing, points, smoothed, smoothingSelect } from "../axes.js";
import { lineChart, makeScales, makeView, parseRange, rangeText } from "../chart.js";
import { clear, colour, errorBox, h, paced } from "../dom.js";
import { count, date, duration, interval, number, percent } from "../format.js";
import { address, remember } from "../router.js";
import { badge } from "../runs.js";
import { sampleAnswers } from "../samples.js";

export async function showRun(main, query) {
  const id = query.get("run") || "";
  const data = await get("/api/run", { run: id });
  const { run, rows } = data;
  const state = { axis: chosenAxis(query.get("axis"), [rows]), evaluation: query.get("evaluation"), smoothing: chosenSmoothing(query.get("smoothing") || "") };
  const scales = makeScales(query.getAll("scale"), () => keep());
  const view = makeView(parseRange(query.get("zoom")), () => keep());
  const keep = () => remember("/run", { run: id, axis: state.axis === "update" ? "" : state.axis, zoom: rangeText(view.range), scale: scales.all(), evaluation: state.evaluation, smoothing: state.smoothing });
  const stateBadge = h("span", {}, badge(run));
  const problem = h("div");
  const stop = h("button", { type: "button", onclick: () => act("/api/stop") }, "Stop");
  const resume = h("button", { type: "button", onclick: () => act("/api/resume") }, "Resume");
  const facts = h("div", { class: "facts" });
  const charts = h("div");
  const samples = h("div");
  const drawSamples = sampleAnswers(samples, data.samples || [], state.evaluation === null ? null : Number(state.evaluation), (evaluation) => { state.evaluation = evaluation === null ? null : String(evaluation); keep(); });
  clear(main,
    h("div", { class: "bar" }, h("h1", {}, id), stateBadge, h("span", { class: "soft" }, run.task), h("span", { class: "grow" }), stop, resume,
      h("a", { class: "button", href: address("/data", { run: id }) }, "All answers"), h("a", { class: "button", href: address("/try", { run: id }) }, "Try it"), h("a", { class: "button", href: address("/inside", { run: id }) }, "See inside"), h("a", { class: "button", href: address("/doctor", { run: id }) }, "Ask the doctor")),
    problem, troubles(data), facts, h("div", { class: "bar" }, h("h2", {}, "Learning curves"), h("span", { class: "small soft never" }, "Drag over a part to zoom in."), h("span", { class: "grow" }), smoothingSelect(state.smoothing, (weight) => { state.smoothing = weight; keep(); draw(); }), axisSelect(state.axis, [rows], (axis) => {
      state.axis = axis;
      view.zoom(null); // another unit
      draw();
    })), charts, samples, scores(data), settings(data), pictures(id, data.pictures));

  const noEvaluation = () => (run.state === "training" ? "no evaluation yet" : "no evaluation");
  const drawn = {
    loss: lineChart({ title: "Loss", view, scales, series: [] }),
    score: lineChart({ title: `${run.metric || "Score"} on the dev data`, view, scales, series: [], marks: run.baseline === null ? [] : [{ y: run.baseline, name: "baseline" }], empty: noEvaluation }),
    rate: lineChart({ title: "Learning rate", view, scales, series: [] }),
    norm: lineChart({ title: "Gradient norm", view, scales, series: [], logarithmic: true, empty: "this model is not trained by gradient descent" }),
    clipped: lineChart({ title: "Share of clipped updates", view, scales, series: [], limits: [0, 1], empty: "no clipping" }),
  };
  charts.append(h("div", { class: "two" }, drawn.loss, drawn.score), h("div", { class: "thirds" }, drawn.rate, drawn.norm, drawn.clipped));

  function draw() {
    const label = axisLabel(state.axis);
    const curve = (name) => points(rows, state.axis, (row) => row[name]);
    const dev = (name) => points(rows, state.axis, (row) => row.dev?.[name]);
    drawn.loss.update([...smoothed({ name: "training data", colour: colour(0), points: curve("loss") }, state.smoothing), { name: "dev data", colour: colour(1), points: dev("loss"), dashed: true }], label);
    drawn.score.update([{ name: run.metric, points: dev(run.metric) }], label);
    drawn.rate.update([{ name: "learning rate", points: curve("learning_rate") }], label);
    drawn.norm.update([{ name: "norm", points: curve("gradient_norm") }], label);
    drawn.clipped.update([{ name: "clipped", points: curve("clipped") }], label);
    const last = rows.at(-1) || {}, limit = run.settings["train.updates"];
    clear(facts,
      fact("best " + run.metric, run.best ? number(run.best.value) : "–", run.best ? interval(run.best) || `epoch ${number(run.best.epoch, 3)}` : noEvaluation()),
      fact("last", run.last ? number(run.last.value) : "–", run.last ? `epoch ${number(run.last.epoch, 3)}` : ""),
      run.baseline === null ? null : fact("baseline", number(run.baseline), data.baseline),
      fact("epoch", number(last.epoch ?? 0, 3), `update ${number(last.update ?? 0)}${limit ? ` of ${number(limit)}` : ""}`),
      fact("parameters", count(run.parameters), ""),
      fact("training time", duration(run.seconds || last.seconds), run.started ? `started ${date(run.started)}` : ""),
      fact("examples", count(data.examples.train), data.examples.dev ? `${number(data.examples.dev)} dev` : "no dev data"));
    drawSamples(rows);
    const training = run.state === "training";
    stop.hidden = !training;
    resume.hidden = run.state !== "stopped";
    clear(stateBadge, badge(run));
    if (run.finished) stateBadge.title = run.finished;
  }

  async function act(path) {
    stop.disabled = resume.disabled = true;
    try {
      await post(path, { run: id });
      clear(problem);
    } catch (error) {
      clear(problem, errorBox(error));
    } finally {
      stop.disabled = resume.disabled = false;
    }
  }

  draw();
  const drawSoon = paced(draw); // a training that is watched keeps its speed
  const events = new EventSource(address("/api/watch", { run: id, from: String(rows.length) }));
  events.addEventListener("rows", (event) => {
    const update = JSON.parse(event.data);
    rows.splice(update.from, Infinity, ...update.rows);
    for (const row of update.rows) {
      if (typeof row.dev?.[run.metric] !== "number") continue;
      const [low, high] = row.dev[`${run.metric}_interval`] || [null, null];
      run.last = { value: row.dev[run.metric], low, high, epoch: row.epoch, update: row.update };
      const sign = run.higher_is_better ? 1 : -1;
      if (!run.best || sign * run.last.value > sign * run.best.value) run.best = run.last;
    }
    drawSoon();
  });
  events.addEventListener("state", async (event) => {
    const { training } = JSON.parse(event.data);
    if (training === (run.state === "training")) return;
    Object.assign(run, (await get("/api/run", { run: id })).run);
    draw();
  });
  return () => events.close();
}

// What went wrong, as far as the training itself has noticed.
function troubles({ run, warnings }) {
  const texts = [...warnings];
  const worse = run.best && run.baseline !== null && (run.higher_is_better ? run.best.value <= run.baseline : run.best.value >= run.baseline);
  if (worse && run.state !== "training") texts.push(`The best model is no better than the baseline: ${run.metric} ${number(run.best.value)} against ${number(run.baseline)}.`);
  if (!texts.length) return null;
  return h("section", { class: "trouble" }, h("h2", {}, run.state === "diverged" ? "Training diverged" : "The training warned"), texts.map((text) => h("p", { title: text }, text.replace(/(?:\/[^\s/:=,()]+)+\/([^\s/:=,()]+)/g, "$1"))),
    !worse && run.state !== "diverged" && !texts.some((text) => text.includes("doctor")) ? null : h("p", { class: "never" }, h("a", { href: address("/doctor", { run: run.id }) }, "Ask the doctor for the reason, and which setting to change")));
}

function fact(name, value, remark) {
  return h("div", { class: "fact" }, h("span", { class: "small" }, name), h("b", {}, value), h("span", { class: "small", title: remark }, remark));
}

function scores(data) {
  const names = Object.entries(data.metrics).filter(([name, value]) => typeof value === "number" && !name.endsWith("_interval"));
  if (!names.length) return null;
  const rows = names.map(([name, value]) => h("tr", {},
    h("td", {}, name), h("td", { class: "number" }, number(value)),
    h("td", { class: "number soft" }, data.metrics[`${name}_interval`] ? `[${data.metrics[`${name}_interval`].map((end) => number(end, 3)).join(", ")}]` : ""),
    h("td", { class: "number soft" }, name in data.baseline_scores ? number(data.baseline_scores[name]) : "")));
  const labels = labelTable(data.run.id, data.details);
  return h("div", { class: "grid" },
    h("section", { class: "card" }, h("h2", {}, "Scores of the best model on the dev data"), h("div", { class: "table" }, h("table", {},
      h("thead", {}, h("tr", {}, ["metric", "value", "95 % interval", "baseline"].map((name, index) => h("th", { class: index ? "number" : "" }, name)))), h("tbody", {}, rows)))),
    labels);
}

function labelTable(id, details) {
  const labels = details?.per_label;
  if (!labels || !Object.keys(labels).length) return null;
  const columns = Object.keys(Object.values(labels)[0]);
  const rows = Object.entries(labels).sort((a, b) => (a[1].f1 ?? 0) - (b[1].f1 ?? 0)).slice(0, 40).map(([label, values]) =>
    h("tr", {}, h("td", {}, h("a", { href: address("/data", { run: id, label }), title: `The dev examples with ${label}` }, label)), columns.map((name) => h("td", { class: "number" }, name !== "support" && values[name] <= 1 ? percent(values[name]) : number(values[name])))));
  return h("section", { class: "card" }, h("h2", {}, "Labels, the weakest first"), h("div", { class: "table short", tabindex: 0 }, h("table", {},
    h("thead", {}, h("tr", {}, ["label", ...columns].map((name, index) => h("th", { class: index ? "number" : "" }, name)))), h("tbody", {}, rows))));
}

function settings(data) {
  return h("details", { style: { "margin-top": "16px" } }, h("summary", {}, "Configuration"), h("pre", {}, data.config));
}

function pictures(id, names) {
  const shown = names.filter((name) => !name.startsWith("results"));
  if (!shown.length) return null;
  return h("details", { style: { "margin-top": "8px" } }, h("summary", {}, "Plots of the training"),
    shown.map((name) => h("p", {}, h("img", { class: "picture", alt: name, loading: "lazy", src: address("/api/picture", { run: id, name }) }))));
}
