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

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
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

function canvasPicture(canvas) {
  const image = document.createElement("img");
  image.src = canvas.toDataURL("image/png");
  image.style.cssText = canvas.style.cssText;
  return image;
}

// The element as a page by mail: styles and pictures inside, no script, no link.
export async function savePage(element, title) {
  const style = await (await fetch("/static/style.css")).text();
  const copy = element.cloneNode(true);
  const canvases = element.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, index) => canvas.replaceWith(canvasPicture(canvases[index])));
  copy.querySelectorAll("button.save, .tip, .cursor, input, select, textarea").forEach((part) => part.remove());
  const theme = document.documentElement.dataset.theme || "light";
  const page = document.implementation.createHTMLDocument(title);
  page.documentElement.dataset.theme = theme;
  const sheet = page.createElement("style");
  sheet.textContent = style;
  const main = page.createElement("main");
  main.append(page.importNode(copy, true));
  page.head.append(sheet);
  page.body.append(main);
  download(`${safeName(title)}.html`, "text/html", `<!doctype html>\n${page.documentElement.outerHTML}`);
}
