// A long table with rows of one height: only those that can be seen, and some around them, are in the document.

import { clear, h } from "./dom.js";

const ROW = 40; // pixels, as in style.css
const CHUNK = 8; // rows that are added or removed together while the table is scrolled

// row(item): its element. frame: the element that scrolls. width(): the number of columns. height(): of a row in pixels.
export function longTable({ frame, body, row, width, empty, height = () => ROW }) {
  let items = [], drawn = [0, 0], waiting = false;
  const made = new Map(); // the rows in the document, by their place
  const above = space(), below = space();

  // Scrolling moves no row that stays.
  function fill(changed = false) {
    const seen = Math.ceil((frame.clientHeight || 800) / height());
    const first = Math.max(0, Math.floor(frame.scrollTop / height() / CHUNK - 0.5) * CHUNK);
    const last = Math.min(items.length, first + (Math.ceil(seen / CHUNK) + 2) * CHUNK);
    if (!changed && first === drawn[0] && last === drawn[1]) return;
    if (changed) {
      made.clear();
      clear(body, above.row, below.row, items.length ? null : h("tr", {}, h("td", { colSpan: width(), class: "soft" }, empty)));
    }
    for (const [index, element] of made) if (index < first || index >= last) { element.remove(); made.delete(index); }
    above.set(first);
    below.set(items.length - last);
    for (let index = last - 1, next = below.row; index >= first; index--) {
      if (!made.has(index)) {
        const element = row(items[index]);
        element.setAttribute("aria-rowindex", String(index + 2));
        made.set(index, element);
        next.before(element);
      }
      next = made.get(index);
    }
    drawn = [first, last];
    body.closest("table").setAttribute("aria-rowcount", String(items.length + 1));
  }

  // A row as high as the rows that are not in the document.
  function space() {
    const cell = h("td", { class: "space" }), element = h("tr", { "aria-hidden": "true", hidden: true }, cell);
    return { row: element, set: (rows) => { element.hidden = !rows; cell.colSpan = width(); cell.style.height = `${rows * height()}px`; } };
  }

  frame.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; fill(); });
  }, { passive: true });
  new ResizeObserver(() => fill()).observe(frame);
  return { show: (list) => { items = list; fill(true); } };
}

// Numbers come before texts.
export function compareValues(a, b) {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}
