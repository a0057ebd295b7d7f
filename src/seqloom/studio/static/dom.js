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

// A function that is called once its arguments have rested for a moment.
export function debounce(call, milliseconds) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), milliseconds);
  };
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

export function colour(index) {
  return `var(--c${index % 10})`;
}
