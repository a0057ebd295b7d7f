// Settings and the score of many runs: one line for each run through parallel axes (Inselberg 1985).

import { ticks } from "./chart.js";
import { clear, h } from "./dom.js";
import { number, setting, shortSetting } from "./format.js";
import { differences, isReporting, shortKey } from "./runs.js";
import { saveSvg } from "./save.js";

const FEWEST_RUNS = 4, FEWEST_SETTINGS = 2, MOST_AXES = 8;
const HEIGHT = 280, TOP = 40, BOTTOM = 20, SIDE = 72, LETTER = 6.5; // pixels
const MOST_VALUES = 12; // of an axis of words

// An axis: where a value lies on it, from 0 to 1, and what is written beside it.
function axis(name, title, values) {
  const numeric = values.every((value) => typeof value === "number");
  if (!numeric) {
    const texts = [...new Set(values.map((value) => setting(value)))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const place = (value) => (texts.indexOf(setting(value)) + 0.5) / texts.length;
    return { name, title, place, text: setting, marks: texts.slice(0, MOST_VALUES).map((text) => [(texts.indexOf(text) + 0.5) / texts.length, text === '""' ? "none" : text]) };
  }
  const low = Math.min(...values), high = Math.max(...values), logarithmic = low > 0 && high / low >= 8, scale = logarithmic ? Math.log : (value) => value;
  const place = (value) => (high === low ? 0.5 : (scale(value) - scale(low)) / (scale(high) - scale(low)));
  const all = [...new Set(values)].sort((a, b) => a - b), marked = all.length <= 6 ? all : logarithmic ? [low, high] : ticks(low, high, 4);
  return { name, title, place, text: (value) => number(value), marks: marked.map((value) => [place(value), number(value, 3)]) };
}

// Marks that stand apart from each other.
function apart(marks, height) {
  const kept = [];
  for (const [place, text] of [...marks].sort((a, b) => a[0] - b[0])) if (!kept.length || (place - kept.at(-1)[0]) * height >= 14) kept.push([place, text]);
  return kept;
}

// runs: of one metric. tint(id): the colour of a run. Nothing where there are few runs or settings.
export function parallelCard(runs, tint) {
  const scored = runs.filter((run) => run.best && run.task === runs[0].task);
  const keys = [...differences(scored).values()].flat().filter((key) => !isReporting(key) && scored.every((run) => key in run.settings)).slice(0, MOST_AXES);
  if (scored.length < FEWEST_RUNS || keys.length < FEWEST_SETTINGS) return null;
  const { metric, higher_is_better: higher } = scored[0], axes = [...keys.map((key) => axis(key, shortKey(key), scored.map((run) => run.settings[key]))), axis("", metric, scored.map((run) => run.best.value))];
  const value = (run, { name }) => (name ? run.settings[name] : run.best.value);
  const ranked = [...scored].sort((a, b) => (higher ? 1 : -1) * (a.best.value - b.best.value)); // the worst first: the best is drawn last, in front
  const place = h("div"), reading = h("p", { class: "small soft", role: "status" });
  const usual = `${scored.length} runs. Move over a line, or use the arrow keys, to read it; ${higher ? "higher" : "lower"} ${metric} is better.`;
  let svg = null, WIDTH = 0, lines = new Map(), current = null;

  function choose(run) {
    current = run;
    svg.classList.toggle("chosen", run !== null);
    for (const [each, line] of lines) line.classList.toggle("current", each === run);
    if (run) lines.get(run).parentNode.append(lines.get(run)); // in front
    reading.textContent = run ? `${run.id}: ${metric} ${number(run.best.value)}; ${keys.map((key) => `${shortKey(key)} ${shortSetting(run.settings[key])}`).join(", ")}` : usual;
  }

  function draw() {
    const x = (index) => SIDE + (index / (axes.length - 1)) * (WIDTH - 2 * SIDE), y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), room = Math.floor((WIDTH - 2 * SIDE) / (axes.length - 1) / LETTER);
    svg = h("svg:svg", { class: "parallel", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", tabindex: 0, "aria-label": `Settings and ${metric} of ${scored.length} runs, a line for each; arrow keys move from run to run. Best: ${ranked.at(-1).id}, ${number(ranked.at(-1).best.value)}`, "aria-keyshortcuts": "ArrowUp ArrowDown" });
    const drawing = h("svg:g");
    lines = new Map(ranked.map((run) => [run, h("svg:path", { d: `M${axes.map((each, index) => `${x(index).toFixed(1)} ${y(each.place(value(run, each))).toFixed(1)}`).join("L")}`, fill: "none", stroke: tint(run.id), "stroke-width": 1.75, "stroke-linejoin": "round" }, h("svg:title", {}, run.id))]));
    drawing.append(...lines.values());
    axes.forEach((each, index) => {
      const last = index === axes.length - 1;
      svg.append(h("svg:line", { class: "axis", x1: x(index), x2: x(index), y1: TOP, y2: HEIGHT - BOTTOM }), h("svg:text", { x: x(index), y: 16, "text-anchor": "middle", class: last ? "strong" : "" }, each.title.length > room ? `…${each.title.slice(1 - room)}` : each.title, h("svg:title", {}, each.name || metric)));
    });
    svg.append(drawing);
    axes.forEach((each, index) => {
      const last = index === axes.length - 1;
      for (const [share, text] of apart(each.marks, HEIGHT - TOP - BOTTOM)) svg.append(h("svg:text", { x: x(index) + (last ? 8 : -8), y: y(share) + 4, "text-anchor": last ? "start" : "end", class: "mark" }, text.length > 10 ? `${text.slice(0, 9)}…` : text));
    });
    const nearest = (event) => {
      const area = svg.getBoundingClientRect(), at = [((event.clientX - area.left) / area.width) * WIDTH, ((event.clientY - area.top) / area.height) * HEIGHT];
      const position = Math.max(0, Math.min(axes.length - 1, ((at[0] - SIDE) / (WIDTH - 2 * SIDE)) * (axes.length - 1))), left = Math.min(axes.length - 2, Math.floor(position)), share = position - left;
      const distance = (run) => Math.abs(y(axes[left].place(value(run, axes[left]))) * (1 - share) + y(axes[left + 1].place(value(run, axes[left + 1]))) * share - at[1]);
      const closest = ranked.reduce((best, run) => (distance(run) <= distance(best) ? run : best));
      return distance(closest) < 24 ? closest : null;
    };
    svg.addEventListener("pointermove", (event) => { const run = nearest(event); if (run !== current) choose(run); });
    svg.addEventListener("pointerleave", () => choose(null));
    svg.addEventListener("blur", () => choose(null));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key]; // up: to better runs
      if (!step) return;
      event.preventDefault();
      choose(ranked[current ? Math.max(0, Math.min(ranked.length - 1, ranked.indexOf(current) + step)) : ranked.length - 1]);
    });
    clear(place, svg);
    choose(null);
  }
  new ResizeObserver(() => { const width = Math.round(place.clientWidth); if (width && width !== WIDTH) { WIDTH = Math.max(width, axes.length * 84 + 2 * SIDE - 84); draw(); } }).observe(place);
  const save = h("button", { type: "button", class: "save", "aria-label": "Save the settings and the score as SVG", onclick: () => saveSvg(svg, `settings and ${metric}`) }, "SVG");
  return h("section", { class: "card full" }, h("div", { class: "tools" }, h("h2", {}, `Settings and ${metric}`), save), h("div", { class: "scrolled" }, place), reading);
}
