// A panel below a button, closed by Escape or by a click elsewhere.

import { h } from "./dom.js";

export function popover(label, content, opened = () => {}) {
  const panel = h("div", { class: "panel" }, content);
  const menu = h("details", { class: "menu never", ontoggle: () => menu.open && opened() }, h("summary", {}, label), panel);
  menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); } });
  const close = (event) => { if (!menu.isConnected) document.removeEventListener("pointerdown", close); else if (!menu.contains(event.target)) menu.open = false; };
  document.addEventListener("pointerdown", close);
  return menu;
}
