// What the pages know about runs.

import { get } from "./api.js";
import { colour, COLOURS, h } from "./dom.js";
import { setting } from "./format.js";

// All runs; without `runs` if nothing has changed since the version that is known.
export async function loadRuns(known = "") {
  return get("/api/runs", known ? { known } : {});
}

export function badge(run) {
  return h("span", { class: `badge ${run.state}`, title: run.finished || run.problem || "" }, run.state);
}

// A colour for each run, the same wherever several runs are shown: by the order in which they were started, so that a new run changes no other.
export function runColours(runs) {
  const order = [...runs].sort((a, b) => (a.started || "").localeCompare(b.started || "") || a.id.localeCompare(b.id));
  return new Map(order.map((run, index) => [run.id, colour(index)]));
}

// The colours of some runs that stand in one picture: where two have the same, the later one takes a colour that is free.
export function distinctColours(ids, all) {
  const taken = new Set(), chosen = new Map();
  for (const id of ids) {
    const free = [...Array(COLOURS).keys()].map(colour).find((each) => !taken.has(each) && !ids.some((other) => !chosen.has(other) && other !== id && all.get(other) === each));
    const own = all.get(id), tint = taken.has(own) ? free ?? own : own;
    taken.add(tint);
    chosen.set(id, tint);
  }
  return chosen;
}

// Runs that stand together: the same task and the same metric.
export function group(run) {
  return `${run.task} ${run.metric}`;
}

// Runs whose scores say which is better: those of one task and metric on the same dev data.
function comparable(run) {
  return run.dev_data ? `${group(run)} ${run.dev_data}` : `${group(run)} ${run.id}`; // unknown data are like no others
}

// The best of each set of at least two comparable runs; none if several are equally good.
export function bestRuns(runs) {
  const best = new Map(), sizes = new Map(), ties = new Set();
  for (const run of runs) {
    if (!run.best) continue;
    const key = comparable(run), sign = run.higher_is_better ? 1 : -1, current = best.get(key);
    sizes.set(key, (sizes.get(key) || 0) + 1);
    if (!current || sign * run.best.value > sign * current.best.value) best.set(key, run);
    else if (run.best.value === current.best.value) ties.add(key);
  }
  for (const key of ties) {
    const top = best.get(key).best.value;
    if (runs.filter((run) => run.best && comparable(run) === key && run.best.value === top).length > 1) best.delete(key);
  }
  return new Set([...best].filter(([key]) => sizes.get(key) > 1).map(([, run]) => run.id));
}

// The keys whose values differ among runs of one task.
export function differences(runs) {
  const byTask = new Map();
  for (const run of runs) {
    if (!byTask.has(run.task)) byTask.set(run.task, []);
    byTask.get(run.task).push(run);
  }
  const result = new Map();
  for (const [task, members] of byTask) {
    const keys = new Set(members.flatMap((run) => Object.keys(run.settings)));
    for (const run of members) run.texts ??= Object.fromEntries(Object.entries(run.settings).map(([key, value]) => [key, setting(value)]));
    const different = [...keys].filter((key) => members.some((run) => run.texts[key] !== members[0].texts[key]));
    result.set(task, different.sort());
  }
  return result;
}

// Settings of how a training reports, which do not change what it learns.
export function isReporting(key) {
  return /\.(log_every|evaluate_every|save_every_minutes|threads)$/.test(key);
}

export function shortKey(key) {
  return key.replace(/^(task|train)\./, "");
}

// A select of runs; `call` gets the id.
export function runSelect(runs, chosen, call, { label = "Run", empty = false } = {}) {
  const options = runs.filter((run) => run.state !== "damaged").map((run) =>
    h("option", { value: run.id, selected: run.id === chosen }, `${run.id} (${run.task})`));
  return h("select", { "aria-label": label, onchange: (event) => call(event.target.value) },
    empty ? h("option", { value: "", selected: !chosen }, "no second run") : null, options);
}
