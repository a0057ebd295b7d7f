// What a model generates: the continuation of a text, token by token, handwriting, or music.

import { post } from "./api.js";
import { clear, errorBox, h } from "./dom.js";
import { number, percent } from "./format.js";
import { pianoRoll, savable, strokes } from "./media.js";
import { download } from "./save.js";
import { visible } from "./strip.js";

// generates: "text", "drawings" or "music"; text(): what was typed. given: {seed, temperature, write} of an address, or empty texts;
// beginning: what is written first. keep(given): something was chosen. The element has refresh(): a text that was typed is continued.
export function generationCard(run, { generates: kind, writes_text: writes }, { text, given, beginning, keep }) {
  const state = { seed: Number(given.seed) || 1, request: 0 };
  const result = h("div", { "aria-live": "polite" });
  const drawing = kind === "drawings";
  const [title, action] = { text: ["How the model continues it", "Continue"], drawings: writes ? ["Write a text by hand", "Write"] : ["What the model draws", "Draw"], music: ["What the model composes", "Compose"] }[kind];
  const temperature = h("input", { type: "range", min: 0, max: 1.5, step: 0.1, value: given.temperature || 0.8, "aria-label": "Temperature", oninput: () => { label.textContent = describe(); }, onchange: () => go(state.seed) });
  const describe = () => `${Number(temperature.value) === 0 ? "only the most probable" : Number(temperature.value) < 0.7 ? "tidy" : Number(temperature.value) <= 1 ? "varied" : "wild"} (temperature ${temperature.value})`;
  const label = h("span", { class: "small soft" }, describe());
  const field = drawing && writes ? h("input", { type: "text", maxLength: 200, value: given.write || beginning, placeholder: "a text to write", "aria-label": "Text to write", onchange: () => go(state.seed) }) : null;
  const start = h("button", { type: "button", class: "primary", onclick: () => go(state.seed) }, action);
  const again = h("button", { type: "button", onclick: () => go(state.seed + 1) }, "Another one");

  async function go(seed, chosen = true) {
    const request = ++state.request, typed = kind === "text" ? text() : field?.value ?? "";
    state.seed = seed;
    if (chosen) keep({ seed: String(seed), temperature: temperature.value === "0.8" ? "" : temperature.value, write: field?.value ?? "" });
    result.classList.add("loading");
    try {
      const answer = await post("/api/generate", { run, text: typed, seed, temperature: Number(temperature.value) });
      if (request === state.request) clear(result, drawing ? savable(strokes(answer.strokes.flat(), answer.strokes.length, field?.value || "A drawing of the model"), "drawing") : kind === "music" ? music(answer) : continuation(answer.tokens, typed));
    } catch (error) {
      if (request === state.request) clear(result, errorBox(error));
    } finally {
      if (request === state.request) result.classList.remove("loading");
    }
  }

  function continuation(tokens, typed) {
    if (!tokens.length || (tokens.length === 1 && !tokens[0].text.trim())) return h("p", { class: "soft" }, "The model ends the text here. Type the beginning of a sentence, and it goes on.");
    return [h("p", { class: "answer generated" }, h("span", { class: "soft" }, typed), tokens.map((token) => h("span", {
      class: token.probability < 0.1 ? "unlikely" : "", title: `${visible(token.text)} ${percent(token.probability)}; most probable: ${token.alternatives.map(([name, value]) => `${visible(name)} ${percent(value)}`).join(", ")}`,
    }, token.text))),
    h("p", { class: "small soft" }, "Grey: your text. Dotted: tokens with a probability below 10 %. Move over a token to see what else was probable.")];
  }

  function music({ frames, frames_per_beat: perBeat, seconds, midi }) {
    const beat = (frame) => `beat ${Math.floor(frame / perBeat) + 1}`, bytes = Uint8Array.from(atob(midi), (letter) => letter.charCodeAt(0));
    return [pianoRoll(frames.flat(), frames.length, { title: `Piano roll, ${number(seconds, 3)} seconds`, frameName: beat }),
      h("p", { class: "never" }, h("button", { type: "button", onclick: () => download(`composed_${state.seed}.mid`, "audio/midi", bytes) }, "Save as MIDI"), h("span", { class: "small soft" }, " to play it"))];
  }

  const box = h("section", { class: "card" }, h("h2", {}, title), h("p", { class: "bar small-bar never" }, field, start, again, temperature, label), result);
  box.refresh = () => (kind === "text" || !state.request ? go(state.seed, false) : null);
  return box;
}
