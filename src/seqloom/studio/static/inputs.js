// Where inputs come from: a text, a file, a drawing, a recording.

import { clear, h } from "./dom.js";

const RATE = 16000;

export function fileDrop(call, what = "a file") {
  const input = h("input", { type: "file", hidden: true, onchange: () => input.files.length && call(input.files[0]) });
  const box = h("div", { class: "drop", ondragover: (event) => { event.preventDefault(); box.classList.add("over"); }, ondragleave: () => box.classList.remove("over"), ondrop: (event) => {
    event.preventDefault();
    box.classList.remove("over");
    if (event.dataTransfer.files.length) call(event.dataTransfer.files[0]);
  } }, h("span", {}, `Drop ${what} here, or `), h("button", { type: "button", onclick: () => input.click() }, "Choose a file"), input);
  return box;
}

const LINES = [0.25, 0.75]; // of a pad for pen strokes, between which a drawing has the height of the dev data

// A drawing as a PNG file, with the ground and the pen of the dev data (`ink`); or, where `pen` is the size of the pen strokes that the model reads, as rows of dx, dy and lifted.
// wiped(): it was cleared.
export function drawingPad(call, { width = 480, height = 120, pen: size = null, ink = null, wiped = () => {} } = {}) {
  const canvas = h("canvas", { class: "pad", width, height, "aria-label": "Draw here", tabindex: 0 });
  const pen = canvas.getContext("2d");
  const dark = !size && ink?.dark, thickness = size ? 3 : Math.max(3, (ink?.width ?? 0.06) * height);
  let lines = [];
  const wipe = () => {
    lines = [];
    pen.fillStyle = dark ? "#000000" : "#ffffff"; pen.fillRect(0, 0, width, height);
    pen.fillStyle = "#d5dbe1";
    if (size) for (const line of LINES) pen.fillRect(0, line * height, width, 1);
  };
  wipe();
  let drawing = false;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height]; };
  canvas.addEventListener("pointerdown", (event) => { drawing = true; canvas.setPointerCapture(event.pointerId); pen.beginPath(); pen.moveTo(...at(event)); lines.push([at(event)]); });
  canvas.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    lines.at(-1).push(at(event));
    pen.lineWidth = thickness; pen.lineCap = pen.lineJoin = "round"; pen.strokeStyle = dark ? "#ffffff" : "#111111";
    pen.lineTo(...at(event)); pen.stroke();
  });
  const end = () => {
    if (!drawing) return;
    drawing = false;
    if (size) call(penStrokes(lines, size.step, size.height / ((LINES[1] - LINES[0]) * height)));
    else canvas.toBlob((blob) => call(new File([blob], "drawing.png", { type: "image/png" })), "image/png");
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  return h("div", {}, h("h3", {}, "Draw"), canvas, size ? h("p", { class: "small soft" }, "Draw between the lines: the model gets the movements of the pen, in the size and with the spacing of points of the dev data.") : ink ? h("p", { class: "small soft" }, `${dark ? "Light on dark" : "Dark on light"}, as in the dev data.`) : null, h("p", {}, h("button", { type: "button", onclick: () => { wipe(); wiped(); } }, "Clear")));
}

// Lines of points (y downwards) as movements of a pen (y upwards) of length `step` each, with 1 where it is lifted.
export function penStrokes(lines, step, scale) {
  const rows = [];
  let before = null;
  for (const line of lines) {
    const points = spaced(line.map(([x, y]) => [x * scale, -y * scale]), step);
    points.forEach(([x, y], index) => {
      rows.push([x - (before ?? points[0])[0], y - (before ?? points[0])[1], index === points.length - 1 ? 1 : 0]);
      before = [x, y];
    });
  }
  return rows;
}

// Points at equal distances of about `step` along a line, with its ends.
function spaced(line, step) {
  const lengths = line.map((point, index) => (index ? Math.hypot(point[0] - line[index - 1][0], point[1] - line[index - 1][1]) : 0));
  const total = lengths.reduce((sum, length) => sum + length, 0), count = Math.max(1, Math.round(total / step));
  if (!total) return [line[0]];
  const points = [line[0]];
  let index = 1, passed = 0;
  for (let number = 1; number < count; number++) {
    const target = (number / count) * total;
    while (passed + lengths[index] < target) passed += lengths[index++];
    const share = (target - passed) / lengths[index];
    points.push([0, 1].map((axis) => line[index - 1][axis] + share * (line[index][axis] - line[index - 1][axis])));
  }
  return [...points, line.at(-1)];
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

function numberRows(call) {
  const numbers = h("textarea", { rows: 4, placeholder: "Rows of numbers, one per line: 0.1 0.2 0.3", "aria-label": "Rows of numbers", class: "mono" });
  const problem = h("p", { class: "soft small", role: "status" });
  const send = h("button", { type: "button", onclick: () => {
    const rows = numbers.value.trim().split("\n").map((line) => line.trim().split(/[\s,;]+/).map(Number));
    if (rows.some((row) => row.some(Number.isNaN))) { problem.textContent = "Only numbers can be read here."; return; }
    clear(problem);
    call(rows);
  } }, "Use these numbers");
  return h("details", {}, h("summary", {}, "or type numbers"), numbers, h("p", {}, send), problem);
}

// The input of a model that reads no text, as /api/model describes it: what fits its kind. `call` gets a value or a File. wiped(): a drawing was cleared.
export function otherInputs(call, { input_kind: kind = "", pen = null, ink = null }, wiped) {
  const parts = [];
  if (["line", "image", ""].includes(kind)) parts.push(drawingPad(call, { ink, wiped, ...(kind === "image" ? { width: 240, height: 240 } : {}) }));
  if (kind === "strokes" && pen) parts.push(drawingPad(call, { pen, wiped }));
  if (["sound", ""].includes(kind)) parts.push(recorder(call));
  parts.push(fileDrop(call, kind === "music" ? "a MIDI file" : "a file"));
  if (["vectors", ""].includes(kind)) parts.push(numberRows(call));
  return h("div", { class: "stack never" }, parts);
}
