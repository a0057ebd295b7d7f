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
