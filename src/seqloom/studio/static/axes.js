// What a training has used at each row of its metrics: updates, epochs, tokens or minutes.

import { h } from "./dom.js";

const AXES = {
  update: ["updates", (row) => row.update],
  epoch: ["epochs", (row) => row.epoch],
  tokens: ["tokens", (row) => row.tokens],
  minutes: ["minutes", (row) => (typeof row.seconds === "number" ? row.seconds / 60 : undefined)],
};

export function axisLabel(name) {
  return AXES[name][0];
}

// [[x, y]] of the rows that have both; value(row) is y.
export function points(rows, axis, value) {
  const x = AXES[axis][1];
  return rows.map((row) => [x(row), value(row)]).filter((point) => point.every((each) => typeof each === "number"));
}

const SMOOTHING = { "": "no smoothing", 0.8: "smoothed", 0.95: "very smooth" }; // weight of the values before

export function smoothingSelect(weight, call) {
  const select = h("select", { "aria-label": "Smoothing of the training loss", onchange: () => call(select.value) }, Object.entries(SMOOTHING).map(([value, text]) => h("option", { value, selected: value === weight }, text)));
  return select;
}

// A weight of an address.
export function chosenSmoothing(text) {
  return text in SMOOTHING ? text : "";
}

// A curve and, faintly, what it was before: an exponential moving average, corrected for its start as Adam's are.
export function smoothed(curve, weight) {
  if (!weight || curve.points.length < 3) return [curve];
  const beta = Number(weight);
  let sum = 0, total = 0;
  const points = curve.points.map(([x, y]) => {
    sum = beta * sum + (1 - beta) * y;
    total = beta * total + (1 - beta);
    return [x, sum / total];
  });
  return [{ ...curve, ghost: true, band: [] }, { ...curve, points }];
}

// Which axes all the rows have; runs of earlier versions recorded neither tokens nor time.
function recorded(rows) {
  return Object.keys(AXES).filter((name) => !rows.length || rows.some((row) => typeof AXES[name][1](row) === "number"));
}

// The axis of an address that can be shown.
export function chosenAxis(name, runs) {
  return name in AXES && runs.every((rows) => recorded(rows).includes(name)) ? name : "update";
}

export function axisSelect(axis, runs, call) {
  const select = h("select", { "aria-label": "Horizontal axis", onchange: () => call(select.value) }, Object.entries(AXES).map(([name, [label]]) => {
    const missing = !runs.every((rows) => recorded(rows).includes(name));
    return h("option", { value: name, selected: name === axis, disabled: missing }, `over ${label}${missing ? " (not recorded)" : ""}`);
  }));
  return select;
}
