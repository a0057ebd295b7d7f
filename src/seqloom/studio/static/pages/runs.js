// The table of runs: which is best, and what differed.

import { sparkline } from "../chart.js";
import { post } from "../api.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { count, date, duration, interval, number, setting } from "../format.js";
import { go, address, remember } from "../router.js";
import { badge, bestRuns, differences, group, loadRuns, shortKey } from "../runs.js";

const ROW = 40; // pixels, as in style.css
const CHUNK = 8; // rows that are added or removed together while the table is scrolled
const POLL = 3000; // milliseconds between two looks at the runs
const SHARE = 60; // … and at least this many times the duration of one look
const sign = (run) => (run.higher_is_better ? -1 : 1);
// name: [title, keys by which it sorts]; style.css has the widths
const COLUMNS = {
  run: ["Run", { run: (run) => run.id, task: (run) => run.task }],
  state: ["State", { state: (run) => run.state }],
  best: ["Best score", { best: (run) => (run.best ? sign(run) * run.best.value : Infinity) }],
  last: ["Last", { last: (run) => (run.last ? sign(run) * run.last.value : Infinity) }],
  baseline: ["Baseline", {}],
  differs: ["What differs", {}],
  curve: ["Curve", {}],
  parameters: ["Parameters", { parameters: (run) => -run.parameters }],
  started: ["Started", { started: (run) => run.started && -new Date(run.started), time: (run) => -run.seconds }],
  note: ["Note", { note: (run) => run.note || "\uffff" }],
};
const NUMBERS = ["best", "last", "baseline", "parameters"];
const WIDTH = Object.keys(COLUMNS).length + 1;
const KEYS = Object.assign({}, ...Object.values(COLUMNS).map(([, keys]) => keys));

export async function showRuns(main, query) {
  const state = { sort: query.get("sort") || "started", down: query.get("down") === "1", filter: query.get("filter") || "", task: query.get("task") || "", selected: new Set() };
  let { folder, runs, version } = await loadRuns();
  if (!runs.length) {
    clear(main, message("No runs yet", `There is no run below ${folder}.`, h("span", {}, "Train a first model with ", h("code", {}, "seqloom demo"), ", or one of your own data with ", h("code", {}, "seqloom train --task tag --data FILE"), "."), "Then reload this page. Runs in another folder: seqloom studio FOLDER."));
    return undefined;
  }
  const body = h("tbody");
  const frame = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Runs, can be scrolled" });
  const heading = h("tr");
  const chosen = h("span", { class: "soft", role: "status" });
  const compare = h("button", { class: "primary", type: "button", disabled: true, title: "Mark two or more runs", onclick: () => go("/compare", { runs: [...state.selected] }) }, "Compare");
  const tasks = [...new Set(runs.map((run) => run.task))].filter(Boolean).sort();
  const filter = h("input", { type: "search", placeholder: "Filter by name, setting or note", "aria-label": "Filter", value: state.filter, oninput: debounce(() => { state.filter = filter.value; draw(); }, 120) });
  const taskSelect = h("select", { "aria-label": "Task", onchange: () => { state.task = taskSelect.value; draw(); } },
    h("option", { value: "" }, "all tasks"), tasks.map((task) => h("option", { value: task, selected: task === state.task }, task)));
  const table = h("table", {}, h("colgroup", {}, ["select", ...Object.keys(COLUMNS)].map((name) => h("col", { class: `col-${name}` }))),
    h("thead", {}, heading), body);
  frame.append(table);
  clear(main, h("div", { class: "runs" },
    h("div", { class: "bar" }, h("h1", {}, "Runs"), h("span", { class: "soft", title: folder }, "in ", h("span", { class: "mono" }, folder.split(/[\\/]/).at(-1))), h("span", { class: "grow" }), chosen, compare, tasks.length > 1 ? taskSelect : null, filter),
    frame));

  let shown = [], best = new Set(), different = new Map(), drawn = [0, 0];
  const made = new Map(); // the rows in the document, by their place

  function draw() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    shown = runs.filter((run) => (!state.task || run.task === state.task) && words.every((word) => searchable(run).includes(word)));
    const key = KEYS[state.sort];
    // Scores of different metrics cannot be compared: the runs of each stay together.
    const grouped = ["best", "last"].includes(state.sort) ? (a, b) => compareValues(group(a), group(b)) : () => 0;
    if (key) shown = [...shown].sort((a, b) => grouped(a, b) || compareValues(key(a), key(b)) * (state.down ? -1 : 1));
    best = bestRuns(shown);
    different = differences(shown);
    clear(heading, h("th", {}, h("span", { class: "skip" }, "Select")), Object.entries(COLUMNS).map(([name, [title, keys]]) =>
      h("th", { scope: "col", class: NUMBERS.includes(name) ? "number" : "", "aria-sort": state.sort in keys ? (state.down ? "descending" : "ascending") : null },
        Object.keys(keys).length ? Object.keys(keys).map((each, index) => [index ? h("span", { class: "faint" }, " · ") : null, h("button", { type: "button", onclick: () => sortBy(each) }, `${index ? each : title}${state.sort === each ? (state.down ? " ↑" : " ↓") : ""}`)]) : title)));
    showCount();
    remember("/", { sort: state.sort === "started" ? "" : state.sort, down: state.down ? "1" : "", filter: state.filter, task: state.task });
    fill(true);
  }

  function showCount() {
    const all = `${shown.length === runs.length ? runs.length : `${shown.length} of ${runs.length}`} ${runs.length === 1 ? "run" : "runs"}`;
    chosen.textContent = state.selected.size ? `${all}, ${state.selected.size} marked` : all;
    compare.disabled = state.selected.size < 2;
  }

  function sortBy(name) {
    state.down = state.sort === name ? !state.down : false;
    state.sort = name;
    frame.scrollTop = 0;
    draw();
  }

  // Only the rows that can be seen, and some around them, are in the document. Scrolling moves no row that stays.
  const above = space(), below = space();
  function fill(changed = false) {
    const seen = Math.ceil((frame.clientHeight || 800) / ROW);
    const first = Math.max(0, Math.floor(frame.scrollTop / ROW / CHUNK - 0.5) * CHUNK);
    const last = Math.min(shown.length, first + (Math.ceil(seen / CHUNK) + 2) * CHUNK);
    if (!changed && first === drawn[0] && last === drawn[1]) return;
    if (changed) {
      made.clear();
      clear(body, above.row, below.row, shown.length ? null : h("tr", {}, h("td", { colSpan: WIDTH, class: "soft" }, "No run fits the filter.")));
    }
    for (const [index, element] of made) if (index < first || index >= last) { element.remove(); made.delete(index); }
    above.set(first);
    below.set(shown.length - last);
    for (let index = last - 1, next = below.row; index >= first; index--) {
      if (!made.has(index)) { made.set(index, row(shown[index])); next.before(made.get(index)); }
      next = made.get(index);
    }
    drawn = [first, last];
    table.setAttribute("aria-rowcount", String(shown.length + 1));
  }

  function row(run) {
    const select = h("input", { type: "checkbox", "aria-label": `Select ${run.id}`, checked: state.selected.has(run.id), disabled: run.state === "damaged", onchange: () => {
      if (select.checked) state.selected.add(run.id);
      else state.selected.delete(run.id);
      showCount();
      element.setAttribute("aria-selected", String(select.checked));
    } });
    const chips = (different.get(run.task) || []).filter((key) => key in run.settings)
      .sort((a, b) => weight(run, b) - weight(run, a)).slice(0, 6)
      .map((key) => h("span", { class: "chip", title: `${key} = ${setting(run.settings[key])}` }, h("i", {}, shortKey(key)), h("span", {}, setting(run.settings[key]))));
    const element = h("tr", { "aria-selected": String(state.selected.has(run.id)) },
      h("td", {}, select),
      h("td", {}, run.state === "damaged" ? h("span", { title: run.problem }, run.id) : h("a", { href: address("/run", { run: run.id }), title: run.id }, run.id), h("small", { class: "unit" }, run.task)),
      h("td", {}, badge(run)),
      h("td", { class: "number" }, score(run.best, best.has(run.id)), metric(run)),
      h("td", { class: "number soft" }, run.last ? number(run.last.value) : "–"),
      h("td", { class: "number" }, baseline(run)),
      h("td", { class: "chips" }, h("div", {}, run.state === "damaged" ? h("span", { class: "faint", title: run.problem }, run.problem) : chips)),
      h("td", {}, sparkline(run.curve)),
      h("td", { class: "number soft" }, count(run.parameters)),
      h("td", { class: "soft" }, date(run.started), h("small", { class: "unit" }, duration(run.seconds))),
      h("td", {}, noteField(run)));
    return element;
  }

  function noteField(run) {
    const field = h("input", { type: "text", value: run.note, placeholder: "note", "aria-label": `Note on ${run.id}`, maxLength: 10000, onchange: async () => {
      try {
        await post("/api/note", { run: run.id, text: field.value });
        run.note = field.value;
      } catch (error) {
        field.replaceWith(errorBox(error));
      }
    } });
    return field;
  }

  let waiting = false;
  frame.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; fill(); });
  }, { passive: true });
  draw();
  let timer = setTimeout(poll, POLL), left = false;
  async function poll() {
    const start = performance.now();
    const focused = document.activeElement;
    if (!document.hidden && !focused?.matches("tbody input[type=text]")) {
      try {
        const news = await loadRuns(version);
        if (left) return;
        if (news.runs) {
          ({ runs, version } = news);
          draw();
          if (focused?.matches("tbody input")) [...body.querySelectorAll("input[type=checkbox]")].find((each) => each.ariaLabel === focused.ariaLabel)?.focus({ preventScroll: true });
        }
      } catch {
        // the studio was stopped; what is shown stays
      }
    }
    timer = setTimeout(poll, Math.max(POLL, SHARE * (performance.now() - start)));
  }
  return () => { left = true; clearTimeout(timer); };
}

// A row as high as the rows that are not in the document.
function space() {
  const cell = h("td", { colSpan: WIDTH, class: "space" }), row = h("tr", { "aria-hidden": "true", hidden: true }, cell);
  return { row, set: (rows) => { row.hidden = !rows; cell.style.height = `${rows * ROW}px`; } };
}

// What was chosen by the user says most, and how often a training reports says least.
function weight(run, key) {
  return run.changed.includes(key) - /\.(log_every|evaluate_every|save_every_minutes|custom_layer)$/.test(key);
}

function searchable(run) {
  run.text ??= [run.id, run.task, run.state, run.note, ...run.changed.map((key) => `${key}=${setting(run.settings[key])}`)].join(" ").toLowerCase();
  return run.text;
}

function metric(run) {
  return run.metric ? h("small", { class: "unit", title: `${run.metric}: ${run.higher_is_better ? "higher" : "lower"} is better. 95 % confidence interval ${interval(run.best) || "not known"}` }, `${run.metric} ${run.higher_is_better ? "↑" : "↓"} ${interval(run.best)}`) : null;
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

function score(value, isBest) {
  if (!value) return h("span", { class: "faint" }, "–");
  return h("span", { class: isBest ? "best" : "", title: isBest ? "The best of its task" : "" }, `${isBest ? "★ " : ""}${number(value.value)}`);
}
