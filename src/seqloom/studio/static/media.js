// What a model reads where that is no text: a picture, the frames of a video, sound, music, or vectors over time.

import { lineChart, makeView } from "./chart.js";
import { h } from "./dom.js";
import { heatmap, range, scaled } from "./heatmap.js";
import { encodeWav } from "./inputs.js";
import { savePicture, saveSvg } from "./save.js";

const MOST_CURVES = 4; // channels that are drawn as curves

// media: as /api/inside describes it; values: all its numbers.
export function showMedia(media, values, link, { large = false, forecast = null, target = "", base = 0 } = {}) {
  return media.map((item) => {
    const size = item.shape.reduce((product, length) => product * length, 1);
    const numbers = values.subarray(item.start, item.start + size);
    if (item.kind === "sound") return sound(item, numbers, link, base);
    if (item.kind === "spectrogram") return vectors(numbers, item, link, base, `What the model reads of the sound: ${item.shape[1]} features in each of ${item.shape[0]} frames`, { upwards: true });
    if (item.kind === "image") return savable(picture(numbers, item.shape, large ? 224 : 160), "picture");
    if (item.kind === "video") return video(numbers, item);
    if (item.kind === "strokes") return savable(strokes(numbers, item.shape[0], "The pen strokes that the model reads"), "pen strokes");
    if (item.kind === "line") return vectors(numbers, item, link, base, `The image that the model reads, ${item.shape[0]} × ${item.shape[1]} pixels`);
    if (item.kind === "music") return pianoRoll(numbers, item.shape[0], { title: item.shape[0] < item.of ? `The first ${item.shape[0]} of ${item.of} frames` : `Piano roll, ${item.of} frames`, link });
    if (item.shape[1] <= MOST_CURVES) return curves(numbers, item, { forecast, target, link, base });
    return vectors(numbers, item, link, base);
  });
}

// A picture with a button that saves it.
export function savable(element, title) {
  const save = h("button", { type: "button", class: "save", "aria-label": `Save the ${title} as SVG`, onclick: () => (element instanceof SVGElement ? saveSvg(element, title) : savePicture(element, title)) }, "SVG");
  return h("div", { class: "savable" }, element, save);
}

function picture(numbers, [height, width, channels], size) {
  const canvas = h("canvas", { width, height, class: "pixels", role: "img", "aria-label": `The picture that the model reads, ${width} × ${height} pixels` });
  const image = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    for (let channel = 0; channel < 3; channel++) image.data[4 * pixel + channel] = 255 * numbers[pixel * channels + Math.min(channel, channels - 1)];
    image.data[4 * pixel + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.style.width = `${size}px`;
  return canvas;
}

function video(numbers, item) {
  const [frames, height, width, channels] = item.shape, size = height * width * channels;
  return h("div", {}, h("div", { class: "frames" }, [...Array(frames).keys()].map((frame) => savable(picture(numbers.subarray(frame * size, (frame + 1) * size), [height, width, channels], 72), `frame ${frame + 1}`))),
    frames < item.of ? h("p", { class: "small soft" }, `${frames} of ${item.of} frames`) : null);
}

// While it plays, the cursor moves with it.
function sound(item, samples, link, base) {
  const address = URL.createObjectURL(new Blob([encodeWav(samples, item.rate)], { type: "audio/wav" }));
  const player = h("audio", { controls: true, src: address });
  const follow = () => {
    if (player.paused || !player.isConnected) return;
    link.set(Math.min(base - 1, Math.floor((player.currentTime / (samples.length / item.rate)) * base)));
    requestAnimationFrame(follow);
  };
  if (link && base) player.addEventListener("play", follow);
  return h("div", {}, savable(waveform(samples, samples.length / item.rate), "waveform"), player);
}

export function waveform(samples, seconds) {
  const width = 600, height = 64;
  let path = "";
  for (let x = 0; x < width; x++) {
    const [low, high] = range(samples.subarray(Math.floor((x * samples.length) / width), Math.max(Math.floor(((x + 1) * samples.length) / width), 1)));
    path += `M${x} ${(height / 2) * (1 - high)}V${(height / 2) * (1 - low) + 0.5}`;
  }
  return h("svg:svg", { viewBox: `0 0 ${width} ${height}`, class: "wave", preserveAspectRatio: "none", role: "img", "aria-label": `Sound of ${seconds.toFixed(1)} seconds` }, h("svg:path", { d: path, stroke: "var(--accent)" }));
}

// Pen strokes: dx, dy with y upwards, and 1 where the pen is lifted.
export function strokes(numbers, count, label) {
  let x = 0, y = 0, path = "", lifted = true;
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (let point = 0; point < count; point++) {
    x += numbers[3 * point]; y -= numbers[3 * point + 1];
    path += `${lifted ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`;
    box[0] = Math.min(box[0], x); box[1] = Math.min(box[1], y); box[2] = Math.max(box[2], x); box[3] = Math.max(box[3], y);
    lifted = numbers[3 * point + 2] > 0;
  }
  const size = Math.max(box[2] - box[0], box[3] - box[1]) || 1, margin = size * 0.06;
  return h("svg:svg", { class: "strokes", viewBox: [box[0] - margin, box[1] - margin, box[2] - box[0] + 2 * margin, box[3] - box[1] + 2 * margin].join(" "), role: "img", "aria-label": label },
    h("svg:path", { d: path, fill: "none", stroke: "var(--ink)", "stroke-width": size * 0.012, "stroke-linecap": "round", "stroke-linejoin": "round" }));
}

const KEYS = 88, LOWEST = 21; // of a piano, and the MIDI number of its lowest key
const NOTES = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];
const MARGIN = 2; // keys that are shown above and below those that sound

// Frames of the keys of a piano: time from left to right, high notes at the top. A model reads a frame one step after it.
export function pianoRoll(numbers, frames, { title, link, frameName = (frame) => `frame ${frame + 1}` }) {
  const used = [...Array(KEYS).keys()].filter((key) => { for (let frame = 0; frame < frames; frame++) if (numbers[frame * KEYS + key]) return true; return false; });
  if (!used.length) return h("p", { class: "soft" }, `${title}: no key sounds.`);
  const top = Math.min(KEYS - 1, used.at(-1) + MARGIN), rows = top - Math.max(0, used[0] - MARGIN) + 1, values = new Float32Array(rows * frames);
  for (let row = 0; row < rows; row++) for (let frame = 0; frame < frames; frame++) values[row * frames + frame] = numbers[frame * KEYS + top - row];
  const note = (row) => { const pitch = top - row + LOWEST; return `${NOTES[pitch % 12]}${Math.floor(pitch / 12) - 1}`; };
  return heatmap({ title, values, rows, columns: frames, limits: [0, 1], rowName: note, rowTicks: (row) => (note(row).match(/^C\d/) ? note(row) : ""), columnName: frameName, link, toLink: (frame) => frame + 1, fromLink: (step) => (step === null ? null : step - 1), height: rows * 5,
    describe: (row, frame) => `${note(row)} ${values[row * frames + frame] ? "sounds" : "is silent"} in ${frameName(frame)}` });
}

// A few channels as curves, with what is forecast after them, and what the data have there.
function curves(numbers, item, { forecast, target, link, base }) {
  const [steps, size] = item.shape, names = forecast?.columns.length === size ? forecast.columns : [...Array(size).keys()].map((channel) => (size > 1 ? `value ${channel + 1}` : "value"));
  const series = names.map((name, channel) => ({ name, points: [...Array(steps).keys()].map((step) => [step + 1, numbers[step * size + channel]]) }));
  if (forecast?.columns.length === size) {
    const [low, high] = [forecast.quantiles?.["0.1"], forecast.quantiles?.["0.9"]], wanted = target.split(/[\t\n]/).map((line) => line.trim().split(/[ ,;]+/).map(Number));
    names.forEach((name, channel) => {
      const last = series[channel].points.at(-1), ahead = (rows) => rows.map((row, index) => [steps + 1 + index, row[channel]]);
      const own = size > 1 ? `${name}, ` : "", band = low && high ? [[last[0], last[1], last[1]], ...ahead(low).map(([x, y], index) => [x, y, high[index][channel]])] : [];
      series.push({ name: `${own}forecast`, colour: `var(--c${channel})`, dashed: true, points: [last, ...ahead(forecast.values)], band, bandName: band.length ? `${own}80 % of the values are expected here` : "" });
      const actual = wanted.length >= forecast.values.length && wanted.every((row) => row.length === size && row.every(Number.isFinite)) ? wanted : [];
      if (target && actual.length) series.push({ name: `${own}in the data`, colour: `var(--c${channel})`, dots: true, points: ahead(actual) });
    });
  }
  return lineChart({ title: forecast ? "What the model reads, and its forecast" : "What the model reads", series, xLabel: "steps", plain: true, view: linkedView(link, steps, base) });
}

// The cursor of the page as a place on an axis of steps from 1, and back.
function linkedView(link, steps, base) {
  const view = makeView();
  if (!link || !base) return view;
  view.listen((what) => { if (what === "at" && view.at !== null && view.at < steps + 0.5) link.set(Math.max(0, Math.min(base - 1, Math.floor(((view.at - 0.5) / steps) * base)))); });
  link.listen((column) => view.point(column === null ? null : ((column + 0.5) / base) * steps + 0.5));
  return view;
}

// Time from left to right, the first value at the top.
function vectors(numbers, item, link, base, title = "", { upwards = false } = {}) {
  const [steps, size] = item.shape, turned = new Float32Array(numbers.length);
  for (let step = 0; step < steps; step++) for (let row = 0; row < size; row++) turned[(upwards ? size - 1 - row : row) * steps + step] = numbers[step * size + row];
  return heatmap({ ...(base ? scaled(steps, base) : {}), title: title || `${size} values in each of ${steps} steps`, values: turned, rows: size, columns: steps, rowName: (row) => (upwards ? `feature ${size - row}` : `value ${row + 1}`), columnName: (column) => `${column + 1}`, link, height: Math.min(160, Math.max(24, size * 6)) });
}
