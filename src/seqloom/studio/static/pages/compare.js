// Several runs: their curves, scores, and what differed.

import { get } from "../api.js";
import { axisLabel, axisSelect, chosenAxis, chosenSmoothing, points, smoothed, smoothingSelect } from "../axes.js";
import { lineChart, makeScales, makeView, parseRange, rangeText } from "../chart.js";
import { disagreementCard } from "../disagreements.js";
import { clear, colour, h, message } from "../dom.js";
import { count, duration, interval, number, setting } from "../format.js";
import { groupRuns, meanPoints, SEEDS } from "../groups.js";
import { parallelCard } from "../parallel.js";
import { address, remember } from "../router.js";
import { settingCard } from "../settingplots.js";
import { badge, bestRuns, differences, distinctColours, loadRuns, runColours, shortKey } from "../runs.js";

const MOST = 30;
const MOST_BESIDE = 4; // runs whose scores and settings stand side by side
const MOST_LISTED = 100; // more are chosen in the table of runs

export async function showCompare(main, query) {
  const { runs: all } = await loadRuns();
  const usable = all.filter((run) => run.state !== "damaged");
  const state = { ids: query.getAll("runs").filter((id) => usable.some((run) => run.id === id)), axis: query.get("axis") || "update", pair: query.getAll("pair"), group: query.get("group") || "", zoom: parseRange(query.get("zoom")), side: query.get("side") || "", smoothing: chosenSmoothing(query.get("smoothing") || "") };
  const scales = makeScales(query.getAll("scale"), () => keep());
  const content = h("div");
  const list = h("details", { class: "choose", open: !state.ids.length }, h("summary", {}, "Choose runs"), h("div", { class: "strip", style: { "margin-top": "8px" } }, usable.slice(0, MOST_LISTED).map((run) => {
    const box = h("input", { type: "checkbox", checked: state.ids.includes(run.id), onchange: () => {
      state.ids = box.checked ? [...state.ids, run.id].slice(-MOST) : state.ids.filter((id) => id !== run.id);
      draw();
    } });
    return h("label", { class: "chip" }, box, ` ${run.id} `, h("i", {}, run.task));
  })), usable.length > MOST_LISTED ? h("p", { class: "small soft" }, `The ${MOST_LISTED} newest of ${usable.length} runs; choose others in the table of runs.`) : null);
  clear(main, h("div", { class: "bar" }, h("h1", {}, "Compare"), h("span", { class: "soft" }, "Two or more runs side by side: scores, settings, curves, and where they disagree")), list, content);

  const keep = () => remember("/compare", { runs: state.ids, axis: state.axis === "update" ? "" : state.axis, pair: state.pair, group: state.group, zoom: rangeText(state.zoom), scale: scales.all(), side: state.side, smoothing: state.smoothing });

  async function draw() {
    state.pair = state.pair.filter((id) => state.ids.includes(id));
    keep();
    if (state.ids.length < 2) {
      clear(content, message("Choose two or more runs", "Their curves, scores and settings appear side by side."));
      return;
    }
    const details = await Promise.all(state.ids.map((id) => get("/api/run", { run: id })));
    const runs = details.map((detail) => detail.run), colours = distinctColours(state.ids, runColours(all)), tint = (id) => colours.get(id);
    const best = bestRuns(runs);
    const recorded = details.map((detail) => detail.rows);
    state.axis = chosenAxis(state.axis, recorded);
    const metrics = [...new Set(runs.map((run) => run.metric))];
    const view = makeView(state.zoom, (range) => { state.zoom = range; keep(); });
    const shown = [...metrics.map((metric) => [`${metric} on the dev data`, (row) => row.dev?.[metric]]), ["Loss on the training data", (row) => row.loss, true]];
    const charts = shown.map(([title, value, isNoisy]) => lineChart({ title, xLabel: axisLabel(state.axis), series: curves(value, isNoisy), view, scales }));
    const scores = h("div", { class: runs.length > MOST_BESIDE ? "stack" : "two" });
    const groupSelect = h("select", { "aria-label": "Group by", onchange: () => { state.group = groupSelect.value; keep(); showCurves(); } }, groupChoices(runs, state.group).map(([value, text]) => h("option", { value, selected: value === state.group }, text)));

    function groups() {
      return state.group ? groupRuns(runs, state.group, differences(runs)) : [];
    }
    function curves(value, isNoisy = false) {
      return plainCurves(value).flatMap((curve) => smoothed(curve, isNoisy ? state.smoothing : ""));
    }
    function plainCurves(value) {
      const own = (id) => points(details.find((detail) => detail.run.id === id).rows, state.axis, value);
      if (!state.group) return details.map((detail) => ({ name: detail.run.id, colour: tint(detail.run.id), points: own(detail.run.id) }));
      return groups().map((each, index) => ({ name: `${each.title} (${each.members.length})`, colour: colour(index), ...meanPoints(each.members.map((run) => own(run.id))) }));
    }
    function showCurves() {
      shown.forEach(([, value, isNoisy], index) => charts[index].update(curves(value, isNoisy), axisLabel(state.axis)));
      clear(scores, state.group ? groupTable(groups()) : scoreTable(runs, best, tint), differenceTable(state.group ? groups() : runs));
    }
    const changeAxis = (axis) => {
      state.axis = axis;
      view.zoom(null); // another unit
      showCurves();
    };
    showCurves();
    clear(content,
      metrics.length > 1 ? h("p", { class: "note" }, "These runs have different metrics: their scores cannot be compared.") : new Set(runs.map((run) => run.dev_data)).size > 1 ? h("p", { class: "note" }, "Not all of these runs have the same dev data: only scores on the same data can be compared.") : null,
      scores,
      h("div", { class: "bar" }, h("h2", {}, "Learning curves"), h("span", { class: "small soft never" }, "Drag over a part to zoom in."), h("span", { class: "grow" }), runs.length > 2 ? groupSelect : null, smoothingSelect(state.smoothing, (weight) => { state.smoothing = weight; keep(); showCurves(); }), axisSelect(state.axis, recorded, changeAxis)),
      h("div", { class: "grid" }, charts), state.group ? h("p", { class: "small soft" }, "Lines: means of the runs of a group, where all of them have values. Shaded: from the lowest to the highest of them.") : null, metrics.length === 1 ? [parallelCard(runs, tint), settingCard(runs, tint)] : null, pairs);
    showPair(runs, tint);
  }

  const pairs = h("div");
  // The two best of one task and metric, unless others were chosen.
  function showPair(runs, tint) {
    const scored = runs.filter((run) => run.best && run.task === runs[0].task && run.metric === runs[0].metric);
    if (scored.length < 2) { clear(pairs); return; }
    const sign = scored[0].higher_is_better ? 1 : -1;
    const ranked = [...scored].sort((a, b) => sign * (b.best.value - a.best.value));
    const pair = state.pair.length === 2 ? state.pair : scored.filter((run) => ranked.indexOf(run) < 2).map((run) => run.id); // the best two, in the order of the page
    clear(pairs, disagreementCard(runs.filter((run) => scored.includes(run)), { pair, tint, side: state.side, choose: (chosen) => {
      state.pair = chosen;
      keep();
      showPair(runs, tint);
    }, keep: (side) => { state.side = side; keep(); } }));
  }

  await draw();
}

// Settings that differ among the runs, by which they can be grouped.
function groupChoices(runs, chosen) {
  const keys = [...new Set([...differences(runs).values()].flat())];
  return [["", "no groups"], [SEEDS, "group seeds"], ...keys.map((key) => [key, `group by ${shortKey(key)}`])].filter(([value]) => value !== SEEDS || value === chosen || keys.some((key) => /(^|\.)seed$/.test(key)));
}

// The heading of scores: the metric and its direction, where all have one.
function scoreName(runs, prefix = "") {
  const names = new Set(runs.map((run) => run.metric));
  return names.size === 1 ? [`${prefix}${runs[0].metric}`, h("small", { class: "unit" }, `${runs[0].higher_is_better ? "higher" : "lower"} is better`)] : `${prefix}score`;
}

// The metric of a run, where several have different ones.
function metricName(run, runs) {
  return runs.every((each) => each.metric === run.metric) ? null : h("small", { class: "unit" }, `${run.metric}, ${run.higher_is_better ? "higher" : "lower"} is better`);
}

function groupTable(groups) {
  const best = bestRuns(groups);
  const rows = groups.map((each, index) => h("tr", {},
    h("td", { class: "swatch nowrap", style: { "--colour": colour(index) }, title: each.members.map((run) => run.id).join(", ") }, each.title),
    h("td", { class: "number soft" }, String(each.members.length)),
    h("td", { class: "number" }, each.best ? h("span", { class: best.has(each.id) ? "best" : "" }, number(each.best.value) + (best.has(each.id) ? " ★" : "")) : "–", metricName(each, groups)),
    h("td", { class: "number soft" }, typeof each.best?.deviation === "number" ? number(each.best.deviation, 2) : "–"),
    h("td", { class: "number soft" }, each.best ? number(each.best.low) : "–"),
    h("td", { class: "number soft" }, each.best ? number(each.best.high) : "–")));
  return h("section", { class: "card" }, h("h2", {}, "Scores"), h("div", { class: "table" }, h("table", {},
    h("thead", {}, h("tr", {}, ["group", "runs", scoreName(groups, "mean of the best "), "standard deviation", "lowest", "highest"].map((name) => h("th", { class: name === "group" ? "" : "number" }, name)))), h("tbody", {}, rows))));
}

function scoreTable(runs, best, tint) {
  const finished = runs.every((run) => run.state === "finished");
  const rows = runs.map((run) => h("tr", {},
    h("td", { class: "swatch nowrap", style: { "--colour": tint(run.id) } }, h("a", { href: address("/run", { run: run.id }) }, run.id)),
    finished ? null : h("td", {}, badge(run)),
    h("td", { class: "number" }, run.best ? h("span", { class: best.has(run.id) ? "best" : "" }, number(run.best.value) + (best.has(run.id) ? " ★" : "")) : "–", metricName(run, runs)),
    h("td", { class: "number soft" }, interval(run.best)),
    h("td", { class: "number soft" }, count(run.parameters)),
    h("td", { class: "number soft" }, duration(run.seconds))));
  return h("section", { class: "card" }, h("h2", {}, "Scores"), h("div", { class: "table" }, h("table", {},
    h("thead", {}, h("tr", {}, ["run", "state", scoreName(runs, "best "), "95 % interval", "parameters", "time"].filter((name) => name !== "state" || !finished).map((name) => h("th", { class: ["run", "state"].includes(name) ? "" : "number" }, name)))), h("tbody", {}, rows))));
}

function differenceTable(runs) {
  // Runs, or groups of them, whose settings are those that all their runs share.
  const oneTask = new Set(runs.map((run) => run.task)).size === 1;
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].sort().filter((key) => oneTask || runs.every((run) => key in run.settings));
  const different = keys.filter((key) => new Set(runs.map((run) => setting(run.settings[key] ?? null))).size > 1);
  const rows = different.map((key) => h("tr", {}, h("td", { class: "mono" }, key),
    runs.map((run) => h("td", { class: "mono" }, key in run.settings ? setting(run.settings[key]) : h("span", { class: "faint" }, "–")))));
  return h("section", { class: "card" }, h("h2", {}, "Settings that differ"), rows.length ? h("div", { class: "table short", tabindex: 0, role: "region", "aria-label": "Settings that differ, can be scrolled" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "setting"), runs.map((run) => h("th", {}, run.title || run.id)))), h("tbody", {}, rows)))
    : h("p", { class: "soft" }, "None: the runs have the same configuration."),
    oneTask ? null : h("p", { class: "small soft" }, "These runs have different tasks: only the settings that all of them have are shown."));
}
