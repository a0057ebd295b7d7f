// Pictures as files: SVG, or one HTML page that needs nothing else.

// A copy of a drawing that has the styles of the page in it.
export function resolved(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family"]) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && value !== "normal") copies[index].setAttribute(name, value);
    }
    if (style.getPropertyValue("fill") === "none") copies[index].setAttribute("fill", "none");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return copy;
}

export function download(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const MOST_RUNS = 3; // that a name of a file holds

// The runs that the address names.
function subjects() {
  const query = new URLSearchParams(location.search), runs = [...query.getAll("run"), ...query.getAll("runs")];
  return runs.length > MOST_RUNS ? [...runs.slice(0, MOST_RUNS), `${runs.length - MOST_RUNS} more`] : runs;
}

function fullTitle(title) {
  return [subjects().join(", "), title].filter(Boolean).join(": ");
}

function safeName(title) {
  return [...subjects(), title].join(" ").toLowerCase().replace(/[^\p{L}\p{N}_]+/gu, "-").replace(/^-|-$/g, "") || "picture";
}

// A drawing with its title above; yLabel: of its axis; legend: [{name, colour, dashed, dots}], which stands below.
export function saveSvg(svg, title, { yLabel = "", legend = [] } = {}) {
  const copy = resolved(svg), box = svg.viewBox.baseVal, area = box?.width ? box : { x: 0, y: 0, width: svg.clientWidth, height: svg.clientHeight };
  const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink").trim(), left = yLabel ? 20 : 0, top = 32, line = 20;
  const drawing = node("g", { transform: `translate(${left - area.x} ${top - area.y})` }), width = area.width + left, rows = [[]];
  drawing.append(...copy.childNodes);
  let end = 12;
  for (const entry of legend) {
    const size = 36 + 7 * entry.name.length;
    if (end + size > width && rows.at(-1).length) { rows.push([]); end = 12; }
    rows.at(-1).push({ ...entry, x: end });
    end += size;
  }
  const height = area.height + top + (legend.length ? rows.length * line + 8 : 0);
  const text = { fill: ink, stroke: "none", "font-family": "system-ui, sans-serif" };
  copy.append(node("rect", { width, height, fill: style.getPropertyValue("--ground").trim(), stroke: "none" }), node("text", { ...text, x: 12, y: 20, "font-size": 13, "font-weight": 600 }, fullTitle(title)), drawing);
  const middle = top + area.height / 2;
  if (yLabel) copy.append(node("text", { ...text, x: 14, y: middle, "font-size": 12, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, yLabel));
  rows.forEach((entries, row) => entries.forEach(({ name, colour, dashed, dots, x }) => {
    const y = top + area.height + row * line + 10, seen = colourValue(svg, colour);
    copy.append(dots ? node("circle", { cx: x + 8, cy: y, r: 4, fill: "none", stroke: seen, "stroke-width": 1.75 }) : node("line", { x1: x, x2: x + 16, y1: y, y2: y, stroke: seen, "stroke-width": 2.5, "stroke-dasharray": dashed ? "5 4" : "none" }), node("text", { ...text, x: x + 22, y: y + 4, "font-size": 12 }, name));
  }));
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("aria-label", fullTitle(title));
  download(`${safeName(title)}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
}

// A colour such as var(--c0) as a file can hold it.
function colourValue(svg, colour) {
  const probe = node("line", { stroke: colour });
  svg.append(probe);
  const value = getComputedStyle(probe).stroke;
  probe.remove();
  return value;
}

function node(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

// A canvas with its title, the names of its columns and the scale of its colours.
export function saveHeatmap({ title, canvas, columnNames, low, high, signed, colours }) {
  const width = 720, height = 240, left = 16, top = 32, style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), ground = style.getPropertyValue("--ground").trim();
  const svg = node("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width + 32} ${height + 96}`, "font-family": "system-ui, sans-serif", "font-size": 12, fill: ink });
  svg.append(node("rect", { width: "100%", height: "100%", fill: ground }), node("text", { x: left, y: 20, "font-weight": 600 }, fullTitle(title)));
  svg.append(node("image", { x: left, y: top, width, height, preserveAspectRatio: "none", href: canvas.toDataURL("image/png"), "image-rendering": "pixelated" }));
  const step = Math.max(1, Math.ceil(columnNames.length / 40));
  columnNames.forEach((name, index) => {
    if (index % step) return;
    const x = left + ((index + 0.5) / columnNames.length) * width;
    svg.append(node("text", { x, y: top + height + 12, transform: `rotate(45 ${x} ${top + height + 12})` }, name));
  });
  const shades = signed ? colours : colours.slice(1);
  shades.forEach((fill, index) => svg.append(node("rect", { x: width - 64 + index * 16, y: 10, width: 16, height: 10, fill })));
  svg.append(node("text", { x: width - 70, y: 20, "text-anchor": "end" }, String(Number(low.toPrecision(2)))), node("text", { x: width - 60 + 16 * shades.length, y: 20 }, String(Number(high.toPrecision(2)))));
  download(`${safeName(title)}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(svg));
}

function canvasPicture(canvas) {
  const image = document.createElement("img");
  image.src = canvas.toDataURL("image/png");
  image.style.cssText = canvas.style.cssText;
  image.className = canvas.className;
  image.alt = canvas.getAttribute("aria-label") || "";
  return image;
}

// A canvas as it is.
export function savePicture(canvas, title) {
  const { width, height } = canvas, scale = Math.max(1, Math.round(480 / width));
  const svg = node("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width * scale} ${height * scale}` });
  svg.append(node("image", { width: width * scale, height: height * scale, href: canvas.toDataURL("image/png"), "image-rendering": "pixelated" }));
  download(`${safeName(title)}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(svg));
}

// What an address shows, as text that a page can hold.
async function dataAddress(source) {
  const content = await (await fetch(source)).blob();
  return new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(content);
  });
}

// An image of a file that was given, which the policy of the studio lets no script fetch.
function drawn(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/png");
}

// Of a long table, only the rows around those that can be seen are in the document.
function sayWhichRows(table) {
  const places = [...table.querySelectorAll("[aria-rowindex]")].map((row) => Number(row.getAttribute("aria-rowindex")) - 1), total = Number(table.getAttribute("aria-rowcount")) - 1;
  table.querySelectorAll("tr:has(td.space)").forEach((row) => row.remove());
  if (!places.length || places.length >= total) return;
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = places[0] === 1 ? `The first ${places.length} of ${total} are saved here.` : `Rows ${places[0]} to ${places.at(-1)} of ${total} are saved here.`;
  table.closest(".table").before(note);
}

// The element as a page by mail: styles and pictures inside, no script, no link.
export async function savePage(element, title) {
  const style = await (await fetch("/static/style.css")).text();
  const copy = element.cloneNode(true);
  const canvases = element.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, index) => canvas.replaceWith(canvasPicture(canvases[index])));
  copy.querySelectorAll("textarea").forEach((field, index) => {
    const text = document.createElement("p");
    text.className = "answer";
    text.textContent = element.querySelectorAll("textarea")[index].value;
    field.replaceWith(text);
  });
  copy.querySelectorAll("select").forEach((select, index) => {
    const text = document.createElement("span");
    text.className = "soft";
    text.textContent = element.querySelectorAll("select")[index].selectedOptions[0]?.textContent ?? "";
    select.replaceWith(text);
  });
  // Buttons that hold something to read become text; what only acts is of no use.
  copy.querySelectorAll("label:has(input), .save, .bar button, .button, .tip, .cursor, .brush, .never, input, audio").forEach((part) => part.remove());
  copy.querySelectorAll("button").forEach((button) => {
    if (!button.matches("th *, td *, .token, .chip-button, .disclosure, [aria-pressed]")) { button.remove(); return; }
    const text = document.createElement("span");
    text.className = button.className;
    text.style.cssText = button.style.cssText; // its colour
    text.title = button.title;
    text.append(...button.childNodes);
    button.replaceWith(text);
  });
  await Promise.all([...copy.querySelectorAll("img:not([src^='data:'])")].map(async (image) => {
    image.removeAttribute("loading");
    const source = image.getAttribute("src"), shown = [...element.querySelectorAll("img")].find((each) => each.getAttribute("src") === source);
    image.src = source.startsWith("blob:") ? drawn(shown) : await dataAddress(source).catch(() => "");
  }));
  copy.querySelectorAll("a").forEach((link) => link.removeAttribute("href"));
  copy.querySelectorAll("table:has(td.space)").forEach(sayWhichRows);
  copy.querySelectorAll("details").forEach((part) => part.setAttribute("open", ""));
  const theme = document.documentElement.dataset.theme || "light";
  // As text: the policy of the studio allows no styles that are written into a page.
  const escaped = fullTitle(title).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const head = `<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${escaped}</title><style>\n${style}</style>`;
  download(`${safeName(title)}.html`, "text/html", `<!doctype html>\n<html lang="en" data-theme="${theme}"><head>${head}</head><body><main>${copy.innerHTML}</main></body></html>\n`);
}
