// The table of runs: which is best, and what differed.

import { sparkline } from "../chart.js";
import { post } from "../api.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { count, date, duration, interval, number, setting } from "../format.js";
import { go, address, remember } from "../router.js";
import { badge, bestRuns, differences, loadRuns, shortKey } from "../runs.js";

const ROW = 39;
const COLUMNS = [
  ["run", (run) => run.id],
  ["task", (run) => run.task],
  ["state", (run) => run.state],
  ["best", (run) => (run.best ? (run.higher_is_better ? -1 : 1) * run.best.value : Infinity)],
  ["last", (run) => (run.last ? (run.higher_is_better ? -1 : 1) * run.last.value : Infinity)],
  ["baseline", null],
  ["what differs", null],
  ["curve", null],
  ["parameters", (run) => -run.parameters],
  ["time", (run) => -run.seconds],
  ["started", (run) => run.started && -new Date(run.started)],
  ["note", (run) => run.note || "\uffff"],
];

export async function showRuns(main, query) {
  const state = { sort: query.get("sort") || "started", down: query.get("down") === "1", filter: query.get("filter") || "", task: query.get("task") || "", selected: new Set() };
  let { folder, runs } = await loadRuns();
  if (!runs.length) {
    clear(main, message("No runs yet", `There is no run below ${folder}.`, "Train a model: seqloom train --task tag --data FILE, or seqloom demo."));
    return undefined;
  }
  const body = h("tbody");
  const frame = h("div", { class: "table", tabindex: 0, "aria-label": "Runs" });
  const heading = h("tr");
  const chosen = h("span", { class: "soft" });
  const compare = h("button", { class: "primary", type: "button", disabled: true, onclick: () => go("/compare", { runs: [...state.selected] }) }, "Compare");
  const tasks = [...new Set(runs.map((run) => run.task))].filter(Boolean).sort();
  const filter = h("input", { type: "search", placeholder: "Filter by name, setting or note", "aria-label": "Filter", value: state.filter, oninput: debounce(() => { state.filter = filter.value; draw(); }, 120) });
  const taskSelect = h("select", { "aria-label": "Task", onchange: () => { state.task = taskSelect.value; draw(); } },
    h("option", { value: "" }, "all tasks"), tasks.map((task) => h("option", { value: task, selected: task === state.task }, task)));
  frame.append(h("table", {}, h("thead", {}, heading), body));
  clear(main, h("div", { class: "runs" },
    h("div", { class: "bar" }, h("h1", {}, "Runs"), h("span", { class: "faint mono", title: folder }, folder.split(/[\\/]/).at(-1)), h("span", { class: "grow" }), chosen, compare, taskSelect, filter),
    frame));

  let shown = [], best = new Set(), different = new Map();

  function draw() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    shown = runs.filter((run) => (!state.task || run.task === state.task) && words.every((word) => searchable(run).includes(word)));
    const key = COLUMNS.find(([name]) => name === state.sort)?.[1];
    if (key) shown = [...shown].sort((a, b) => compareValues(key(a), key(b)) * (state.down ? -1 : 1));
    best = bestRuns(shown);
    different = differences(shown);
    clear(heading, h("th", {}, h("span", { class: "skip" }, "select")), COLUMNS.map(([name, order]) =>
      h("th", { class: ["best", "last", "baseline", "parameters", "time"].includes(name) ? "number" : "", "aria-sort": state.sort === name ? (state.down ? "descending" : "ascending") : null },
        order ? h("button", { type: "button", onclick: () => sortBy(name) }, name + (state.sort === name ? (state.down ? " ↑" : " ↓") : "")) : name)));
    showCount();
    remember("/", { sort: state.sort === "started" ? "" : state.sort, down: state.down ? "1" : "", filter: state.filter, task: state.task });
    fill();
  }

  function showCount() {
    const all = `${shown.length === runs.length ? runs.length : `${shown.length} of ${runs.length}`} runs`;
    chosen.textContent = state.selected.size ? `${all}, ${state.selected.size} selected` : all;
    compare.disabled = state.selected.size < 2;
  }

  function sortBy(name) {
    state.down = state.sort === name ? !state.down : false;
    state.sort = name;
    draw();
  }

  // Only the rows that can be seen are in the document.
  function fill() {
    const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - 8);
    const last = Math.min(shown.length, first + Math.ceil((frame.clientHeight || 800) / ROW) + 16);
    const space = (rows) => (rows > 0 ? h("tr", { "aria-hidden": "true" }, h("td", { colSpan: COLUMNS.length + 1, style: { height: `${rows * ROW}px`, padding: "0" } })) : null);
    clear(body, space(first), shown.slice(first, last).map(row), space(shown.length - last));
  }

  function row(run) {
    const select = h("input", { type: "checkbox", "aria-label": `Select ${run.id}`, checked: state.selected.has(run.id), disabled: run.state === "damaged", onchange: () => {
      if (select.checked) state.selected.add(run.id);
      else state.selected.delete(run.id);
      showCount();
      element.setAttribute("aria-selected", String(select.checked));
    } });
    const chips = (different.get(run.task) || []).filter((key) => key in run.settings)
      .sort((a, b) => run.changed.includes(b) - run.changed.includes(a)).slice(0, 6)
      .map((key) => h("span", { class: "chip", title: `${key} = ${setting(run.settings[key])}` }, h("i", {}, `${shortKey(key)} `), setting(run.settings[key])));
    const element = h("tr", { "aria-selected": String(state.selected.has(run.id)) },
      h("td", {}, select),
      h("td", {}, run.state === "damaged" ? h("span", { title: run.problem }, run.id) : h("a", { href: address("/run", { run: run.id }) }, run.id)),
      h("td", { class: "soft" }, run.task),
      h("td", {}, badge(run)),
      h("td", { class: "number" }, score(run, run.best, best.has(run.id)), metric(run)),
      h("td", { class: "number soft" }, run.last ? number(run.last.value) : "–"),
      h("td", { class: "number" }, baseline(run)),
      h("td", {}, run.state === "damaged" ? h("span", { class: "faint", title: run.problem }, run.problem) : chips),
      h("td", {}, sparkline(run.curve)),
      h("td", { class: "number soft" }, count(run.parameters)),
      h("td", { class: "number soft" }, duration(run.seconds)),
      h("td", { class: "soft" }, date(run.started)),
      h("td", {}, noteField(run)));
    return element;
  }

  function noteField(run) {
    const field = h("input", { type: "text", value: run.note, placeholder: "add a note", "aria-label": `Note on ${run.id}`, maxLength: 10000, onchange: async () => {
      try {
        await post("/api/note", { run: run.id, text: field.value });
        run.note = field.value;
      } catch (error) {
        field.replaceWith(errorBox(error));
      }
    } });
    return field;
  }

  frame.addEventListener("scroll", () => requestAnimationFrame(fill), { passive: true });
  draw();
  const timer = setInterval(async () => {
    if (document.hidden || document.activeElement?.closest("tbody")) return;
    try {
      ({ runs } = await loadRuns());
      draw();
    } catch {
      // the studio was stopped; what is shown stays
    }
  }, 3000);
  return () => clearInterval(timer);
}

function searchable(run) {
  run.text ??= [run.id, run.task, run.state, run.note, ...run.changed.map((key) => `${key}=${setting(run.settings[key])}`)].join(" ").toLowerCase();
  return run.text;
}

function metric(run) {
  return run.metric ? h("small", { class: "unit", title: `${run.metric}: ${run.higher_is_better ? "higher" : "lower"} is better` }, `${run.metric} ${run.higher_is_better ? "↑" : "↓"}`) : null;
}

// Whether the best model is better than the trivial one.
function baseline(run) {
  if (run.baseline === null || !run.best) return h("span", { class: "faint" }, "–");
  const better = run.higher_is_better ? run.best.value > run.baseline : run.best.value < run.baseline;
  return h("span", { class: better ? "soft" : "warn", title: better ? "The model is better than this baseline." : "The model is no better than this baseline." }, `${better ? "" : "⚠ "}${number(run.baseline)}`);
}

function compareValues(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function score(run, value, isBest) {
  if (!value) return h("span", { class: "faint" }, "–");
  const range = interval(value);
  return h("span", { title: `${run.metric}${range ? `, 95 % confidence interval ${range}` : ""}${isBest ? "; the best of its task" : ""}` },
    h("span", { class: isBest ? "best" : "" }, `${isBest ? "★ " : ""}${number(value.value)}`), " ", h("span", { class: "faint small" }, range));
}
