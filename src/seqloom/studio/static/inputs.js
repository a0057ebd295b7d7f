// Where inputs come from that are no texts: a file, a drawing, a recording, numbers.

import { clear, h } from "./dom.js";
import { Drawing, drawingPad } from "./drawing.js";
import { countFiles, deleteFiles } from "./kept.js";

const RATE = 16000;

export function fileDrop(call, what = "a file") {
  const input = h("input", { type: "file", hidden: true, onchange: () => {
    const [file] = input.files;
    input.value = ""; // the same file can be chosen again
    if (file) call(file);
  } });
  const box = h("div", { class: "drop", ondragover: (event) => { event.preventDefault(); box.classList.add("over"); }, ondragleave: () => box.classList.remove("over"), ondrop: (event) => {
    event.preventDefault();
    box.classList.remove("over");
    if (event.dataTransfer.files.length) call(event.dataTransfer.files[0]);
  } }, h("span", {}, `Drop ${what} here, or `), h("button", { type: "button", onclick: () => input.click() }, "Choose a file"), input);
  return box;
}

// A recording of the microphone as a WAV file of 16 bits.
export function recorder(call) {
  const status = h("span", { class: "soft small" });
  const button = h("button", { type: "button" }, "Record");
  let stop = null;
  button.addEventListener("click", async () => {
    if (stop) { stop(); return; }
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const context = new AudioContext();
      const source = context.createMediaStreamSource(stream);
      const parts = [];
      const tap = context.createScriptProcessor(4096, 1, 1);
      tap.onaudioprocess = (event) => parts.push(new Float32Array(event.inputBuffer.getChannelData(0)));
      source.connect(tap);
      tap.connect(context.destination);
      button.textContent = "Stop";
      status.textContent = "recording …";
      stop = async () => {
        stop = null;
        button.textContent = "Record";
        status.textContent = "";
        tap.disconnect();
        stream.getTracks().forEach((track) => track.stop());
        await context.close();
        call(new File([encodeWav(joined(parts), context.sampleRate)], "recording.wav", { type: "audio/wav" }));
      };
    } catch (error) {
      status.textContent = `The microphone cannot be used: ${error.message}`;
    }
  });
  return h("div", {}, h("h3", {}, "Speak"), h("p", {}, button, " ", status));
}

function joined(parts) {
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let position = 0;
  for (const part of parts) { all.set(part, position); position += part.length; }
  return all;
}

export function encodeWav(samples, rate = RATE) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (position, value) => [...value].forEach((letter, index) => view.setUint8(position + index, letter.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + 2 * samples.length, true); text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  text(36, "data"); view.setUint32(40, 2 * samples.length, true);
  samples.forEach((value, index) => view.setInt16(44 + 2 * index, Math.max(-1, Math.min(1, value)) * 32767, true));
  return view.buffer;
}

function numberRows(call, shown) {
  const numbers = h("textarea", { rows: 4, value: Array.isArray(shown) ? shown.map((row) => row.join(" ")).join("\n") : "", placeholder: "Rows of numbers, one per line: 0.1 0.2 0.3", "aria-label": "Rows of numbers", class: "mono" });
  const problem = h("p", { class: "soft small", role: "status" });
  const send = h("button", { type: "button", onclick: () => {
    const rows = numbers.value.trim().split("\n").map((line) => line.trim().split(/[\s,;]+/).map(Number));
    if (rows.some((row) => row.some(Number.isNaN))) { problem.textContent = "Only numbers can be read here."; return; }
    clear(problem);
    call(rows);
  } }, "Use these numbers");
  return h("details", { open: Array.isArray(shown) }, h("summary", {}, "or type numbers"), numbers, h("p", {}, send), problem);
}

// What this browser keeps, and a way to get rid of it. The element has refresh().
function keptNote() {
  const note = h("p", { class: "small soft", role: "status", hidden: true });
  note.refresh = async () => {
    const count = await countFiles();
    note.hidden = !count;
    clear(note, `${count === 1 ? "1 file or recording is" : `${count} files and recordings are`} kept in this browser, so that links to them work. `, h("button", { type: "button", class: "link", onclick: async () => { await deleteFiles(); clear(note, "Deleted. Links to them no longer work."); } }, count === 1 ? "Delete it" : "Delete them"));
  };
  note.refresh();
  return note;
}

// The input of a model that reads no text, as /api/model describes it: what fits its kind. `given` gets rows of numbers, a Drawing or a File.
// wiped(): a drawing was cleared. shown: the input of the address. The element has show(value), when a model is asked about an input, and
// accept(value), when it could read it.
export function otherInputs(given, model, { wiped, shown = null }) {
  const { input_kind: kind = "", pen = null } = model, parts = [], note = keptNote(), named = h("p", { class: "small soft wrapped", role: "status", hidden: true });
  const call = async (value) => { await given(value); note.refresh(); };
  const drawing = { model, wiped, shown: shown instanceof Drawing ? shown : null };
  const pad = ["line", "image", ""].includes(kind) || (kind === "strokes" && pen) ? drawingPad(call, { ...drawing, ...(kind === "image" ? { width: 240, height: 240 } : {}) }) : null;
  if (pad) parts.push(pad);
  if (["sound", ""].includes(kind)) parts.push(recorder(call));
  parts.push(fileDrop(call, kind === "music" ? "a MIDI file" : "a file"), named);
  if (["vectors", ""].includes(kind)) parts.push(numberRows(call, shown));
  return Object.assign(h("div", { class: "stack never" }, parts, note), {
    show: (value) => {
      if (!(value instanceof Drawing)) pad?.wipe(); // the answer belongs to something else
      named.hidden = true;
    },
    accept: (value) => {
      named.hidden = !(value instanceof File);
      if (value instanceof File) named.textContent = `The model has read “${value.name}”.`;
    },
  });
}
