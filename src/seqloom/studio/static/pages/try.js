// Ask a model, or two side by side.

import { get, post, postPacked } from "../api.js";
import { showAnswer } from "../answer.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { exampleList, unpress } from "../examples.js";
import { generationCard } from "../generation.js";
import { otherInputs } from "../inputs.js";
import { showMedia } from "../media.js";
import { address, go, remember } from "../router.js";
import { loadRuns, runSelect } from "../runs.js";

export async function showTry(main, query) {
  const { runs } = await loadRuns();
  const usable = runs.filter((run) => run.state !== "damaged" && (run.best || run.state !== "training"));
  const id = query.get("run") || usable[0]?.id;
  if (!id) {
    clear(main, message("No model yet", "Train one first; it appears here at its first checkpoint."));
    return;
  }
  const second = query.get("second") || "";
  const model = await get("/api/model", { run: id });
  const state = { text: query.get("text") || "", search: query.get("search") || "", example: query.get("example") };
  const answers = [id, second].filter(Boolean).map((run) => ({ run, box: h("div", { "aria-live": "polite" }), controller: null }));
  let given = "";
  const searchField = model.uses_search ? h("input", { type: "text", value: state.search, placeholder: "as in the run", title: "Such as greedy, or beam size=5 nbest=3", "aria-label": "Decoding method", list: "searches", oninput: debounce(() => { state.search = searchField.value; ask(given); }, 400) }) : null;
  searchField?.setAttribute("list", "searches");
  const others = usable.filter((run) => run.task === model.task && run.id !== id);
  clear(main,
    h("div", { class: "bar" }, h("h1", {}, "Try"), runSelect(usable, id, (run) => go("/try", { run, text: model.reads_text ? state.text : "" })),
      others.length ? h("span", { class: "soft" }, "beside") : null,
      others.length ? runSelect(others, second, (run) => go("/try", { run: id, second: run, text: state.text, search: state.search }), { label: "Second run", empty: true }) : null,
      h("span", { class: "grow" }), searchField ? h("label", { class: "soft" }, "decoding ", searchField) : null,
      searchField ? h("datalist", { id: "searches" }, ["greedy", "beam size=5", "beam size=5 nbest=3", "sample temperature=0.8", "best_path", "prefix_beam size=64"].map((value) => h("option", { value }))) : null));
  const grid = h("div", { class: "two" });
  const preview = h("section", { class: "card" });  // beside the pad, which must not move while somebody draws
  const input = h("div", { class: "card" });
  grid.append(input, h("div", { class: "stack" }, preview, answers.map(({ run, box }) => h("section", { class: "card" }, h("h2", {}, answers.length > 1 ? run : "Answer"), box)),
    ["text", "drawings", "music"].includes(model.generates) ? generationCard(id, model, () => state.text) : null));
  main.append(grid);

  const waiting = () => answers.forEach(({ box }) => clear(box, h("p", { class: "faint" }, model.reads_text ? "Type something: the answer follows as you type." : "Give the model something to read: the answer appears here.")));

  async function ask(value = state.text) {
    state.example = value && value.example !== undefined ? String(value.example) : null;
    remember("/try", { run: id, second, text: model.reads_text && state.example === null ? state.text : "", search: state.search, example: state.example });
    if (value !== given && value !== first) unpress(input);
    given = value;
    if (typeof value === "string" && !value.trim()) { waiting(); return; }
    if (!model.reads_text) showFile(value);
    await Promise.all(answers.map(async (answer) => {
      answer.controller?.abort();
      answer.controller = new AbortController();
      answer.box.classList.add("loading");
      try {
        const result = await post("/api/predict", body(answer.run, value), answer.controller.signal);
        const inside = typeof value === "string" ? { text: value } : value.example !== undefined ? { example: String(value.example) } : null;
        if (result.prediction.columns && answer === answers[0]) { forecasts.set(value, result.prediction); showFile(value); }
        clear(answer.box, showAnswer(result.prediction, known(value)?.target), expected(value), inside ? h("p", { class: "small never" }, h("a", { href: address("/inside", { run: answer.run, ...inside, search: state.search }) }, "See inside: why this answer?")) : null);
        answer.box.classList.remove("loading");
      } catch (error) {
        if (error.name !== "AbortError") { clear(answer.box, errorBox(error)); answer.box.classList.remove("loading"); }
      }
    }));
  }

  // What is shown beside the input: a forecast continues it.
  const forecasts = new Map();
  const known = (value) => model.examples.find((each) => each.example === value?.example);
  function expected(value) {
    const example = known(value);
    return example?.target && !example.target.includes("\t") ? h("p", { class: "soft" }, "target: ", example.target.replaceAll("\t", " ").replaceAll("\n", " / ")) : null;
  }

  // What was given, where it is a file: the picture or the sound itself.
  function showFile(value) {
    if (value?.example !== undefined || (value instanceof File && model.input_kind === "music")) { showRead(value); return; }
    if (!(value instanceof File)) { clear(preview); return; }
    const source = URL.createObjectURL(value);
    if (/^image\//.test(value.type)) clear(preview, h("img", { class: "picture", alt: value.name, src: source }));
    else if (/^audio\//.test(value.type)) clear(preview, h("audio", { controls: true, src: source }));
    else clear(preview, h("p", { class: "soft" }, value.name));
  }

  // What the model reads of an example or a file; nothing if it cannot read it, which the answer says.
  async function showRead(value) {
    const { content, values } = await postPacked("/api/media", body(id, value)).catch(() => ({ content: { media: [] } }));
    if (value === given) clear(preview, showMedia(content.media, values, undefined, { forecast: forecasts.get(value) }));
  }

  function body(run, value) {
    if (!(value instanceof File)) return { run, search: state.search, ...(value.example !== undefined ? { example: value.example } : { input: value }) };
    const form = new FormData();
    form.append("run", run);
    if (state.search) form.append("search", state.search);
    form.append("file", value);
    return form;
  }

  // Nothing was given: the first example shows what the model does.
  if (state.example === null && !state.text && model.examples.length) state.example = String(model.examples[0].example);
  const first = state.example !== null ? { example: Number(state.example) } : null;
  if (model.reads_text) {
    const start = model.examples.find((example) => String(example.example) === state.example);
    state.text ||= start?.input.replaceAll("\t", " ") || "";
    const field = h("textarea", { rows: 4, value: state.text, placeholder: "Type a text: the answer follows", "aria-label": "Input", oninput: debounce(() => { state.text = field.value; ask(); }, 200) });
    input.append(field, exampleList(model, first?.example, (example) => { state.text = field.value = example.input.replaceAll("\t", " "); ask({ example: example.example }); }) || "");
    if (first || state.text) await ask(first || state.text);
    else waiting();
    field.focus({ preventScroll: true });
    if (first) field.select();  // typing replaces the example
  } else {
    input.append(exampleList(model, first?.example, (example) => ask({ example: example.example })) || "", h("h3", { class: "never" }, model.examples.length ? "or your own" : "Give it something to read"), otherInputs(ask, model));
    if (first) await ask(first);
    else waiting();
  }
}
