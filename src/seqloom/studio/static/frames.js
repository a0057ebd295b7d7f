// The frames of a transcript, as in distill.pub's article on CTC: what the model reads, the probabilities below it, and the path.

import { saveBoxesButton } from "./boxes.js";
import { lineChart, makeView } from "./chart.js";
import { h } from "./dom.js";

const MOST = 9; // tokens with a curve of their own

// frames: as /api/inside describes them. media: what the model reads, drawn to stand above. link: the cursor of the page, whose columns are `base` steps.
export function framesCard(frames, media, { link, base }) {
  const count = frames.blank.length, time = (frame) => (frame + 0.5) * frames.frame_length;
  const curves = frames.tokens.map((name, token) => ({ name, points: frames.probabilities[token].map((value, frame) => [time(frame), value]) }))
    .sort((a, b) => Math.max(...b.points.map(([, y]) => y)) - Math.max(...a.points.map(([, y]) => y))).slice(0, MOST);
  curves.push({ name: "blank", colour: "var(--faint)", dashed: true, points: frames.blank.map((value, frame) => [time(frame), value]) });
  const view = makeView();
  view.listen((what) => { if (what === "at" && view.at !== null) link.set(Math.min(base - 1, Math.floor((view.at / (count * frames.frame_length)) * base))); });
  link.listen((column) => view.point(column === null ? null : ((column + 0.5) / base) * count * frames.frame_length));
  const chart = lineChart({ title: "Probability of each token in each frame", series: curves, xLabel: frames.in_seconds ? "seconds" : "frames of the input", limits: [0, 1], plain: true, view, domain: [0, count * frames.frame_length] });
  return h("section", { class: "card full" }, h("h2", {}, "How the transcript was read"),
    media.length ? h("div", { class: "below-chart" }, media) : null, chart, path(frames),
    h("p", { class: "small soft" }, "From top to bottom: the input, the probability of each token in each frame (dashed: the blank, “nothing new here”), and the most probable token of each frame. Repetitions and blanks are removed to read the transcript."));
}

// The most probable tokens: one bar for each stretch of frames with the same token.
function path({ most_probable: tokens }) {
  const bars = [];
  tokens.forEach((token, frame) => {
    if (!token) return;
    if (frame && tokens[frame - 1] === token) bars.at(-1).stop = frame + 1;
    else bars.push({ token, start: frame, stop: frame + 1 });
  });
  const drawing = h("div", { class: "ctc-path" }, bars.map(({ token, start, stop }) =>
    h("span", { title: `${token}: ${stop - start > 1 ? `frames ${start + 1} to ${stop}` : `frame ${start + 1}`}`, style: { left: `${(start / tokens.length) * 100}%`, width: `${((stop - start) / tokens.length) * 100}%` } }, h("b", {}, token === " " ? "␣" : token))));
  return h("div", { class: "below-chart savable" }, h("div", { role: "img", "aria-label": `The most probable token of each frame, without blanks: ${bars.map((bar) => bar.token).join(" ")}` }, drawing), saveBoxesButton("the path", () => drawing));
}
