// Ask a model, or two side by side.

import { get, post } from "../api.js";
import { showAnswer } from "../answer.js";
import { clear, debounce, errorBox, h, message } from "../dom.js";
import { otherInputs } from "../inputs.js";
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
  const state = { text: query.get("text") || "", search: query.get("search") || "" };
  const answers = [id, second].filter(Boolean).map((run) => ({ run, box: h("div", { class: "card", "aria-live": "polite" }), controller: null }));
  const searchField = model.uses_search ? h("input", { type: "text", value: state.search, placeholder: "beam size=5 nbest=3", "aria-label": "Decoding method", list: "searches", oninput: debounce(() => { state.search = searchField.value; ask(); }, 400) }) : null;
  searchField?.setAttribute("list", "searches");
  const others = usable.filter((run) => run.task === model.task && run.id !== id);
  clear(main,
    h("div", { class: "bar" }, h("h1", {}, "Try"), runSelect(usable, id, (run) => go("/try", { run, text: model.reads_text ? state.text : "" })),
      others.length ? h("span", { class: "soft" }, "beside") : null,
      others.length ? runSelect(others, second, (run) => go("/try", { run: id, second: run, text: state.text, search: state.search }), { label: "Second run", empty: true }) : null,
      h("span", { class: "grow" }), searchField ? h("label", { class: "soft" }, "search ", searchField) : null,
      searchField ? h("datalist", { id: "searches" }, ["greedy", "beam size=5", "beam size=5 nbest=3", "sample temperature=0.8", "best_path", "prefix_beam size=64"].map((value) => h("option", { value }))) : null));
  const grid = h("div", { class: "two" });
  const input = h("div", { class: "card" });
  grid.append(input, h("div", {}, answers.map(({ run, box }) => h("div", { style: { "margin-bottom": "16px" } }, h("h2", {}, answers.length > 1 ? run : "Answer"), box))));
  main.append(grid);

  const waiting = () => answers.forEach(({ box }) => clear(box, h("p", { class: "faint" }, model.reads_text ? "Type something: the answer follows as you type." : "Give the model a file, a drawing, a recording or numbers.")));

  async function ask(value = state.text) {
    remember("/try", { run: id, second, text: model.reads_text ? state.text : "", search: state.search });
    if (typeof value === "string" && !value.trim()) { waiting(); return; }
    await Promise.all(answers.map(async (answer) => {
      answer.controller?.abort();
      answer.controller = new AbortController();
      try {
        clear(answer.box, h("p", { class: "faint" }, "…"));
        const result = await post("/api/predict", body(answer.run, value), answer.controller.signal);
        clear(answer.box, showAnswer(result.prediction), h("p", { class: "small" },
          typeof value === "string" ? h("a", { href: address("/inside", { run: answer.run, text: value, search: state.search }) }, "See inside") : null));
      } catch (error) {
        if (error.name !== "AbortError") clear(answer.box, errorBox(error));
      }
    }));
  }

  function body(run, value) {
    if (!(value instanceof File)) return { run, input: value, search: state.search };
    const form = new FormData();
    form.append("run", run);
    if (state.search) form.append("search", state.search);
    form.append("file", value);
    return form;
  }

  if (model.reads_text) {
    const field = h("textarea", { rows: 6, value: state.text, placeholder: "Your text", "aria-label": "Input", oninput: debounce(() => { state.text = field.value; ask(); }, 200) });
    input.append(field, h("p", { class: "faint small" }, "The address of this page holds the text: share it, or reload it."));
    if (state.text) await ask();
    else waiting();
    field.focus();
  } else {
    input.append(otherInputs(ask));
    waiting();
  }
}
