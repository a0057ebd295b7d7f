// The columns of the table of runs: which ones, in which order.

import { clear, h } from "./dom.js";
import { number, setting, shortSetting } from "./format.js";
import { popover } from "./popover.js";
import { shortKey } from "./runs.js";

const SCORE = "score:"; // before the name of a metric

// What can be a column beside those of the table itself: a setting or a metric.
export function otherColumn(name) {
  if (name.startsWith(SCORE)) {
    const metric = name.slice(SCORE.length);
    return { title: metric, width: 104, number: true, sort: { [name]: (run) => run.scores?.[metric] ?? Infinity }, cell: (run) => (typeof run.scores?.[metric] === "number" ? number(run.scores[metric]) : "–") };
  }
  return {
    title: shortKey(name), width: Math.max(88, Math.min(168, 8 * shortKey(name).length + 20)), setting: true,
    sort: { [name]: (run) => (name in run.settings ? (typeof run.settings[name] === "number" ? run.settings[name] : setting(run.settings[name])) : "\uffff") },
    cell: (run) => (name in run.settings ? shortSetting(run.settings[name]) : run.members ? h("span", { class: "faint" }, "several") : h("span", { class: "faint" }, "–")),
  };
}

// The settings and metrics of runs that can be added; settings that differ come first.
export function offeredColumns(runs, different) {
  const differing = [...new Set([...different.values()].flat())].sort();
  const rest = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].filter((key) => !differing.includes(key)).sort();
  const metrics = [...new Set(runs.flatMap((run) => Object.keys(run.scores || {})))].sort();
  return [["Settings that differ", differing], ["Scores of the best model", metrics.map((name) => SCORE + name)], ["Other settings", rest]];
}

// A menu in which columns are added, removed and moved. chosen(): names in order; title(name); change(names): null for the default.
export function columnMenu({ chosen, title, own, offered, change }) {
  const list = h("ol", { class: "column-list" });
  const add = h("select", { "aria-label": "Add a column", onchange: () => { if (add.value) apply([...chosen(), add.value]); } });
  const menu = popover("Columns", [h("h2", {}, "Columns"), list, add, h("p", { class: "panel-end" }, h("button", { type: "button", onclick: () => apply(null) }, "Default columns"))], () => draw());

  function apply(names, focus) {
    change(names);
    draw();
    [...menu.querySelectorAll("button")].find((each) => each.ariaLabel === focus && !each.disabled)?.focus();
  }

  function draw() {
    const names = chosen();
    const move = (index, step) => {
      const moved = [...names];
      moved.splice(index + step, 0, ...moved.splice(index, 1));
      apply(moved, `Move ${title(names[index])} ${step < 0 ? "left" : "right"}`);
    };
    const button = (label, text, call, disabled = false) => h("button", { type: "button", "aria-label": label, title: label, disabled, onclick: call }, text);
    clear(list, names.map((name, index) => h("li", {}, h("span", {}, title(name)),
      button(`Move ${title(name)} left`, "↑", () => move(index, -1), index === 0),
      button(`Move ${title(name)} right`, "↓", () => move(index, 1), index === names.length - 1),
      button(`Remove ${title(name)}`, "×", () => apply(names.filter((each) => each !== name)), names.length === 1))));
    const option = (name) => h("option", { value: name }, title(name));
    const missing = (all) => all.filter((name) => !names.includes(name));
    clear(add, h("option", { value: "" }, "Add a column …"), [["Columns", own], ...offered()].filter(([, all]) => missing(all).length).map(([label, all]) => h("optgroup", { label }, missing(all).map(option))));
  }

  return menu;
}
