// Inputs of one's own as part of an address. Drawings and numbers are written into it; of a file, a recording, or what would be
// too long, it holds the name and the hash, by which this browser keeps the content.

import { decodeDrawing, Drawing, encodeDrawing, readable } from "./drawing.js";
import { h } from "./dom.js";
import { keepFile, keptFile } from "./kept.js";
import { holdsOwnInput } from "./router.js";

const LONGEST = 4000; // letters of an address that an input may take
const TEXT = "text/x-seqloom-input"; // the type of a file that holds what an address would hold if it were shorter

// Neither a text nor an example of the dev data, which have their own places in an address.
export function isOwn(value) {
  return typeof value !== "string" && value?.example === undefined;
}

// Whether an input takes the place of another one that somebody typed, drew or gave, to which Back should lead; a drawing that goes on does not.
export function takesPlace(value, before) {
  return value !== before && typeof value !== "string" && !(value instanceof Drawing && before instanceof Drawing) && holdsOwnInput();
}

function written(value) {
  return value instanceof Drawing ? `drawing.${encodeDrawing(value)}` : `numbers.${value.map((row) => row.join("_")).join("*")}`;
}

function readText(text) {
  const at = text.indexOf("."), [kind, content] = [text.slice(0, at), text.slice(at + 1)];
  if (kind === "drawing") return decodeDrawing(content);
  const rows = kind === "numbers" ? content.split("*").map((row) => row.split("_").map(Number)) : [];
  return rows.length && rows.every((row) => row.every(Number.isFinite)) ? rows : null;
}

// The part of an address that stands for an input; it fails where the browser cannot keep a file.
export async function keepInput(value) {
  if (value instanceof File) return `file.${await keepFile(value)}.${value.name}`;
  const text = written(value);
  if (text.length <= LONGEST) return text;
  const name = value instanceof Drawing ? "drawing" : "numbers";
  return `file.${await keepFile(new File([text], name, { type: TEXT }))}.${name}`;
}

// The input of an address; null: there is none, or this browser does not have it.
export async function keptInput(text) {
  if (!text) return null;
  if (!text.startsWith("file.")) return readText(text);
  const file = await keptFile(text.split(".")[1]);
  return file?.type === TEXT ? readText(await file.text()) : file;
}

// Says that the input of an address is not here.
export function missingInput(text) {
  const [kind, , ...name] = text.split(".");
  if (kind !== "file") return h("div", { class: "error", role: "alert" }, "This address holds no input that can be read: perhaps it was cut. Copy it again, or give the model another input.");
  return h("div", { class: "error", role: "alert" }, `This address names the input “${name.join(".")}”, which this browser does not have. Dropped files and recordings are kept only in the browser in which they were given, and only the last ones. Give the model the same file again, or another input.`);
}

// The body of a request about an input, as JSON or as a form. model: what it reads, as /api/model says it, which decides how a drawing is sent.
export async function inputBody(value, model, fields) {
  const given = value instanceof Drawing ? await readable(value, model) : value;
  if (!(given instanceof File)) return { ...fields, ...(given?.example !== undefined ? { example: given.example } : { input: given }) };
  const form = new FormData();
  for (const [name, each] of Object.entries(fields)) if (each !== "") form.append(name, String(each));
  form.append("file", given);
  return form;
}
