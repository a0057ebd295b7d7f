// The table of runs: which is best, and what differed.

import { chipRow } from "../chips.js";
import { columnMenu, offeredColumns, otherColumn } from "../columns.js";
import { post } from "../api.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { count, date, duration, interval, number, setting } from "../format.js";
import { groupRuns, SEEDS } from "../groups.js";
import { compareValues, longTable } from "../longtable.js";
import { go, address, remember } from "../router.js";
import { badge, bestRuns, differences, group, isReporting, loadRuns, runColours, shortKey } from "../runs.js";
import { saveSparklines, sparkline } from "../sparklines.js";

const POLL = 3000; // milliseconds between two looks at the runs
const SHARE = 60; // … and at least this many times the duration of one look
const MOST_SETTINGS = 4; // that have their own columns where all runs are of one task
const MOST_MARKED = 40; // runs whose marks an address keeps
const sign = (run) => (run.higher_is_better ? -1 : 1);
// name: title, width in pixels, keys by which it sorts, whether it holds numbers
const COLUMNS = {
  run: { title: "Run", width: 176, sort: { run: (run) => run.title || run.id, task: (run) => run.task } },
  state: { title: "State", width: 100, sort: { state: (run) => run.state } },
  best: { title: "Best score", width: 184, number: true, sort: { best: (run) => (run.best ? sign(run) * run.best.value : Infinity) } },
  last: { title: "Last", width: 76, number: true, sort: { last: (run) => (run.last ? sign(run) * run.last.value : Infinity) } },
  baseline: { title: "Baseline", width: 92, number: true, sort: {} },
  differs: { title: "What differs", width: 132, grows: true, sort: {} },
  curve: { title: "Curve", width: 112, sort: {} },
  parameters: { title: "Parameters", width: 104, number: true, sort: { parameters: (run) => -run.parameters } },
  started: { title: "Started", width: 136, sort: { started: (run) => run.started && -new Date(run.started), time: (run) => -run.seconds } },
  note: { title: "Note", width: 84, grows: true, sort: { note: (run) => run.note || "\uffff" } },
};
const DEFAULT = Object.keys(COLUMNS);
const NARROW = ["run", "curve", "best", "differs"]; // on a phone, where a run is a card of two lines
const NARROW_ROW = 76; // pixels, as in style.css
const SORTS = { started: "newest first", best: "best score first", run: "by name", task: "by task", state: "by state", time: "longest first" };
const column = (name) => (Object.hasOwn(COLUMNS, name) ? COLUMNS[name] : otherColumn(name));

export async function showRuns(main, query) {
  const state = { sort: query.get("sort") || "started", down: query.get("down") === "1", filter: query.get("filter") || "", task: query.get("task") || "", group: query.get("group") || "", open: new Set(query.getAll("open")), columns: query.getAll("column"), selected: new Set(query.getAll("marked")) };
  let { folder, runs, version } = await loadRuns();
  if (!runs.length) {
    clear(main, message("No runs yet", `There is no run below ${folder}.`, h("span", {}, "Train a first model with ", h("code", {}, "seqloom demo"), ", or one of your own data with ", h("code", {}, "seqloom train --task tag --data FILE"), "."), "Then reload this page. Runs in another folder: seqloom studio FOLDER."));
    return undefined;
  }
  const body = h("tbody", { role: "rowgroup" }), heading = h("tr"), sizes = h("colgroup");
  const frame = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Runs, can be scrolled" });
  const chosen = h("span", { class: "soft", role: "status" });
  const compare = h("button", { class: "primary", type: "button", disabled: true, title: "Mark two or more runs", onclick: () => go("/compare", { runs: [...state.selected], group: state.group }) }, "Compare");
  const tasks = [...new Set(runs.map((run) => run.task))].filter(Boolean).sort();
  const filter = h("input", { type: "search", placeholder: "Filter: name, setting, note", "aria-label": "Filter", value: state.filter, oninput: debounce(() => { state.filter = filter.value; draw(); }, 120) });
  const taskSelect = h("select", { "aria-label": "Task", onchange: () => { state.task = taskSelect.value; draw(); } },
    h("option", { value: "" }, "all tasks"), tasks.map((task) => h("option", { value: task, selected: task === state.task }, task)));
  const groupSelect = h("select", { "aria-label": "Group by", title: "Mean and spread of runs that belong together, such as the seeds of one setting", onchange: () => { state.group = groupSelect.value; state.open.clear(); frame.scrollTop = 0; draw(); } });
  const phone = matchMedia("(max-width: 720px)");
  const sortSelect = h("select", { class: "narrow", "aria-label": "Sort", onchange: () => { state.down = false; state.sort = sortSelect.value; frame.scrollTop = 0; draw(); } });
  const menu = columnMenu({ chosen: () => names.filter((name) => name !== "run"), title: (name) => column(name).title, own: DEFAULT.filter((name) => name !== "run"), offered: () => offeredColumns(shown, different), change: (list) => { state.columns = list || []; draw(); } });
  const table = h("table", { role: "table" }, sizes, h("thead", {}, heading), body);
  frame.append(table);
  clear(main, h("div", { class: "runs" },
    h("div", { class: "bar" }, h("h1", {}, "Runs"), h("span", { class: "soft", title: folder }, "in ", h("span", { class: "mono" }, folder.split(/[\\/]/).at(-1))), h("span", { class: "grow" }), chosen, compare, tasks.length > 1 ? taskSelect : null, groupSelect, sortSelect, menu, filter),
    frame));

  let shown = [], items = [], names = DEFAULT, best = new Set(), different = new Map();
  const rows = longTable({ frame, body, row: (item) => row(item), width: () => names.length + 1, empty: "No run fits the filter.", height: () => (isNarrow() ? NARROW_ROW : 40) });
  const isNarrow = () => phone.matches && !state.columns.length; // columns that somebody chose are a table everywhere
  let chipWidth = 0; // pixels
  let colours = runColours(runs);
  const tint = (run) => colours.get(run.id) || "var(--accent)"; // of a group

  function draw() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    shown = runs.filter((run) => (!state.task || run.task === state.task) && words.every((word) => searchable(run).includes(word)));
    different = differences(shown);
    names = shownColumns();
    const key = Object.assign({}, ...[...DEFAULT, ...names].map((name) => column(name).sort))[state.sort];
    // Scores of different metrics cannot be compared: the runs of each stay together.
    const together = ["best", "last"].includes(state.sort) ? (a, b) => compareValues(group(a), group(b)) : () => 0;
    const sorted = (list) => (key ? [...list].sort((a, b) => together(a, b) || compareValues(key(a), key(b)) * (state.down ? -1 : 1)) : list);
    if (state.group) {
      const groups = sorted(groupRuns(shown, state.group, different));
      best = bestRuns(groups);
      items = groups.flatMap((each) => [each, ...(state.open.has(each.id) ? sorted(each.members).map((run) => ({ ...run, inside: true, original: run })) : [])]);
    } else {
      items = sorted(shown);
      best = bestRuns(shown);
    }
    table.classList.toggle("cards", isNarrow());
    drawHeading();
    chipWidth = isNarrow() ? frame.clientWidth - 56 : (heading.querySelector(".col-differs")?.clientWidth || 0) - 16;
    drawGroups();
    showCount();
    keep();
    rows.show(items);
  }

  function keep() {
    remember("/", { sort: state.sort === "started" ? "" : state.sort, down: state.down ? "1" : "", filter: state.filter, task: state.task, group: state.group, open: [...state.open], column: state.columns, marked: state.selected.size <= MOST_MARKED ? [...state.selected] : [] });
  }

  // Where all runs are of one task, a few settings that differ are columns; otherwise one column holds them.
  function shownColumns() {
    if (isNarrow()) return NARROW;
    if (state.columns.length) return ["run", ...state.columns.filter((name) => name !== "run")];
    const keys = [...different.values()].flat().filter((key) => !isReporting(key));
    const single = different.size === 1 && keys.length && keys.length <= MOST_SETTINGS;
    return DEFAULT.flatMap((name) => (name === "differs" && single ? keys : [name]));
  }

  function drawHeading() {
    const all = names.map((name) => [name, column(name)]);
    clear(sizes, h("col", { class: "col-select" }), all.map(([name, { width }]) => h("col", { class: `col-${name}`, style: { width: `${width}px` } })));
    table.style.minWidth = isNarrow() ? "0" : `${36 + all.reduce((sum, [, { width }]) => sum + width, 0)}px`;
    clear(sortSelect, Object.entries(state.sort in SORTS ? SORTS : { [state.sort]: `by ${shortKey(state.sort)}`, ...SORTS }).map(([value, text]) => h("option", { value, selected: value === state.sort }, text)));
    // What is left belongs to a column that can use it.
    const growing = all.findIndex(([, { grows }]) => grows);
    if (growing >= 0) sizes.children[growing + 1].style.width = "auto";
    clear(heading, h("th", {}, h("span", { class: "skip" }, "Select")), all.map(([name, { title, sort, number: isNumber }]) => {
      const label = (key, text) => h("button", { type: "button", title: sort === COLUMNS.run.sort ? "" : `${name in COLUMNS ? "" : `${name}. `}Alt and an arrow key move this column`, onclick: () => sortBy(key), onkeydown: (event) => moveByKey(event, name) }, `${text}${state.sort === key ? (state.down ? " ↑" : " ↓") : ""}`);
      const cell = h("th", { scope: "col", class: `${isNumber ? "number" : ""} ${name === "differs" ? "col-differs" : ""}`, "aria-sort": state.sort in sort ? (state.down ? "descending" : "ascending") : null, draggable: name !== "run" },
        Object.keys(sort).length ? Object.keys(sort).map((key, index) => [index ? h("span", { class: "faint" }, " · ") : null, label(key, index ? key : title)]) : title,
        name === "curve" ? h("button", { type: "button", class: "save", "aria-label": "Save the curves as SVG", title: "Save the curves as SVG", onclick: () => saveSparklines(items, tint) }, "SVG") : null);
      cell.addEventListener("dragstart", (event) => event.dataTransfer.setData("text/plain", name));
      cell.addEventListener("dragover", (event) => event.preventDefault());
      cell.addEventListener("drop", (event) => { event.preventDefault(); moveTo(event.dataTransfer.getData("text/plain"), name); });
      return cell;
    }));
  }

  function moveTo(moved, target) {
    const order = names.filter((name) => name !== "run"), from = order.indexOf(moved), to = order.indexOf(target);
    if (from < 0 || to < 0 || from === to) return;
    order.splice(to, 0, ...order.splice(from, 1));
    state.columns = order;
    draw();
  }

  function moveByKey(event, name) {
    const step = event.altKey && { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    moveTo(name, names[names.indexOf(name) + step]);
    heading.children[names.indexOf(name) + 1]?.querySelector("button")?.focus();
  }

  function drawGroups() {
    const keys = [...new Set([...different.values()].flat())].sort();
    const seeds = keys.some((key) => /(^|\.)seed$/.test(key));
    const offered = [["", "no groups"], ...(seeds || state.group === SEEDS ? [[SEEDS, "group seeds"]] : []), ...[...new Set([...keys, ...(state.group && state.group !== SEEDS ? [state.group] : [])])].map((key) => [key, `group by ${shortKey(key)}`])];
    clear(groupSelect, offered.map(([value, text]) => h("option", { value, selected: value === state.group }, text)));
    groupSelect.hidden = offered.length < 2;
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

  function row(run) {
    const members = run.members || [run], marked = () => members.filter((each) => state.selected.has(each.id)).length;
    const select = h("input", { type: "checkbox", "aria-label": `Select ${run.title || run.id}`, checked: marked() === members.length, disabled: run.state === "damaged", onchange: () => {
      for (const each of members) if (each.state !== "damaged") state.selected[select.checked ? "add" : "delete"](each.id);
      showCount();
      keep();
      if (!state.group) { element.setAttribute("aria-selected", String(select.checked)); return; }
      rows.show(items); // a group and its runs are marked together
      [...body.querySelectorAll("input[type=checkbox]")].find((each) => each.ariaLabel === select.ariaLabel)?.focus({ preventScroll: true });
    } });
    select.indeterminate = marked() > 0 && marked() < members.length;
    const element = h("tr", { class: run.members ? "group" : run.inside ? "member" : "", "aria-selected": String(marked() > 0) }, h("td", {}, select), names.map((name) => cell(name, run)));
    if (isNarrow()) for (const each of [element, ...element.children]) each.setAttribute("role", each === element ? "row" : "cell"); // a card is still a row to a screen reader
    return element;
  }

  function cell(name, run) {
    if (Object.hasOwn(CELLS, name)) return CELLS[name](run);
    const { cell: content, setting: isSetting } = column(name);
    const text = content(run);
    return h("td", { class: isSetting ? "mono" : "number soft", title: isSetting && name in run.settings ? `${name} = ${setting(run.settings[name])}` : "" }, text);
  }

  const CELLS = {
    run: (run) => h("td", {}, run.members ? disclosure(run) : [run.state === "damaged" ? h("span", { title: run.problem }, run.id) : h("a", { class: "swatch", style: { "--colour": tint(run) }, href: address("/run", { run: run.id }), title: run.id }, run.id), h("small", { class: "unit" }, isNarrow() && run.state !== "finished" ? [badge(run), " "] : null, run.task)]),
    state: (run) => h("td", {}, run.state === "mixed" ? h("span", { class: "soft" }, "several") : badge(run)),
    best: (run) => h("td", { class: "number score" }, score(run, best.has(run.id)), metric(run, isNarrow())),
    last: (run) => h("td", { class: "number soft" }, run.last ? number(run.last.value) : "–"),
    baseline: (run) => h("td", { class: "number" }, baseline(run)),
    differs: (run) => h("td", { class: "chips" }, h("div", {}, run.state === "damaged" ? h("span", { class: "faint", title: run.problem }, run.problem) : chips(run))),
    curve: (run) => h("td", { class: "curve" }, sparkline(run.curve, { band: run.band, stroke: tint(run) })),
    parameters: (run) => h("td", { class: "number soft" }, count(Math.round(run.parameters))),
    started: (run) => h("td", { class: "soft" }, date(run.started), h("small", { class: "unit" }, duration(run.seconds))),
    note: (run) => h("td", {}, run.members ? null : noteField(run.original || run)),
  };

  function disclosure(run) {
    const open = state.open.has(run.id);
    return [h("button", { type: "button", class: "disclosure", "aria-expanded": String(open), title: run.parts.map((part) => part.join(" = ")).join(", "), onclick: () => {
      if (open) state.open.delete(run.id);
      else state.open.add(run.id);
      draw();
      [...body.querySelectorAll(".disclosure")].find((each) => each.title && each.textContent === `${open ? "▸" : "▾"} ${run.title}`)?.focus({ preventScroll: true });
    } }, `${open ? "▾" : "▸"} ${run.title}`), h("small", { class: "unit" }, `${run.members.length} ${run.members.length === 1 ? "run" : "runs"} · ${run.task}`)];
  }

  // In what a run differs from most runs of its task; what somebody chose comes first.
  const usual = new Map();
  function chips(run) {
    const keys = different.get(run.task) || [];
    if (!keys.length) return null;
    if (usual.get(run.task)?.keys !== keys) {
      const members = shown.filter((each) => each.task === run.task);
      usual.set(run.task, { keys, sorted: [...keys].sort((a, b) => weight(members, b) - weight(members, a)), values: new Map(keys.map((key) => [key, majority(members, key)])) });
    }
    const { sorted, values } = usual.get(run.task), own = sorted.filter((key) => key in run.settings && setting(run.settings[key]) !== values.get(key));
    if (!own.length) return h("span", { class: "faint small", title: "This run has the settings of most runs of its task." }, "as most of them");
    const items = own.map((key) => ({ text: lastName(key, keys) + setting(run.settings[key]), chip: () => h("span", { class: "chip", title: `${key} = ${setting(run.settings[key])}${values.get(key) === null ? "" : `; most have ${values.get(key)}`}` }, h("i", {}, lastName(key, keys)), h("span", {}, setting(run.settings[key]))) }));
    return chipRow(items, { width: chipWidth, lines: phone.matches ? 1 : 2, title: `What differs in ${run.members ? "this group" : run.id}` });
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

  draw();
  const redraw = () => draw();
  phone.addEventListener("change", redraw);
  let wide = frame.clientWidth;
  new ResizeObserver(debounce(() => { if (frame.isConnected && frame.clientWidth !== wide) { wide = frame.clientWidth; draw(); } }, 200)).observe(frame); // as many differences are shown as fit
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
          colours = runColours(runs);
          draw();
          if (focused?.matches("tbody input")) [...body.querySelectorAll("input[type=checkbox]")].find((each) => each.ariaLabel === focused.ariaLabel)?.focus({ preventScroll: true });
        }
      } catch {
        // the studio was stopped; what is shown stays
      }
    }
    timer = setTimeout(poll, Math.max(POLL, SHARE * (performance.now() - start)));
  }
  return () => { left = true; clearTimeout(timer); phone.removeEventListener("change", redraw); };
}

// The name of a setting without its section, unless others have the same name.
function lastName(key, keys) {
  const name = key.split(".").at(-1);
  return keys.some((other) => other !== key && other.split(".").at(-1) === name) ? shortKey(key) : name;
}

// The value of a setting that more than half of the runs have; null: there is none.
function majority(runs, key) {
  const counts = new Map();
  for (const run of runs) if (key in run.settings) counts.set(setting(run.settings[key]), (counts.get(setting(run.settings[key])) || 0) + 1);
  return [...counts].find(([, count]) => 2 * count > runs.length)?.[0] ?? null;
}

// What somebody chose says most, and how often a training reports says least.
function weight(runs, key) {
  return runs.filter((run) => run.changed.includes(key)).length / runs.length - isReporting(key);
}

function searchable(run) {
  run.text ??= [run.id, run.task, run.state, run.note, ...run.changed.map((key) => `${key}=${setting(run.settings[key])}`)].join(" ").toLowerCase();
  return run.text;
}

function metric(run, short) {
  if (!run.metric) return null;
  const better = `${run.metric}: ${run.higher_is_better ? "higher" : "lower"} is better.`;
  const range = run.members && run.best?.deviation !== null && run.best ? `${number(run.best.low, 3)} … ${number(run.best.high, 3)}` : run.members ? "" : interval(run.best);
  return h("small", { class: "unit", title: run.members ? `${better} Mean ± standard deviation of the runs, and from the lowest to the highest` : `${better} 95 % confidence interval ${interval(run.best) || "not known"}` }, `${run.metric} ${run.higher_is_better ? "↑" : "↓"} ${short ? "" : range}`);
}

// Whether the best model is better than the trivial one.
function baseline(run) {
  if (run.baseline === null || !run.best) return h("span", { class: "faint" }, "–");
  const better = run.higher_is_better ? run.best.value > run.baseline : run.best.value < run.baseline;
  return h("span", { class: better ? "soft" : "warn", title: better ? "The model is better than this baseline." : "The model is no better than this baseline." }, `${better ? "" : "⚠ "}${number(run.baseline)}`);
}

function score(run, isBest) {
  if (!run.best) return h("span", { class: "faint" }, "–");
  const spread = typeof run.best.deviation === "number" ? ` ± ${number(run.best.deviation, 2)}` : "";
  return h("span", { class: isBest ? "best" : "", title: isBest ? "The best of its task" : "" }, `${isBest ? "★ " : ""}${number(run.best.value)}${spread}`);
}
