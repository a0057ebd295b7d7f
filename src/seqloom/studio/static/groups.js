// Runs in groups, such as those that differ in their seed only: mean and spread.

import { setting } from "./format.js";
import { group, isReporting, shortKey } from "./runs.js";

export const SEEDS = "seeds"; // all settings but the seed are the same
const isSeed = (key) => /(^|\.)seed$/.test(key);

export function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

// The standard deviation of a sample; null for a single value.
export function deviation(values) {
  if (values.length < 2) return null;
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}

// Groups of runs with the same value of a setting; only runs of one task and metric are in one group.
// different: the keys that differ, by task.
export function groupRuns(runs, key, different) {
  const groups = new Map();
  for (const run of runs) {
    const keys = key === SEEDS ? (different.get(run.task) || []).filter((each) => !isSeed(each) && !isReporting(each)) : [key];
    const parts = keys.filter((each) => each in run.settings).map((each) => [each, setting(run.settings[each])]);
    const id = `${group(run)}|${parts.map((part) => part.join("=")).join("|")}`;
    if (!groups.has(id)) groups.set(id, { id, parts, members: [] });
    groups.get(id).members.push(run);
  }
  return [...groups.values()].map((each) => summarize(each, unusual(each, [...groups.values()])));
}

// The settings of a group that are not those of most groups; all, if there are few.
function unusual({ parts }, groups) {
  if (parts.length < 2) return parts;
  const text = (part) => part.join("=");
  return parts.filter((part) => 2 * groups.filter((each) => each.parts.some((other) => text(other) === text(part))).length <= groups.length);
}

// A group in the form of a run, so that both are sorted and shown alike.
function summarize({ id, parts, members }, named) {
  const first = members[0];
  const over = (value) => members.map(value).filter((each) => typeof each === "number");
  const best = over((run) => run.best?.value), last = over((run) => run.last?.value);
  const shared = (value) => (members.every((run) => value(run) === value(first)) ? value(first) : null);
  const names = new Set(members.flatMap((run) => Object.keys(run.scores || {})));
  return {
    id, members, parts, dev_data: members.every((run) => run.dev_data) ? [...new Set(members.map((run) => run.dev_data))].sort().join(" ") : "", task: first.task, metric: first.metric, higher_is_better: first.higher_is_better,
    title: named.length ? named.map(([name, value]) => (parts.length > 1 ? `${shortKey(name).split(".").at(-1)} ${value}` : value)).join(", ") : parts.length ? "as most of them" : first.task,
    state: shared((run) => run.state) || "mixed", note: "",
    best: best.length ? { value: mean(best), deviation: deviation(best), low: Math.min(...best), high: Math.max(...best) } : null,
    last: last.length ? { value: mean(last) } : null,
    baseline: shared((run) => run.baseline), parameters: mean(over((run) => run.parameters)) || 0,
    started: members.map((run) => run.started).sort().at(-1), seconds: mean(over((run) => run.seconds)) || 0,
    settings: Object.fromEntries(Object.entries(first.settings).filter(([name]) => members.every((run) => name in run.settings && setting(run.settings[name]) === setting(first.settings[name])))),
    scores: Object.fromEntries([...names].map((name) => [name, mean(over((run) => run.scores?.[name]))])),
    ...meanCurve(members.map((run) => run.curve).filter((curve) => curve.length > 1 && curve.every((value) => value !== null))),
  };
}

function meanCurve(curves) {
  if (!curves.length) return { curve: [], band: [] };
  const size = Math.min(...curves.map((curve) => curve.length));
  const columns = [...Array(size).keys()].map((index) => curves.map((curve) => curve[index]));
  return { curve: columns.map(mean), band: curves.length > 1 ? columns.map((values) => [Math.min(...values), Math.max(...values)]) : [] };
}

// The mean of several curves, and from the lowest to the highest, where all of them have values.
export function meanPoints(curves) {
  const usable = curves.filter((points) => points.length);
  if (!usable.length) return { points: [], band: [] };
  const low = Math.max(...usable.map((points) => points[0][0])), high = Math.min(...usable.map((points) => points.at(-1)[0]));
  const places = [...new Set(usable.flatMap((points) => points.map(([x]) => x)))].filter((x) => x >= low && x <= high).sort((a, b) => a - b);
  const rows = places.map((x) => [x, usable.map((points) => valueAt(points, x))]);
  return { points: rows.map(([x, values]) => [x, mean(values)]), band: usable.length > 1 ? rows.map(([x, values]) => [x, Math.min(...values), Math.max(...values)]) : [] };
}

// The value of a curve at x, between two points by a straight line.
function valueAt(points, x) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= x) low = middle;
    else high = middle;
  }
  const [[x0, y0], [x1, y1]] = [points[low], points[high]];
  if (x >= x1 || x1 === x0) return x === x0 ? y0 : y1;
  return y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
}
