// Elements from data. Text is always a text node: markup in names, labels and inputs is inert.

export function h(tag, attributes = {}, ...children) {
  const svg = tag.startsWith("svg:");
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "class") element.setAttribute("class", value);
    else if (name in element && !svg && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function clear(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function message(title, ...lines) {
  return h("div", { class: "message" }, h("h1", {}, title), lines.map((line) => h("p", {}, line)));
}

export function errorBox(error) {
  return h("div", { class: "error", role: "alert" }, error.message || String(error));
}

// A function that is called once its arguments have rested for a moment; now(): at once, if a call is waiting.
export function debounce(call, milliseconds) {
  let timer = null, waiting = null;
  const now = () => {
    clearTimeout(timer);
    const values = waiting;
    waiting = null;
    if (values) call(...values);
  };
  const later = (...values) => {
    clearTimeout(timer);
    waiting = values;
    timer = setTimeout(now, milliseconds);
  };
  return Object.assign(later, { now });
}

// A function that may be called often: it acts so rarely that it takes at most half a per cent of the time, with what the
// browser does to show it; and not while the page is hidden.
export function paced(call, least = 1000) {
  let busy = false, again = false;
  const act = () => {
    if (document.hidden) { document.addEventListener("visibilitychange", act, { once: true }); return; }
    const start = performance.now();
    again = false;
    call();
    requestAnimationFrame(() => setTimeout(() => setTimeout(() => {
      busy = again;
      if (again) act();
    }, Math.max(least, 200 * (performance.now() - start)))));
  };
  return () => {
    again = busy;
    if (!busy) { busy = true; act(); }
  };
}

// One place of the tab order for many buttons: arrow keys, Home and End move among them.
export function rove(box, buttons, current = 0) {
  let at = Math.max(0, current);
  buttons.forEach((button, index) => { button.tabIndex = index === at ? 0 : -1; });
  const move = (index) => {
    buttons[at].tabIndex = -1;
    at = index;
    buttons[at].tabIndex = 0;
  };
  box.addEventListener("focusin", (event) => { const index = buttons.findIndex((button) => button.contains(event.target)); if (index >= 0) move(index); });
  box.addEventListener("keydown", (event) => {
    const next = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    buttons[Math.max(0, Math.min(buttons.length - 1, next))].focus();
  });
}

export const COLOURS = 10; // as in style.css

export function colour(index) {
  return `var(--c${index % COLOURS})`;
}
