// Pictures as files: SVG, or one HTML page that needs nothing else.

function resolved(svg) {
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

function safeName(title) {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "") || "picture";
}

export function saveSvg(svg, title) {
  const copy = resolved(svg);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.documentElement).getPropertyValue("--ground").trim());
  copy.prepend(ground);
  download(`${safeName(title)}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
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
  svg.append(node("rect", { width: "100%", height: "100%", fill: ground }), node("text", { x: left, y: 20, "font-weight": 600 }, title));
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
  copy.querySelectorAll(".save, .bar button, .tip, .cursor, .brush, .never, input, audio").forEach((part) => part.remove());
  await Promise.all([...copy.querySelectorAll("img:not([src^='data:'])")].map(async (image) => {
    image.removeAttribute("loading");
    const source = image.getAttribute("src"), shown = [...element.querySelectorAll("img")].find((each) => each.getAttribute("src") === source);
    image.src = source.startsWith("blob:") ? drawn(shown) : await dataAddress(source).catch(() => "");
  }));
  copy.querySelectorAll("a").forEach((link) => link.removeAttribute("href"));
  copy.querySelectorAll("details").forEach((part) => part.setAttribute("open", ""));
  const theme = document.documentElement.dataset.theme || "light";
  // As text: the policy of the studio allows no styles that are written into a page.
  const escaped = title.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const head = `<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${escaped}</title><style>\n${style}</style>`;
  download(`${safeName(title)}.html`, "text/html", `<!doctype html>\n<html lang="en" data-theme="${theme}"><head>${head}</head><body><main>${copy.innerHTML}</main></body></html>\n`);
}
