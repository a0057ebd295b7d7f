// Ask a model, or two side by side.

import { get, post, postPacked } from "../api.js";
import { showAnswer, targetLine, unknownNote } from "../answer.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { exampleList, unpress } from "../examples.js";
import { generationCard } from "../generation.js";
import { inputBody, isOwn, keepInput, keptInput, missingInput, takesPlace } from "../given.js";
import { otherInputs } from "../inputs.js";
import { showMedia } from "../media.js";
import { searchMenu } from "../search.js";
import { address, go, remember } from "../router.js";
import { distinctColours, loadRuns, runColours, runSelect } from "../runs.js";

const BEGINNING = 5; // words of a text that a language model continues at first

export async function showTry(main, query) {
  const { runs } = await loadRuns();
  const usable = runs.filter((run) => run.state !== "damaged" && (run.best || run.state !== "training"));
  const id = query.get("run") || usable[0]?.id;
  if (!id) {
    clear(main, message("No model yet", "Train one first; it appears here at its first checkpoint."));
    return;
  }
  const second = query.get("second") || "";
  const model = await get("/api/model", { run: id, example: query.get("example") || "" });
  const state = { text: query.get("text") || "", search: query.get("search") || "", example: query.get("example"), seed: query.get("seed") || "", temperature: query.get("temperature") || "", write: query.get("write") || "", given: query.get("given"), typed: query.has("text") };
  const answers = [id, second].filter(Boolean).map((run) => ({ run, box: h("div", { "aria-live": "polite" }), controller: null }));
  let given = "";
  // Only what somebody typed is worth asking another model, if it reads texts too.
  const kind = (run) => runs.find((each) => each.id === run)?.input_kind || "";
  const typedFor = (run) => (state.typed && (!kind(run) || kind(run).startsWith("text")) ? state.text : "");
  const others = usable.filter((run) => run.task === model.task && run.id !== id && (!run.input_kind || !kind(id) || run.input_kind === kind(id)));
  clear(main,
    h("div", { class: "bar" }, h("h1", {}, "Try"), runSelect(usable, id, (run) => go("/try", { run, text: typedFor(run), given: kind(run) === kind(id) ? state.given : null })),
      others.length ? h("span", { class: "soft" }, "beside") : null,
      others.length ? runSelect(others, second, (run) => go("/try", { run: id, second: run, text: typedFor(run), example: state.example, search: state.search, given: state.given }), { label: "Second run", empty: true }) : null,
      h("span", { class: "grow" }), model.searches.length ? searchMenu(model.searches, state.search, (search) => { state.search = search; ask(given); }) : null));
  const grid = h("div", { class: "two" });
  const preview = h("section", { class: "card" });  // beside the pad, which must not move while somebody draws
  const input = h("div", { class: "card" }), problem = h("div", { class: "problem", "aria-live": "polite" });
  const generation = ["text", "drawings", "music"].includes(model.generates) ? generationCard(id, model, { text: () => state.text, given: state, beginning: model.examples[0]?.target || "", keep: (chosen) => { Object.assign(state, chosen); keep(); } }) : null;
  const colours = distinctColours(answers.map(({ run }) => run), runColours(runs));
  const shown = answers.map(({ run, box }) => h("section", { class: "card" }, h("h2", answers.length > 1 ? { class: "swatch", style: { "--colour": colours.get(run) } } : {}, answers.length > 1 ? run : { text: "How probable is this text?", drawings: "How probable is this drawing?", music: "How probable is this piece?" }[model.generates] || "Answer"), box));
  grid.append(input, h("div", { class: "stack" }, generation ? [generation, preview] : preview, shown));
  main.append(problem, grid);

  const waiting = () => answers.forEach(({ box }) => clear(box, h("p", { class: "faint" }, model.reads_text ? "Type something: the answer follows as you type." : "Give the model something to read: the answer appears here.")));

  // Another page has its own address.
  const keep = (options) => input.isConnected && remember("/try", { run: id, second, text: model.reads_text && state.typed ? state.text : "", search: state.search, example: state.example, seed: state.seed, temperature: state.temperature, write: state.write, given: state.given }, options);

  async function ask(value = state.text) {
    state.example = value && value.example !== undefined ? String(value.example) : null;
    if (value !== given && value !== first) unpress(input);
    const isNew = value !== first && takesPlace(value, given);
    given = value;
    clear(problem);
    sources?.show(value);
    state.given = addresses.get(value) ?? null;
    keep({ isNew });
    if (!(value instanceof File)) await keepGiven(value);
    if (value !== given) return;
    if (typeof value === "string" && !value.trim()) { waiting(); return; }
    if (!model.reads_text) showRead(value);
    generation?.refresh();
    await Promise.all(answers.map(async (answer) => {
      answer.controller?.abort();
      answer.controller = new AbortController();
      answer.box.classList.add("loading");
      try {
        const result = await post("/api/predict", await body(answer.run, value), answer.controller.signal);
        await keepGiven(value); // of files, only those that the model could read
        const inside = typeof value === "string" ? { text: value } : value.example !== undefined ? { example: String(value.example) } : { given: state.given };
        if (result.prediction.columns && answer === answers[0]) { forecasts.set(value, result.prediction); showRead(value); }
        clear(answer.box, showAnswer(result.prediction, known(value)?.target), targetLine(known(value)?.target, result.prediction), unknownNote(result.unknown, result.prediction), h("p", { class: "small never" }, h("a", { href: address("/inside", { run: answer.run, ...inside, search: state.search }) }, "See inside: why this answer?")));
        answer.box.classList.remove("loading");
      } catch (error) {
        if (error.name !== "AbortError") { clear(answer.box, errorBox(error)); answer.box.classList.remove("loading"); }
      }
    }));
  }

  // Keep an input of one's own in the address.
  async function keepGiven(value) {
    if (!isOwn(value)) return;
    if (!addresses.has(value)) addresses.set(value, await keepInput(value).catch((error) => { clear(problem, h("p", { class: "note" }, `This browser cannot keep the file (${error.message}): there is no link to this input.`)); return null; }));
    if (value !== given) return;
    state.given = addresses.get(value);
    sources?.accept(value);
    keep();
  }

  // What is shown beside the input: a forecast continues it.
  const forecasts = new Map();
  const known = (value) => model.examples.find((each) => each.example === value?.example);

  // What was given, where the model does not show what it reads of it: the picture or the sound itself.
  function showFile(value) {
    if (!(value instanceof File)) { clear(preview); return; }
    const source = URL.createObjectURL(value);
    if (/^image\//.test(value.type)) clear(preview, h("img", { class: "picture", alt: value.name, src: source }));
    else if (/^audio\//.test(value.type)) clear(preview, h("audio", { controls: true, src: source }));
    else clear(preview, h("p", { class: "soft" }, value.name));
  }

  // What the model reads; only what was given if it cannot read it, which the answer says.
  async function showRead(value) {
    const { content, values } = await body(id, value).then((content) => postPacked("/api/media", content)).catch(() => ({ content: { media: [] } }));
    if (value !== given) return;
    if (!content.media.length) showFile(value);
    else clear(preview, showMedia(content.media, values, undefined, { forecast: forecasts.get(value), target: known(value)?.target }));
  }

  // A drawing was cleared: nothing is left of it, nor of the answer to it.
  function wiped() {
    if (!isOwn(given)) return;
    answers.forEach(({ box, controller }) => { controller?.abort(); box.classList.remove("loading"); });
    clear(preview);
    ask("");
  }

  const body = (run, value) => inputBody(value, model, { run, search: state.search });

  // Nothing was given: the first example shows what the model does.
  const own = await keptInput(state.given), missing = state.given && own === null;
  const addresses = new WeakMap(own ? [[own, state.given]] : []); // the parts of addresses that stand for inputs
  let sources = null;
  if (state.example === null && !state.text && !state.given && model.examples.length) {
    if (model.generates === "text") state.text = model.examples[0].input.split(/\s+/).slice(0, BEGINNING).join(" ");
    else state.example = String(model.examples[0].example);
  }
  const first = state.example !== null ? { example: Number(state.example) } : own;
  if (missing) clear(problem, missingInput(state.given));
  if (model.reads_text) {
    const start = model.examples.find((example) => String(example.example) === state.example);
    state.text ||= start?.input.replaceAll("\t", " ") || "";
    const typing = debounce(() => { state.text = field.value; state.typed = true; ask(); }, 200);
    const field = h("textarea", { rows: 4, value: state.text, placeholder: "Type a text: the answer follows", "aria-label": "Input", oninput: typing, onchange: typing.now });
    input.append(field, exampleList(id, model, first?.example, (example) => { state.text = field.value = example.input.replaceAll("\t", " "); state.typed = false; ask({ example: example.example }); }) || "");
    if (first || state.text) await ask(first || state.text);
    else waiting();
    if (first) field.addEventListener("focus", () => field.select(), { once: true });  // typing replaces the example
  } else {
    sources = otherInputs(ask, model, { wiped, shown: own });
    input.append(exampleList(id, model, first?.example, (example) => ask({ example: example.example })) || "", h("h3", { class: "never" }, model.examples.length ? "or an input of your own" : "Give it something to read"), sources);
    if (first) await ask(first);
    else { waiting(); generation?.refresh(); }
  }
}
