// Short facts in a row of a table: as many as fit, and a button that shows all of them.

import { clear, h } from "./dom.js";

const LETTER = 6, REST = 22, WIDEST = 220, MORE = 34; // pixels: a letter, the rest of a chip, the widest chip, the button
const LINES = 2; // of a row

// How many of the texts fit into some lines of a width, with room for a button if not all do.
export function fitting(texts, width, lines = LINES) {
  const sizes = texts.map((text) => Math.min(WIDEST, LETTER * text.length + REST));
  const places = (count, button) => {
    let line = 0, end = 0;
    for (const size of [...sizes.slice(0, count), ...(button ? [MORE] : [])]) {
      if (end && end + size > width) { line++; end = 0; }
      end += size;
    }
    return line;
  };
  if (places(texts.length, false) < lines) return texts.length;
  let count = texts.length - 1;
  while (count > 0 && places(count, true) >= lines) count--;
  return count;
}

// items: [{text, chip()}]. title: of the list of all. total: how many there are, if not all are items.
export function chipRow(items, { width, title, lines = LINES, total = items.length }) {
  const count = total > items.length ? Math.min(fitting([...items.map(({ text }) => text), ""], width, lines), items.length) : fitting(items.map(({ text }) => text), width, lines);
  const shown = items.slice(0, count).map(({ chip }) => chip());
  if (count === total) return shown;
  const button = h("button", { type: "button", class: "more never", "aria-haspopup": "dialog", "aria-label": `${title}: show all ${total}`, onclick: () => open(button, items, title, total) }, `+${total - count}`);
  return [...shown, button];
}

// A panel below a button, in front of everything; Escape or a click elsewhere closes it.
function open(button, items, title, total) {
  const panel = h("div", { class: "panel all-chips", popover: "auto", role: "dialog", "aria-label": title, tabindex: -1 });
  clear(panel, h("h2", {}, title), h("div", {}, items.map(({ chip }) => h("div", {}, chip()))), total > items.length ? h("p", { class: "small soft" }, `and ${total - items.length} more`) : null);
  panel.addEventListener("toggle", (event) => { if (event.newState === "closed") panel.remove(); });
  button.after(panel);
  panel.showPopover();
  const place = button.getBoundingClientRect();
  panel.style.left = `${Math.max(8, Math.min(place.left, innerWidth - panel.offsetWidth - 8))}px`;
  panel.style.top = `${place.bottom + panel.offsetHeight + 8 < innerHeight ? place.bottom + 4 : Math.max(8, place.top - panel.offsetHeight - 4)}px`;
  panel.focus();
}
