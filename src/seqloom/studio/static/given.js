// Inputs that no address can hold, such as a drawing or a file, by a number that it can; they last until the page is reloaded.

const MOST = 20;
const given = new Map();
let count = 0;

export function keepInput(value) {
  for (const [number, kept] of given) if (kept === value) return number;
  given.set(String(++count), value);
  if (given.size > MOST) given.delete(given.keys().next().value);
  return String(count);
}

// null: there is none.
export function keptInput(number) {
  return given.get(number) ?? null;
}
