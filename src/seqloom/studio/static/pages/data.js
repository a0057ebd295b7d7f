// Every dev example with the answer of a model: where it is right, and where it is not.

import { isRight } from "../answer.js";
import { get } from "../api.js";
import { chipRow } from "../chips.js";
import { confusionCard, errorsCard } from "../confusion.js";
import { clear, debounce, h, message } from "../dom.js";
import { number, percent } from "../format.js";
import { mean } from "../groups.js";
import { compareValues, longTable } from "../longtable.js";
import { address, go, remember } from "../router.js";
import { loadRuns, runSelect } from "../runs.js";
import { features, sliceCard, wordsOf } from "../slices.js";
import { inputText, thumbnail } from "../texts.js";

const CARD = 72; // pixels: the height of an example on a phone, as in style.css
const SHOWN = { "": "all examples", wrong: "only wrong answers", right: "only right answers" };

export async function showData(main, query) {
  const { runs } = await loadRuns();
  const usable = runs.filter((run) => run.state !== "damaged" && (run.best || run.state !== "training"));
  const id = query.get("run") || usable[0]?.id;
  if (!id) {
    clear(main, message("No model yet", "Train one first; then its answers to all dev examples can be seen here."));
    return;
  }
  const bar = h("div", { class: "bar" }, h("h1", {}, "Data"), runSelect(usable, id, (run) => go("/data", { run })), h("span", { class: "soft" }, "Every dev example with the answer of the model"));
  const content = h("div", {}, h("p", { class: "message" }, "The model answers the dev data …"));
  clear(main, bar, content);
  let table;
  try {
    table = await get("/api/answers", { run: id });
  } catch (error) {
    clear(content, message("No answers to show", error.message, h("a", { href: address("/try", { run: id }) }, "Try the model with an input of your own")));
    return;
  }
  draw(content, id, table, query);
}

function draw(content, id, table, query) {
  const { rows, metric, labels, higher_is_better: higher } = table;
  const length = (query.get("length") || "").split("~").map(Number);
  const usual = rows.some((row) => row.confidence !== null) ? "confidence" : "score"; // errors of which the model is sure come first
  const state = { sort: query.get("sort") || usual, down: query.get("down") === "1", filter: query.get("filter") || "", show: query.get("show") || "", label: query.get("label") || "", predicted: query.get("predicted") || "", length: length.length === 2 && length.every(Number.isFinite) ? length : null, word: query.get("word") || "", by: query.get("by") || "" };
  const aligned = labels.length > 0 && rows.some((row) => row.errors.length || row.input.includes("\t"));
  // An answer may be the score itself, as of music.
  const has = { target: !aligned && rows.some((row) => row.target), answer: !aligned && rows.some((row) => row.answer && !(Math.abs(Number(row.answer) - row.score) < 1e-3)), score: rows.some((row) => row.score !== null), confidence: rows.some((row) => row.confidence !== null) };
  const measured = rows.some((row) => /\d\.\d/.test(row.answer)) && rows.every((row) => /^[-+\d.,;e ]*$/.test(row.answer)); // numbers are never quite right
  const judged = labels.length > 0 || (has.target && has.answer && !measured);
  const single = labels.length > 0 && !aligned; // the score of one label says no more than whether it is right
  const right = (row) => (labels.length ? row.wrong === 0 : isRight(row.answer, row.target));
  const columns = [
    ["example", "#", 64, true, (row) => row.example],
    ["input", "Input", 0, false, (row) => inputText(row).toLowerCase()],
    ...(has.target ? [["target", "Target", 0, false, (row) => row.target]] : []),
    ...(has.answer ? [["answer", "Answer", 0, false, (row) => row.answer]] : []),
    ...(aligned ? [["wrong", "Wrong labels", 0, false, (row) => -row.wrong]] : []),
    ...(has.confidence ? [["confidence", "Confidence", 112, true, (row) => (right(row) ? row.confidence : -row.confidence)]] : []),
    ...(has.score && !(single && has.confidence && metric === "accuracy") ? [["score", metric, Math.max(96, 8 * metric.length + 32), true, (row) => (row.score === null ? Infinity : higher ? row.score : -row.score)]] : []),
    ["length", table.length_unit.length <= 10 ? table.length_unit[0].toUpperCase() + table.length_unit.slice(1) : "Length", 112, true, (row) => -row.length],
  ];
  const pairIds = () => new Set(table.pairs.flatMap((pair, index) => ((!state.label || pair.label === state.label) && (!state.predicted || pair.predicted === state.predicted) ? [index] : [])));

  const offered = has.score ? features({ ...table, single, higher, isText: table.reads_text }) : [];
  const heading = h("tr"), body = h("tbody", { role: "rowgroup" }), count = h("span", { role: "status" }), chosen = h("span", { class: "chosen-parts" }), matrix = h("div", { class: "two pictures" });
  const frame = h("div", { class: "table", tabindex: 0, role: "region", "aria-label": "Dev examples, can be scrolled" });
  frame.append(h("table", { role: "table" }, h("colgroup", {}, columns.map(([name, , width]) => h("col", width ? { class: `col-${name}`, style: { width: `${width}px` } } : {}))), h("thead", {}, heading), body));
  const search = h("input", { type: "search", "aria-label": "Filter", placeholder: "Filter by text", value: state.filter, oninput: debounce(() => { state.filter = search.value; show(); }, 120) });
  const which = h("select", { "aria-label": "Which examples", onchange: () => { state.show = which.value; show(); } }, Object.entries(SHOWN).map(([value, text]) => h("option", { value, selected: value === state.show }, text)));
  const phone = matchMedia("(max-width: 720px)"), height = () => (phone.matches ? CARD : 40);
  const long = longTable({ frame, body, row, width: () => columns.length, empty: "No example fits.", height });
  clear(content, matrix, h("div", { class: "answers" }, h("div", { class: "bar" }, count, chosen, h("span", { class: "grow" }), judged ? which : null, search), frame, table.note ? h("p", { class: "small soft" }, table.note) : null));
  phone.addEventListener("change", () => body.isConnected && show());
  drawPictures();
  show();

  function drawPictures() {
    const name = (element) => element.getAttribute("aria-label") || element.textContent;
    const focused = matrix.contains(document.activeElement) ? name(document.activeElement) : null;
    const choose = (choice) => { Object.assign(state, choice); drawPictures(); show(); };
    clear(matrix, labels.length ? confusionCard({ ...table, chosen: state, choose }) : null, h("div", { class: "stack" },
      labels.length ? errorsCard({ ...table, chosen: state, choose }) : null,
      has.score ? sliceCard({ offered, metric, by: state.by, chosen: state, choose, change: (by) => { state.by = by; drawPictures(); show(); matrix.querySelector("select")?.focus(); } }) : null));
    if (focused) [...matrix.querySelectorAll("[role=button], button")].find((each) => name(each) === focused)?.focus({ preventScroll: true });
  }

  function show() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean), ids = state.label || state.predicted ? pairIds() : null;
    const fits = (row) => {
      row.text ??= `${row.input} ${row.target} ${row.answer} ${row.place}`.toLowerCase();
      return (!ids || row.pairs.some((pair) => ids.has(pair))) && (!state.word || wordsOf(row).has(state.word)) && (!state.length || (row.length >= state.length[0] && row.length <= state.length[1])) && (!state.show || !judged || right(row) === (state.show === "right")) && words.every((word) => row.text.includes(word));
    };
    const key = (columns.find(([name]) => name === state.sort) || columns[0])[4];
    const kept = rows.filter(fits).sort((a, b) => compareValues(key(a), key(b)) * (state.down ? -1 : 1) || a.example - b.example);
    const scores = kept.map((each) => each.score).filter((value) => value !== null);
    count.textContent = `${kept.length === rows.length ? number(rows.length) : `${number(kept.length)} of ${number(rows.length)}`} examples${scores.length && kept.length < rows.length ? `, mean ${metric} ${number(mean(scores), 3)}` : ""}${table.score !== null ? ` · ${metric} of all ${number(table.score)}` : ""}`;
    const drop = (text, change) => h("button", { type: "button", class: "chip-button", "aria-label": `Remove the filter ${text}`, onclick: () => { Object.assign(state, change); drawPictures(); show(); } }, `${text} ×`);
    clear(chosen, state.label || state.predicted ? drop(state.label && state.predicted ? (state.label === state.predicted ? `${state.label}, right` : `${state.label} answered as ${state.predicted}`) : state.label ? `label ${state.label}` : `answer ${state.predicted}`, { label: "", predicted: "" }) : null,
      state.length ? drop(`${state.length.map((end) => number(end, 3)).join("–")} ${table.length_unit}`, { length: null }) : null, state.word ? drop(`with the word ${state.word}`, { word: "" }) : null);
    clear(heading, columns.map(([name, title, , isNumber]) => h("th", { scope: "col", class: `${isNumber ? "number" : ""} col-${name}`, "aria-sort": state.sort === name ? (state.down ? "descending" : "ascending") : null },
      h("button", { type: "button", onclick: () => { state.down = state.sort === name ? !state.down : false; state.sort = name; frame.scrollTop = 0; show(); heading.querySelector(`[data-name="${name}"]`)?.focus(); }, "data-name": name }, `${title}${state.sort === name ? (state.down ? " ↑" : " ↓") : ""}`))));
    remember("/data", { run: id, sort: state.sort === usual ? "" : state.sort, down: state.down ? "1" : "", filter: state.filter, show: state.show, label: state.label, predicted: state.predicted, length: state.length ? state.length.join("~") : "", word: state.word, by: state.by === "length" ? "" : state.by });
    long.show(kept);
  }

  function errorChip({ element, label, predicted }) {
    return { text: `${element.slice(0, 18)}${label}${predicted}  `, chip: () => h("span", { class: "chip", title: `${element}: ${label} answered as ${predicted}` }, h("i", {}, element), h("span", { class: "right" }, label), "→", h("span", { class: "wrong" }, predicted)) };
  }

  function row(each) {
    const cells = {
      example: () => h("td", { class: "number faint col-example" }, number(each.example + 1)),
      input: () => h("td", { class: "col-input" }, h("a", { href: address("/inside", { run: id, example: String(each.example) }), title: `${each.place}: see inside` }, table.pictures ? thumbnail(id, each.example) : null, inputText(each))),
      target: () => h("td", { title: each.target }, each.target.replaceAll("\n", " / ")),
      answer: () => h("td", { title: each.answer, class: judged ? (right(each) ? "right" : "wrong") : "" }, each.answer.replaceAll("\n", " / ") || h("span", { class: "faint" }, "(empty)")),
      wrong: () => h("td", { class: "chips" }, h("div", {}, each.wrong ? chipRow(each.errors.map(errorChip), { width: phone.matches ? frame.clientWidth - 116 : heading.querySelector(".col-wrong").clientWidth - 16, lines: phone.matches ? 1 : 2, title: `Wrong labels in example ${number(each.example + 1)}`, total: each.wrong }) : h("span", { class: "right small" }, "all right"))),
      confidence: () => h("td", { class: "number soft", title: "The probability that the model gives to its answer" }, percent(each.confidence)),
      score: () => h("td", { class: "number" }, number(each.score)),
      length: () => h("td", { class: "number soft col-length" }, number(each.length, 3)),
    };
    const element = h("tr", {}, columns.map(([name]) => cells[name]()));
    if (phone.matches) for (const cell of [element, ...element.children]) cell.setAttribute("role", cell === element ? "row" : "cell"); // a card is still a row to a screen reader
    return element;
  }
}
