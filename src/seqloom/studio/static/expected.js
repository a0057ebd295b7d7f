// What a language model expected at each place of a text: how surprising the token is, and what was more probable.

import { meter } from "./answer.js";
import { clear, h } from "./dom.js";
import { number } from "./format.js";
import { heatmap } from "./heatmap.js";
import { visible } from "./strip.js";

const CONTEXT = 40; // letters before a place

// token_values of an explanation; values[i] is that of the token after the input token i.
export function expectedCard({ label, tokens, values, expected }, link) {
  const picture = heatmap({ title: label[0].toUpperCase() + label.slice(1), values, rows: 1, columns: values.length, rowName: () => "surprisal", columnName: (column) => visible(tokens[column] ?? ""), link, height: 32, limits: [0, Math.max(...values)] });
  if (!expected?.length) return h("div", { class: "card full" }, picture);
  const most = values.indexOf(Math.max(...values)), separator = tokens.every((token) => token.length <= 1 || token === tokens.at(-1)) ? "" : " ";
  const content = h("div", { "aria-live": "polite" });
  function show(column) {
    const place = column !== null && column < expected.length ? column : most, before = tokens.slice(0, place).join(separator);
    clear(content, h("p", { class: "nowrap clipped" }, h("span", { class: "soft" }, before.length > CONTEXT ? `… ${before.slice(-CONTEXT)}` : before || "at the beginning", " "), h("mark", {}, visible(tokens[place])), h("span", { class: "soft" }, ` ${number(2 ** -values[place] * 100, 2)} %`)),
      h("h3", {}, "What the model expected here"), meter(Object.fromEntries(expected[place].map(([token, probability]) => [visible(token), probability]))));
  }
  show(null);
  link.listen(show);
  return h("section", { class: "card full" }, h("div", { class: "expected" }, h("div", {}, picture, h("p", { class: "small soft" }, "Strong colours: tokens that the model did not expect. Move over the text to see what it expected in their place; at first, the most surprising one is shown.")), content));
}
