// A page for one exported model: type, draw or record, and see the answer. Everything is computed in the browser.

import { showAnswer } from "./answer.js";
import { clear, debounce, errorBox, h } from "./dom.js";
import { drawingPad, readable } from "./drawing.js";
import { number } from "./format.js";
import { fileDrop, recorder } from "./inputs.js";
import { lineColumns, load, square } from "./seqloom_runtime.js";

const RUNTIME = "./onnxruntime-web/ort.wasm.min.mjs";
const main = document.getElementById("main");

function chooseTheme() {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => { document.documentElement.dataset.theme = chosen ?? (system.matches ? "dark" : "light"); };
  system.addEventListener("change", apply);
  document.getElementById("theme").addEventListener("click", () => { chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; apply(); });
  apply();
}

async function start() {
  chooseTheme();
  const description = await (await fetch("model.json")).json();
  document.title = description.name;
  document.getElementById("name").textContent = description.name;
  document.getElementById("task").textContent = description.task.replaceAll("_", " ");
  let ort;
  try {
    ort = await import(RUNTIME);
  } catch {
    clear(main, h("div", { class: "card" }, h("h2", {}, "onnxruntime-web is missing"),
      h("p", {}, "This page runs its model with onnxruntime-web, which is not in its folder. In that folder, run:"),
      h("pre", {}, `npm pack onnxruntime-web@${description.onnxruntime_web}\ntar -xzf onnxruntime-web-*.tgz package/dist\nmv package/dist onnxruntime-web`),
      h("p", { class: "soft" }, "Then load the page again. Or install the package and export the page once more: it is copied from node_modules.")));
    return;
  }
  ort.env.wasm.numThreads = 1;
  const model = await load(ort, description);
  window.model = model; // for the console
  const View = description.task === "language_model" ? generation : ["text", "text_pair", "source", "words"].includes(description.input.kind) ? typing : signals;
  clear(main, h("div", { class: "stack" }, View(model)));
  document.body.append(h("footer", { class: "faint small" }, "Computed in this browser; nothing is sent anywhere. Exported with Seqloom."));
}

// The latest input wins: an answer that a newer one has overtaken is not shown.
function answering(model, output) {
  let latest = 0;
  return async (item) => {
    const turn = ++latest;
    try {
      const begin = performance.now(), [answer] = await model.predict([item]), time = performance.now() - begin;
      if (turn === latest) clear(output, show(answer), h("p", { class: "faint small", id: "time" }, `${number(time)} ms`));
    } catch (error) {
      if (turn === latest) clear(output, errorBox(error));
    }
  };
}

function show(answer) {
  if (answer.segments) return table(["start", "end", "label"], answer.segments);
  if (answer.labels && !answer.words.length) return h("p", { class: "answer" }, answer.labels.join(" "));
  if (answer.values && !answer.columns) {
    const columns = Object.entries(answer.values);
    if (!Array.isArray(columns[0][1])) return table(["", "value"], columns);
    return table(["step", ...columns.map(([name]) => name)], columns[0][1].map((_, row) => [answer.words[row] ?? row + 1, ...columns.map(([, values]) => values[row])]));
  }
  return showAnswer(answer);
}

function table(names, rows) {
  const cell = (value) => h("td", typeof value === "number" ? { class: "number" } : {}, typeof value === "number" ? number(value) : String(value));
  return h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", {}, name)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

function typing(model) {
  const output = h("div", { class: "card", id: "answer" }, h("p", { class: "faint" }, "The answer appears here."));
  const ask = answering(model, output);
  const input = h("textarea", { rows: 4, "aria-label": "Input", placeholder: model.task === "tag" ? "Words with blanks between them" : model.description.input.kind === "text_pair" ? "First text ||| second text" : "Type a text" });
  input.addEventListener("input", debounce(() => (input.value.trim() ? ask(input.value) : clear(output, h("p", { class: "faint" }, "The answer appears here."))), 150));
  return [input, model.search ? searchChoice(model, () => input.value.trim() && ask(input.value)) : null, output];
}

function searchChoice(model, again) {
  const { ctc, states, search } = model.description.output;
  const names = [...(ctc ? ["best_path", "prefix_beam"] : ["greedy"]), ...(states && model.sessions.step ? ["beam"] : [])];
  const known = names.includes(search.name) ? names : [search.name, ...names];
  const choice = h("select", { "aria-label": "Search" }, known.map((name) => h("option", { value: name, selected: name === search.name }, name.replace("_", " "))));
  const size = h("input", { type: "number", min: 1, max: 100, value: search.size ?? 5, "aria-label": "Beam size" });
  const set = () => {
    const beams = choice.value.endsWith("beam"), count = Math.max(1, Number(size.value) || 5);
    model.search = choice.value === search.name ? { ...search, ...(beams ? { size: count } : {}) } : { name: choice.value, ...(beams ? { size: count, nbest: Math.min(count, 5) } : {}) };
    size.disabled = !beams;
    again();
  };
  choice.addEventListener("change", set);
  size.addEventListener("change", set);
  size.disabled = !choice.value.endsWith("beam");
  return h("div", { class: "settings" }, h("label", {}, "Search", choice), h("label", {}, "Beam size", size));
}

function generation(model) {
  const output = h("div", { class: "card", id: "answer" }, h("p", { class: "faint" }, "The continuation appears here."));
  const prompt = h("textarea", { rows: 3, "aria-label": "Prompt", placeholder: "The beginning of a text" });
  const field = (label, value, options) => h("input", { type: "number", value, "aria-label": label, ...options });
  const fields = {
    length: field("Length", 200, { min: 1, max: 5000 }), lines: field("Lines", 1, { min: 0, title: "0: up to the length" }), temperature: field("Temperature", 0.8, { min: 0, step: 0.1 }), top_k: field("Top k", 0, { min: 0 }),
    top_p: field("Top p", 1, { min: 0.05, max: 1, step: 0.05 }), seed: field("Seed", 1, { min: 0 }),
  };
  const button = h("button", { type: "button", class: "primary" }, "Continue"), surprise = h("p", { class: "soft small", id: "perplexity" });
  let turn = 0;
  button.addEventListener("click", async () => {
    const own = ++turn;
    if (button.textContent === "Stop") { button.textContent = "Continue"; return; }
    button.textContent = "Stop";
    const text = h("p", { class: "answer", id: "text" }, h("span", { class: "soft" }, prompt.value)), grown = document.createTextNode("");
    text.append(grown);
    clear(output, text);
    try {
      const options = Object.fromEntries(Object.entries(fields).map(([name, input]) => [name, Number(input.value)]));
      for await (const part of model.generate(prompt.value, options)) {
        if (own !== turn) return;
        grown.data += part;
        await new Promise((resolve) => { setTimeout(resolve); }); // let the page draw
      }
    } catch (error) {
      clear(output, errorBox(error));
    }
    if (own === turn) button.textContent = "Continue";
    output.dataset.done = own;
  });
  prompt.addEventListener("input", debounce(async () => {
    if (!prompt.value.trim()) { clear(surprise); return; }
    const [answer] = await model.predict([prompt.value.split("\n")[0]]);
    surprise.textContent = `perplexity of the first line: ${number(answer.perplexity)}`;
  }, 250));
  return [prompt, surprise, h("div", { class: "settings" }, Object.entries(fields).map(([, input]) => h("label", {}, input.getAttribute("aria-label"), input)), button), output];
}

function signals(model) {
  const { kind, line_height: line, size, columns } = model.description.input, { pen = null, ink = null } = model.description.drawing ?? {};
  const output = h("div", { class: "card", id: "answer" }, h("p", { class: "faint" }, "The answer appears here."));
  const preview = h("div", {}), ask = answering(model, output);
  let last = null;
  const use = async (item) => { last = item; await ask(item); };
  const choice = model.search ? searchChoice(model, () => last && ask(last)) : null;
  const file = async (given) => {
    try {
      clear(preview, given.type.startsWith("image/") ? h("img", { class: "preview", alt: given.name, src: URL.createObjectURL(given) }) : given.type.startsWith("audio/") ? h("audio", { controls: true, src: URL.createObjectURL(given) }) : null);
      const item = await readFile(given, kind, line);
      if (item.pixels) clear(preview, readImage(item, model.description.input));
      await use(item);
    } catch (error) {
      clear(output, errorBox(error));
    }
  };
  const wiped = () => { last = null; clear(preview); clear(output, h("p", { class: "faint" }, "The answer appears here.")); };
  const pad = (style, { read = file, ...options } = {}) => drawingPad(async (drawing) => read(await readable(drawing, style)), { model: style, wiped, ...options });
  if (kind === "sound") return [fileDrop(file), recorder(file), preview, choice, output];
  if (kind === "image") return [fileDrop(file), pad({ ink }, { width: 240, height: 240 }), preview, choice, output];
  if (kind === "video") return [fileDrop(file), preview, choice, output];
  const rows = h("textarea", { rows: 8, class: "mono", "aria-label": "Rows of numbers", placeholder: `A row for each step: ${columns ? columns.join(", ") : `${size} ${size === 1 ? "number" : "numbers"}`}` });
  rows.addEventListener("input", debounce(() => rows.value.trim() && use(parseRows(rows.value)), 250));
  const draw = (movements) => { rows.value = movements.map((row) => row.map((value) => Number(value.toPrecision(6))).join(" ")).join("\n"); use(parseRows(rows.value)); };
  const drawing = line ? pad({ ink }) : pen && size === 3 ? pad({ pen }, { read: draw, wiped: () => { rows.value = ""; wiped(); } }) : null;
  return [fileDrop(file), drawing, preview, h("details", { open: !line }, h("summary", {}, "Numbers"), rows), choice, output];
}

// An image as the model reads it: a square, or the grey columns of a line of text.
function readImage(item, { kind, size, resize, line_height: height }) {
  const columns = kind === "image" ? null : lineColumns(item, height), [width, rows] = columns ? [columns.length, height] : [size, size];
  const canvas = h("canvas", { class: "preview", width, height: rows, role: "img", "aria-label": "What the model reads" }), pen = canvas.getContext("2d"), image = pen.createImageData(width, rows);
  const pixels = columns ? null : square(item, size, resize);
  for (let place = 0; place < width * rows; place++) {
    const grey = columns ? 255 * columns[place % width][Math.floor(place / width)] : 0;
    image.data.set(columns ? [grey, grey, grey, 255] : [...pixels.subarray(3 * place, 3 * place + 3), 255], 4 * place);
  }
  pen.putImageData(image, 0, 0);
  return h("figure", {}, canvas, h("figcaption", { class: "faint small" }, `What the model reads: ${width} × ${rows} pixels`));
}

function parseRows(text) {
  const lines = text.trim().split(/\r?\n/u).map((each) => each.trim().split(/[\s,;]+/u).map(Number));
  return lines.filter((row, index) => index || row.every(Number.isFinite)); // without a header
}

async function readFile(file, kind, line) {
  if (kind === "sound") {
    const context = new OfflineAudioContext(1, 1, wavRate(await file.slice(0, 64).arrayBuffer()) ?? 48000); // decodes at its own rate
    const sound = await context.decodeAudioData(await file.arrayBuffer());
    const samples = new Float32Array(sound.length);
    for (let channel = 0; channel < sound.numberOfChannels; channel++) sound.getChannelData(channel).forEach((value, index) => { samples[index] += value / sound.numberOfChannels; });
    return { samples, rate: sound.sampleRate };
  }
  if (kind === "video") {
    if (!window.ImageDecoder) throw new Error("This browser cannot read the frames of an animation.");
    const decoder = new ImageDecoder({ data: await file.arrayBuffer(), type: file.type });
    await decoder.tracks.ready;
    const frames = [];
    for (let index = 0; index < decoder.tracks.selectedTrack.frameCount; index++) frames.push(pixelsOf((await decoder.decode({ frameIndex: index })).image));
    return frames;
  }
  if (kind === "image" || (line && file.type.startsWith("image/"))) return pixelsOf(await createImageBitmap(file));
  return parseRows(await file.text());
}

// The sampling rate in the header of a WAV file; null for other files.
function wavRate(header) {
  const view = new DataView(header), text = (position) => String.fromCharCode(...new Uint8Array(header, position, 4));
  if (header.byteLength < 32 || text(0) !== "RIFF" || text(12) !== "fmt ") return null;
  const rate = view.getUint32(24, true);
  return rate >= 3000 && rate <= 384000 ? rate : null;
}

function pixelsOf(image) {
  const width = image.displayWidth ?? image.width, height = image.displayHeight ?? image.height;
  const canvas = new OffscreenCanvas(width, height), pen = canvas.getContext("2d");
  pen.fillStyle = "#ffffff"; // behind transparent pixels
  pen.fillRect(0, 0, width, height);
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height), pixels = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) pixels.set(data.subarray(4 * i, 4 * i + 3), 3 * i);
  image.close?.();
  return { pixels, width, height };
}

start().catch((error) => clear(main, errorBox(error)));
