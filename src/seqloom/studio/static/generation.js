// What a model generates: the continuation of a text, token by token, handwriting, or music.

import { post } from "./api.js";
import { clear, errorBox, h } from "./dom.js";
import { number, percent } from "./format.js";
import { pianoRoll, strokes } from "./media.js";
import { download } from "./save.js";
import { visible } from "./strip.js";

// generates: "text", "drawings" or "music"; text(): what was typed.
export function generationCard(run, { generates: kind, writes_text: writes }, text) {
  const state = { seed: 1 };
  const result = h("div", { "aria-live": "polite" });
  const drawing = kind === "drawings";
  const [title, action] = { text: ["How the model continues it", "Continue"], drawings: writes ? ["Write a text by hand", "Write"] : ["What the model draws", "Draw"], music: ["What the model composes", "Compose"] }[kind];
  const temperature = h("input", { type: "range", min: 0, max: 1.5, step: 0.1, value: 0.8, "aria-label": "Temperature", oninput: () => { label.textContent = describe(); }, onchange: () => go(state.seed) });
  const describe = () => `${Number(temperature.value) === 0 ? "only the most probable" : Number(temperature.value) < 0.7 ? "tidy" : Number(temperature.value) <= 1 ? "varied" : "wild"} (temperature ${temperature.value})`;
  const label = h("span", { class: "small soft" }, describe());
  const field = drawing && writes ? h("input", { type: "text", maxLength: 200, placeholder: "a text to write", "aria-label": "Text to write", onchange: () => go(state.seed) }) : null;
  const start = h("button", { type: "button", class: "primary", onclick: () => go(state.seed) }, action);
  const again = h("button", { type: "button", onclick: () => go(state.seed + 1) }, "Another one");

  async function go(seed) {
    state.seed = seed;
    result.classList.add("loading");
    start.disabled = again.disabled = true;
    try {
      const answer = await post("/api/generate", { run, text: kind === "text" ? text() : field?.value ?? "", seed, temperature: Number(temperature.value) });
      clear(result, drawing ? strokes(answer.strokes.flat(), answer.strokes.length, field?.value || "A drawing of the model") : kind === "music" ? music(answer) : continuation(answer.tokens));
    } catch (error) {
      clear(result, errorBox(error));
    } finally {
      result.classList.remove("loading");
      start.disabled = again.disabled = false;
    }
  }

  function continuation(tokens) {
    return [h("p", { class: "answer generated" }, h("span", { class: "soft" }, text()), tokens.map((token) => h("span", {
      class: token.probability < 0.1 ? "unlikely" : "", title: `${visible(token.text)} ${percent(token.probability)}; most probable: ${token.alternatives.map(([name, value]) => `${visible(name)} ${percent(value)}`).join(", ")}`,
    }, token.text))),
    h("p", { class: "small soft" }, "Underlined: tokens with a probability below 10 %. Move over a token to see what else was probable.")];
  }

  function music({ frames, frames_per_beat: perBeat, seconds, midi }) {
    const beat = (frame) => `beat ${Math.floor(frame / perBeat) + 1}`, bytes = Uint8Array.from(atob(midi), (letter) => letter.charCodeAt(0));
    return [pianoRoll(frames.flat(), frames.length, { title: `Piano roll, ${number(seconds, 3)} seconds`, frameName: beat }),
      h("p", { class: "never" }, h("button", { type: "button", onclick: () => download(`composed_${state.seed}.mid`, "audio/midi", bytes) }, "Save as MIDI"), h("span", { class: "small soft" }, " to play it"))];
  }

  return h("section", { class: "card never" }, h("h2", {}, title), h("p", { class: "bar small-bar" }, field, start, again, temperature, label), result);
}
