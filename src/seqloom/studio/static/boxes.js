// Parts of a page that are no drawing, such as bars and coloured words, as SVG: boxes, texts and pictures where the browser has put them.

import { h } from "./dom.js";
import { resolved, saveSvg } from "./save.js";

const NEVER = ".never, .save, .tip, [hidden]";
const SIDES = ["top", "right", "bottom", "left"];

// A button that saves an element as it is now. element(): which one.
export function saveBoxesButton(title, element) {
  return h("button", { type: "button", class: "save", "aria-label": `Save ${title} as SVG`, onclick: () => saveSvg(boxes(element()), title) }, "SVG");
}

// An SVG drawing of what an element shows, also of what lies outside of the part that is scrolled to.
export function boxes(element) {
  const area = element.getBoundingClientRect(), width = Math.max(area.width, element.scrollWidth), height = Math.max(area.height, element.scrollHeight);
  const svg = h("svg:svg", { viewBox: `-12 0 ${width + 24} ${height + 12}`, fill: "none" });
  const origin = [area.left - element.scrollLeft, area.top - element.scrollTop];
  visit(element, svg, origin);
  return svg;
}

function visit(element, svg, origin) {
  if (element.matches(NEVER)) return;
  const style = getComputedStyle(element), box = element.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden") return;
  const place = { x: box.left - origin[0], y: box.top - origin[1], width: box.width, height: box.height };
  if (element instanceof SVGElement) {
    const copy = resolved(element);
    for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value);
    svg.append(copy);
    return;
  }
  if (element instanceof HTMLCanvasElement) { svg.append(h("svg:image", { ...place, preserveAspectRatio: "none", href: element.toDataURL("image/png") })); return; }
  frame(svg, style, place);
  mark(svg, element, place);
  for (const child of element.childNodes) {
    if (child instanceof Text) write(svg, child, style, origin);
    else if (child instanceof Element) visit(child, svg, origin);
  }
}

function isSeen(colour) {
  return colour && colour !== "transparent" && !/^rgba\(.*, 0\)$/.test(colour);
}

// The ground and the borders of a box.
function frame(svg, style, { x, y, width, height }) {
  const borders = SIDES.map((side) => ({ width: parseFloat(style.getPropertyValue(`border-${side}-width`)), colour: style.getPropertyValue(`border-${side}-color`) })), rx = Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2, width / 2);
  const whole = borders.every((border) => border.width && border.colour === borders[0].colour && border.width === borders[0].width);
  if (isSeen(style.backgroundColor) || (whole && isSeen(borders[0].colour))) svg.append(h("svg:rect", { x, y, width, height, rx, fill: isSeen(style.backgroundColor) ? style.backgroundColor : "none", stroke: whole && isSeen(borders[0].colour) ? borders[0].colour : "none", "stroke-width": whole ? borders[0].width : 0 }));
  if (whole) return;
  const ends = [[x, y, x + width, y], [x + width, y, x + width, y + height], [x, y + height, x + width, y + height], [x, y, x, y + height]];
  borders.forEach((border, side) => {
    const [x1, y1, x2, y2] = ends[side];
    if (border.width && isSeen(border.colour)) svg.append(h("svg:line", { x1, y1, x2, y2, stroke: border.colour, "stroke-width": border.width }));
  });
}

// The small coloured mark before a name, as in legends.
function mark(svg, element, { x, y, height }) {
  const style = getComputedStyle(element, "::before");
  if (style.content === "none" || !isSeen(style.backgroundColor)) return;
  const size = [parseFloat(style.width), parseFloat(style.height)];
  if (size.every(Number.isFinite)) svg.append(h("svg:rect", { x, y: y + (height - size[1]) / 2, width: size[0], height: size[1], rx: 2, fill: style.backgroundColor }));
}

// A text, line by line as it is broken.
function write(svg, text, style, origin) {
  const size = parseFloat(style.fontSize), range = document.createRange(), lines = [];
  for (let index = 0; index < text.length; index++) {
    range.setStart(text, index);
    range.setEnd(text, index + 1);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    if (lines.length && Math.abs(lines.at(-1).box.top - box.top) < 2) lines.at(-1).text += text.data[index];
    else lines.push({ text: text.data[index], box });
  }
  for (const { text: content, box } of lines) {
    if (content.trim()) svg.append(h("svg:text", { x: box.left - origin[0], y: box.top - origin[1] + box.height / 2 + 0.35 * size, fill: style.color, "font-size": size, "font-weight": style.fontWeight, "font-family": style.fontFamily, "xml:space": "preserve" }, content));
  }
}
