// Words in a plane, near each other if their vectors are; an analogy is a parallelogram.

import { clear, h } from "./dom.js";
import { number, percent } from "./format.js";
import { saveSvg } from "./save.js";

const HEIGHT = 360, WIDEST = 900, MARGIN = 24, LETTER = 7, LINE = 15; // pixels

// map: as the explanation has it.
export function wordMapCard(map, asked) {
  const place = h("div");
  let svg = null, WIDTH = 0;
  function draw() {
    const sums = map.analogies.map((each) => each.point), all = [...map.coordinates, ...sums];
    const ends = [0, 1].map((axis) => [Math.min(...all.map((point) => point[axis])), Math.max(...all.map((point) => point[axis]))]);
    const size = [WIDTH - 2 * MARGIN - 80, HEIGHT - 2 * MARGIN], scale = Math.min(...[0, 1].map((axis) => size[axis] / (ends[axis][1] - ends[axis][0] || 1))); // one scale: angles and lengths are those of the plane
    const at = (point) => [0, 1].map((axis) => { const away = (point[axis] - (ends[axis][0] + ends[axis][1]) / 2) * scale; return MARGIN + size[axis] / 2 + (axis ? -away : away); });
    const where = new Map(map.words.map((word, index) => [word, at(map.coordinates[index])]));
    svg = h("svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": `Words in a plane. ${map.words.map((word, index) => `${word}: nearest ${map.nearest[index]}, ${number(map.similarities[index], 2)}`).join("; ")}` });
    for (const { positive, negative, base, point } of map.analogies) {
      const [a, b, c, d] = [where.get(negative), where.get(positive), where.get(base), at(point)];
      if ([a, b, c].every(Boolean)) for (const [from, to] of [[a, b], [c, d]]) svg.append(h("svg:line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], stroke: "var(--negative)", "stroke-width": 1.5, "stroke-dasharray": from === c ? "5 4" : null }));
      svg.append(h("svg:circle", { cx: d[0], cy: d[1], r: 5, fill: "none", stroke: "var(--negative)", "stroke-width": 2 }, h("svg:title", {}, `${positive} − ${negative} + ${base}`)));
    }
    const taken = [];
    // Words of the question first: they keep their place.
    for (const index of [...map.words.keys()].sort((a, b) => asked.includes(map.words[b]) - asked.includes(map.words[a]))) {
      const word = map.words[index], [x, y] = where.get(word), strong = asked.includes(word);
      let line = y + 4;
      while (taken.some(([left, top, right]) => x + 8 < right && x + 8 + word.length * LETTER > left && Math.abs(top - line) < LINE)) line += LINE;
      taken.push([x + 8, line, x + 8 + word.length * LETTER]);
      svg.append(h("svg:circle", { cx: x, cy: y, r: strong ? 4.5 : 3, fill: strong ? "var(--accent)" : "var(--faint)" }),
        h("svg:text", { x: x + 8, y: line, class: strong ? "asked" : "" }, word, h("svg:title", {}, `${word}: nearest ${map.nearest[index]}, cosine ${number(map.similarities[index], 3)}`)));
    }
    clear(place, svg);
  }
  new ResizeObserver(() => { const width = Math.min(WIDEST, Math.round(place.clientWidth)); if (width && width !== WIDTH) { WIDTH = width; draw(); } }).observe(place);
  const save = h("button", { type: "button", class: "save", "aria-label": "Save the map of words as SVG", onclick: () => saveSvg(svg, "map of words") }, "SVG");
  const shown = map.explained_variance.reduce((sum, share) => sum + share, 0);
  return h("section", { class: "card full word-map" }, h("div", { class: "tools" }, h("h2", {}, "Where the words lie"), save), place,
    h("p", { class: "small soft" }, `The first two principal components of the word vectors shown, ${percent(shown)} of their variance.${map.analogies.length ? " Orange: the difference of two words, and the same added to the third; the ring is where the answer is expected." : ""}`));
}
