// What a model reads where that is no text: a picture, the frames of a video, sound, or vectors over time.

import { h } from "./dom.js";
import { heatmap, range } from "./heatmap.js";
import { encodeWav } from "./inputs.js";

// media: as /api/inside describes it; values: all its numbers.
export function showMedia(media, values, link, { large = false } = {}) {
  return media.map((item) => {
    const size = item.shape.reduce((product, length) => product * length, 1);
    const numbers = values.subarray(item.start, item.start + size);
    if (item.kind === "sound") return sound(item, numbers);
    if (item.kind === "image") return picture(numbers, item.shape, large ? 224 : 160);
    if (item.kind === "video") return video(numbers, item);
    return vectors(numbers, item, link);
  });
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
  return h("div", {}, h("div", { class: "frames" }, [...Array(frames).keys()].map((frame) => picture(numbers.subarray(frame * size, (frame + 1) * size), [height, width, channels], 72))),
    frames < item.of ? h("p", { class: "small soft" }, `${frames} of ${item.of} frames`) : null);
}

function sound(item, samples) {
  const address = URL.createObjectURL(new Blob([encodeWav(samples, item.rate)], { type: "audio/wav" }));
  return h("div", {}, waveform(samples, samples.length / item.rate), h("audio", { controls: true, src: address }));
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

// Time from left to right, the first value at the top.
function vectors(numbers, item, link) {
  const [steps, size] = item.shape, turned = new Float32Array(numbers.length);
  for (let step = 0; step < steps; step++) for (let row = 0; row < size; row++) turned[row * steps + step] = numbers[step * size + row];
  return heatmap({ title: "Input", values: turned, rows: size, columns: steps, rowName: (row) => `value ${row + 1}`, columnName: (column) => `${column + 1}`, link, height: Math.min(160, Math.max(24, size * 6)) });
}
